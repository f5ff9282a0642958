//! Whose Pods and claims are whose.
//!
//! - A Pod of the set whose labels no longer match the selector is *released*: it loses its owner and lives on, and a
//!   new Pod takes its place. Pods without owner are never taken.
//! - A claim belongs to the Pod with the same instance id. With `enablePVCReuse`, the claims of a Pod that somebody
//!   else removed wait for a new Pod, which then has the name of the old one. Without, they go with the Pod: a claim
//!   whose Pod has ended or is on its way out gets that Pod as its owner, and one that has no Pod at all is deleted.
//! - The claims of a Pod that the set itself deletes go with it either way. With `enablePVCReuse` they get the Pod as
//!   their owner before it is deleted: a claim without a Pod could not tell whether it shall wait or go.
//! - The claims of a Pod that lives are the set's. When it was about to be deleted and stays after all (the deletion was
//!   refused, or somebody wants more replicas again), the set takes them back.
//! - A claim that was made only just now is not deleted: its Pod may be on its way into our cache.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kruise_api::kind::Kind as _;
use kruise_api::meta::{Meta, PartialObject, Uid};
use kruise_api::names::{event, label};
use kruise_api::pod::Pod;
use kruise_api::resource::Preconditions;

use super::snapshot::Snapshot;
use crate::plan::{Action, Chain, Event, OnFailure, Pace, Phase, Plan, Step, Target, Write};
use crate::shared::availability::is_active;
use crate::shared::owner::{self, Owner};
use crate::shared::seconds::whole_seconds;

/// How long a claim without a Pod is left alone after it was made.
const GRACE: SignedDuration = SignedDuration::from_secs(30);

/// The instance id that pairs a Pod with its claims.
pub(super) fn instance_id(meta: &Meta) -> Option<&str> {
    meta.label(label::POD_INSTANCE_ID).filter(|id| !id.is_empty())
}

/// The claims of a set by instance id.
#[derive(Debug, Default)]
pub(super) struct Claims<'a> {
    by_id: BTreeMap<&'a str, Vec<&'a Meta>>,
}

impl<'a> Claims<'a> {
    /// All claims that are not on their way out.
    pub(super) fn of(claims: impl Iterator<Item = &'a PartialObject>) -> Self {
        let mut by_id: BTreeMap<&str, Vec<&Meta>> = BTreeMap::new();
        for meta in claims.map(|claim| &claim.metadata).filter(|meta| !meta.is_deleting()) {
            if let Some(id) = instance_id(meta) {
                by_id.entry(id).or_default().push(meta);
            }
        }
        for claims in by_id.values_mut() {
            claims.sort_by(|one, other| one.name.cmp(&other.name));
        }
        Self { by_id }
    }

    /// The claims with this id.
    pub(super) fn with_id(&self, id: &str) -> &[&'a Meta] {
        self.by_id.get(id).map_or(&[], Vec::as_slice)
    }

    /// The claims with the id of this Pod.
    pub(super) fn of_pod(&self, pod: &Meta) -> &[&'a Meta] {
        instance_id(pod).map_or(&[], |id| self.with_id(id))
    }

    /// True when there is a claim with this id and name.
    pub(super) fn has(&self, id: &str, name: &str) -> bool {
        self.with_id(id).iter().any(|claim| &*claim.name == name)
    }

    /// All ids, sorted.
    pub(super) fn ids(&self) -> impl Iterator<Item = &'a str> {
        self.by_id.keys().copied()
    }
}

/// Deletes a claim.
pub(super) fn delete(claim: &Meta) -> Write {
    let failed = Event::warning(event::FAILED_DELETE, format!("failed to delete claim {}", claim.name));
    Write::from(Action::delete(
        Target::of_kind(PersistentVolumeClaim::RESOURCE, claim),
        Preconditions::same(claim),
    ))
    .or_else(failed)
}

/// Cleans up claims that no active Pod needs. `pods` are all Pods of the set by instance id, with whether they are
/// active.
pub(super) fn clean_up_unused(
    plan: &mut Plan,
    claims: &Claims<'_>,
    pods: &BTreeMap<&str, (&Pod, bool)>,
    set: &Uid,
    now: Timestamp,
) {
    let mut step = Step::new(Phase::Claims, Pace::Bounded, OnFailure::Skip);
    for (id, metas) in &claims.by_id {
        match pods.get(id) {
            Some((_, true)) => {}
            Some((pod, false)) => metas
                .iter()
                .for_each(|claim| step.push(Chain::of(transfer_to_pod(claim, pod, set)))),
            None => {
                for claim in metas {
                    match remaining_grace(claim, now) {
                        Some(rest) => plan.wake(rest),
                        None => step.push(Chain::of(delete(claim))),
                    }
                }
            }
        }
    }
    plan.push(step);
}

/// Takes back the claims of Pods that were to be deleted and live on. It comes first and holds up nothing: whatever else fails,
/// nobody's volume may go with a Pod that is meant to stay.
pub(super) fn reclaim(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    if snapshot.pods_claims.by_id.is_empty() {
        return;
    }
    let deleted = plan.writes().filter_map(|action| match action {
        Action::Delete { object, .. } if object.resource == Pod::RESOURCE => Some(&*object.name),
        _ => None,
    });
    let deleted: BTreeSet<&str> = deleted.collect();
    let mut step = Step::new(Phase::Claims, Pace::Bounded, OnFailure::GoOn);
    let stays = |pod: &&Pod| is_active(pod) && !deleted.contains(&*pod.metadata.name);
    for pod in snapshot.all_pods().filter(stays) {
        for claim in snapshot.pods_claims.of_pod(&pod.metadata) {
            step.push(Chain::of(transfer_to_set(claim, pod, &snapshot.owner)));
        }
    }
    plan.push_first(step);
}

/// How much longer a claim is left alone because it is young.
fn remaining_grace(claim: &Meta, now: Timestamp) -> Option<Duration> {
    let age = now.duration_since(claim.creation_timestamp?.timestamp());
    let rest = GRACE - age;
    (rest.is_positive() && !age.is_negative()).then(|| whole_seconds(rest))
}

/// Makes a Pod the owner of a claim, instead of the set: it goes with the Pod.
pub(super) fn transfer_to_pod(claim: &Meta, pod: &Pod, set: &Uid) -> Write {
    let failed = format!(
        "failed to make pod {} the owner of claim {}",
        pod.metadata.name, claim.name
    );
    let action = owner::transfer(PersistentVolumeClaim::RESOURCE, claim, set, &Owner::of_pod(pod));
    Write::from(action).or_else(Event::warning(event::FAILED_UPDATE, failed))
}

/// Makes the set the owner of a claim, instead of the Pod.
fn transfer_to_set(claim: &Meta, pod: &Pod, set: &Owner) -> Write {
    let failed = format!("failed to make the set the owner of claim {} again", claim.name);
    let action = owner::transfer(PersistentVolumeClaim::RESOURCE, claim, &pod.metadata.uid, set);
    Write::from(action).or_else(Event::warning(event::FAILED_UPDATE, failed))
}

#[cfg(test)]
mod tests;
