//! SidecarSet: containers injected into the pods of others, and updated in place afterwards.
//!
//! [`plan`] looks at a set and its Pods once and says what to do now. In this order:
//!
//! 1. What is injected gets its revision ([`revisions`]), and the status is brought up to date ([`status`]).
//! 2. Unless the set is of type `NotUpdate` or paused: spare containers whose update has ended are reset ([`hot_upgrade`]). Only when there is none,
//!    further Pods are updated ([`update`]), in an [order](order), within the partition and `maxUnavailable`.
//! 3. Pods that have arrived say that they can be updated ([`condition`]).
//! 4. Pods that should have the containers and do not are told of, and evicted where the set asks for it ([`missing`]).
//! 5. Revisions beyond the history limit are removed.
//! 6. It is told when a revision that new Pods are to get is gone, and which Pods have a container of another set in the place of one of this set.
//!
//! A Pod whose annotations cannot be read is left alone; the others go on. A set that is being deleted does nothing: Pods keep what they have.

pub mod admit;
mod condition;
mod consistency;
pub mod convert;
pub mod default;
pub mod expression;
pub mod hash;
mod hot_upgrade;
pub mod inject;
pub mod missing;
mod observed;
mod order;
pub mod patch_metadata;
pub mod preview;
pub mod records;
pub mod revisions;
pub mod select;
mod snapshot;
mod status;
#[cfg(test)]
mod tests;
mod update;
pub mod validate;
#[cfg(test)]
mod world;

use std::collections::BTreeSet;

use kruise_api::sidecarset::UpdateStrategyType;

pub use observed::{Observed, PodVersion};

use crate::plan::why;
use crate::plan::{Env, Outcome, Plan, PodNames};
use crate::shared::explain::explain_last;
use revisions::Revisions;
use snapshot::Snapshot;

/// What to do for a SidecarSet now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let mut plan = Plan::default();
    let set = &*observed.set;
    if set.metadata.deletion_timestamp.is_some() {
        plan.because(why::General::Deleting);
        return plan;
    }
    if set.metadata.uid.as_deref().unwrap_or_default().is_empty() {
        let message = "the set has no UID".to_owned();
        plan.because(why::General::Invalid { message });
        return plan;
    }
    let snapshot = Snapshot::of(observed, env);
    let revisions = Revisions::of(observed);
    let missing = missing::missing(observed);
    revisions.store(&mut plan);
    roll(&snapshot, &revisions, &mut plan);
    condition::confirm(&snapshot, &mut plan);
    missing::evict(&snapshot, &missing, &mut plan);
    let records = snapshot.members.iter().filter_map(|member| member.record.as_ref().ok());
    let in_use: BTreeSet<&str> = records.flatten().map(|record| &*record.controller_revision).collect();
    revisions.truncate(set, in_use, &mut plan);
    plan.status = status::write(&snapshot, &revisions, &missing);
    explain_last(&last(&snapshot), &mut plan);
    explain_unreadable(&snapshot, &mut plan);
    explain_others(&snapshot, &mut plan);
    explain_revision(observed, &mut plan);
    plan
}

/// Returns how many Pods lack the containers of a set.
pub fn count_missing(observed: &Observed) -> usize {
    missing::missing(observed).len()
}

/// Returns the Pods of which all annotations have to be read before a plan can update them; the cache keeps only some.
pub fn annotations_to_read(observed: &Observed, env: &Env) -> Vec<PodVersion> {
    let snapshot = Snapshot::of(observed, env);
    if rolls(&snapshot) {
        update::annotations_to_read(&snapshot)
    } else {
        Vec::new()
    }
}

fn rolls(snapshot: &Snapshot<'_>) -> bool {
    let strategy = &snapshot.set.spec.update_strategy;
    strategy.type_ != UpdateStrategyType::NotUpdate && !strategy.paused
}

fn roll(snapshot: &Snapshot<'_>, revisions: &Revisions<'_>, plan: &mut Plan) {
    let outdated = snapshot.members.iter().filter(|member| !member.is_updated).count();
    if !rolls(snapshot) {
        if snapshot.set.spec.update_strategy.paused && outdated > 0 {
            let outdated = i32::try_from(outdated).unwrap_or(i32::MAX);
            plan.because(why::Rollout::Paused { outdated });
        }
        return;
    }
    if hot_upgrade::reset(snapshot, plan) || outdated == 0 {
        return;
    }
    let choice = update::choose(snapshot);
    update::update(snapshot, &choice, &revisions.latest, plan);
}

/// What came of the last plan, with the namespaces of Pods.
fn last(snapshot: &Snapshot<'_>) -> Outcome {
    let members = snapshot.members.iter();
    let refused = members.filter(|member| update::was_refused(snapshot, member));
    Outcome {
        refused: refused.map(snapshot::Member::name).collect(),
        ..snapshot.observed.last.clone()
    }
}

fn explain_unreadable(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let mut pods = PodNames::default();
    let mut first = None;
    for member in &snapshot.members {
        let problem = member.record.as_ref().err().or(member.state.as_ref().err());
        if let Some(problem) = problem {
            pods.push(&member.name());
            first.get_or_insert_with(|| problem.clone());
        }
    }
    if let Some(message) = first {
        plan.because(why::Pods::Unreadable { pods, message });
    }
}

/// Names Pods in which containers of the set are those of another one.
fn explain_others(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let names = snapshot.sidecars.iter().map(|sidecar| sidecar.name);
    let mut pods = PodNames::default();
    for member in &snapshot.members {
        if names.clone().any(|name| !member.has_brought(name)) {
            pods.push(&member.name());
        }
    }
    if !pods.is_empty() {
        plan.because(why::Pods::SidecarsOfOthers { pods });
    }
}

/// Says that new Pods are refused, because the revision that they are to get is gone.
fn explain_revision(observed: &Observed, plan: &mut Plan) {
    let set = &*observed.set;
    let name = set.metadata.name.as_deref().unwrap_or_default();
    if let Some(named) = select::named_revision(set)
        && !set.spec.injection_strategy.paused
        && select::find_revision(name, named, &observed.revisions).is_none()
    {
        let revision = named.to_string();
        plan.because(why::Pods::RevisionGone { revision });
    }
}
