//! The revisions of a DaemonSet (see [`crate::shared::revision`]).
//!
//! - A revision has its hash in the label that Pods have, too, and no other. One of an older release without the label gets its name there.
//! - When several revisions say the same, the one with the highest number is kept: Pods of the others get its hash, and then the others go.
//! - Of old revisions so many are kept as the history limit says. Those that Pods are at count, and are never removed.

use std::collections::BTreeSet;

use kruise_api::names::label;
use kruise_api::resource::Preconditions;
use kruise_api::revision::ControllerRevision;
use serde_json::json;

use super::observed::Observed;
use super::snapshot::Snapshot;
use crate::plan::{Action, Chain, OnFailure, Pace, Phase, Plan, Step, Target};
use crate::shared::owner::Owner;
use crate::shared::pod_change::{Guard, PodChange};
use crate::shared::pod_update::change_pod;
use crate::shared::revision::{self, History, Revisions, Workload};

const DEFAULT_HISTORY_LIMIT: i32 = 10;

/// Finds the revisions of a set, or makes what is missing. Fails when the template cannot be kept.
pub(super) fn revisions<'a>(observed: &'a Observed, owner: &Owner) -> Result<Revisions<'a>, String> {
    let set = &*observed.set;
    let status = set.status.as_ref();
    let workload = Workload {
        owner,
        namespace: set.metadata.namespace.as_deref().unwrap_or_default(),
        annotations: set.metadata.annotations.as_ref(),
        template: &set.spec.template,
        claims: None,
    };
    let history = History {
        seen: &observed.revisions,
        selector: &set.spec.selector,
        current: "",
        collisions: status.and_then(|status| status.collision_count).unwrap_or_default(),
    };
    Revisions::hashed_in(label::REVISION, &workload, &history)
}

/// The hash of a revision, as Pods have it.
pub(super) fn hash(revision: &ControllerRevision) -> &str {
    revision
        .metadata
        .label(label::REVISION)
        .unwrap_or_else(|| revision.name())
}

/// Stores the update revision, and brings order into the others. True when Pods get another hash for the same revision.
pub(super) fn keep(snapshot: &Snapshot<'_>, plan: &mut Plan) -> bool {
    let revisions = &snapshot.revisions;
    revisions.store(plan);
    revisions.adopt(&snapshot.owner, plan);
    let mut step = Step::new(Phase::Revisions, Pace::Bounded, OnFailure::Skip);
    for revision in &revisions.known {
        if revision.metadata.label(label::REVISION).is_none() {
            let labels = json!({ "metadata": { "labels": { (label::REVISION): revision.name() } } });
            let same = Preconditions::same(*revision);
            step.push(Chain::of(
                Action::patch(Target::of(*revision), None, labels, same).into(),
            ));
        }
    }
    let relabels = relabel(snapshot, &mut step);
    plan.push(step);
    relabels
}

/// Gives the hash of the kept revision to Pods of others that say the same, and removes these when no Pod is at them any more.
fn relabel(snapshot: &Snapshot<'_>, step: &mut Step) -> bool {
    let mut relabels = false;
    for other in duplicates(snapshot) {
        let mut pods = snapshot
            .members()
            .filter(|member| !member.pod.metadata.is_deleting() && revision::of_pod(member.pod) == hash(other))
            .peekable();
        if pods.peek().is_none() {
            step.push(deletion(other));
        }
        for member in pods {
            let mut change = PodChange::default();
            relabels = true;
            change.set_label(label::REVISION, &snapshot.hash);
            step.push(change_pod(member.pod, change, Guard::Identity, snapshot.env));
        }
    }
    relabels
}

fn duplicates<'a>(snapshot: &Snapshot<'a>) -> impl Iterator<Item = &'a ControllerRevision> {
    let kept = snapshot.revisions.update.object();
    let is_same = |other: &&ControllerRevision| other.name() != kept.name() && other.data.json() == kept.data.json();
    snapshot.revisions.known.iter().copied().filter(is_same)
}

fn deletion(revision: &ControllerRevision) -> Chain {
    Chain::of(Action::delete(Target::of(revision), Preconditions::same(revision)).into())
}

/// Removes old revisions beyond the history limit, the lowest number first.
pub(super) fn truncate(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let update = snapshot.revisions.update.name();
    let old: Vec<&ControllerRevision> = snapshot
        .revisions
        .known
        .iter()
        .copied()
        .filter(|revision| revision.name() != update)
        .collect();
    let limit = snapshot
        .set
        .spec
        .revision_history_limit
        .unwrap_or(DEFAULT_HISTORY_LIMIT);
    let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    if surplus == 0 {
        return;
    }
    let live: BTreeSet<&str> = snapshot.members().map(|member| revision::of_pod(member.pod)).collect();
    let is_live = |revision: &ControllerRevision| live.iter().any(|name| revision::is_same(hash(revision), name));
    let mut step = Step::new(Phase::Housekeeping, Pace::Bounded, OnFailure::GoOn);
    for revision in old.into_iter().filter(|revision| !is_live(revision)).take(surplus) {
        step.push(deletion(revision));
    }
    plan.push(step);
}
