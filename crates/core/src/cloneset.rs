//! CloneSet: Pods that are all alike, owned directly, and updated in place where possible.
//!
//! [`plan`] looks at a set once and says what to do now. In this order:
//!
//! 1. Claims of Pods that live are taken back from them, Pods that no longer match the selector are let go, and claims that no Pod
//!    needs are cleaned up ([`claims`]).
//! 2. The template gets its revision ([`revisions`]).
//! 3. Images are pulled ahead of the update, if that is wanted ([`pre_download`]).
//! 4. Pods that are on their way somewhere get what they need to go on ([`advance`]): what follows may fail, now and again.
//! 5. Pods are created or deleted ([`scale`]). Only if there is nothing to create or delete, or if that gets nothing done (a quota leaves no room, say),
//!    Pods are updated ([`update`]). So the number of Pods and their revisions never change in the same round.
//! 6. Revisions beyond the history limit are removed.
//! 7. The status is brought up to date ([`status`], [`conditions`]); if it is, names of Pods that are gone are taken
//!    off `scaleStrategy.podsToDelete`. The set itself is written at most once per round.
//!
//! While one of its Pods cannot be read, a set only does what keeps the others going (4) and says so: not to know a Pod is not to know that
//! it is missing.
//!
//! How many Pods that may be is the arithmetic of [`counts`]; which of them, of [`rank`] (deletion) and [`order`]
//! (update). A set that is being deleted only has its status kept: everything it owns is garbage and collected as such.

mod admit;
mod advance;
mod claims;
mod conditions;
pub mod convert;
mod counts;
mod create;
pub mod default;
mod explain;
#[cfg(test)]
mod fixtures;
mod observed;
mod order;
mod pre_download;
mod rank;
mod revisions;
mod scale;
mod snapshot;
mod status;
#[cfg(test)]
mod tests;
mod update;
pub mod validate;
pub mod version;
#[cfg(test)]
mod world;

use std::collections::BTreeSet;

use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_api::kind::Kind as _;
use kruise_api::names::condition::clone_set as condition;
use kruise_api::pod::Pod;
use kruise_api::resource::Preconditions;
use serde_json::json;

pub use observed::Observed;

use crate::plan::why;
use crate::plan::{Action, Chain, Env, Fallback, OnFailure, Outcome, Pace, Patch, Phase, Plan, Step, Target};
use crate::shared::availability::next_available;
use crate::shared::conditions::failed;
use crate::shared::membership::{self, Member};
use crate::shared::revision;
use advance::advance;
use snapshot::Snapshot;
use update::Outdated;

const DEFAULT_HISTORY_LIMIT: i32 = 10;

/// What to do for a CloneSet now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let mut plan = Plan::default();
    let snapshot = match Snapshot::of(observed, env) {
        Ok(snapshot) => snapshot,
        Err(message) => {
            plan.because(why::General::Invalid { message });
            return plan;
        }
    };
    let is_deleting = observed.set.metadata.deletion_timestamp.is_some();
    let failure = if is_deleting {
        plan.because(why::General::Deleting);
        None
    } else {
        let failure = act(&snapshot, &mut plan);
        explain::explain(&snapshot, &mut plan);
        failure
    };
    write_status(&snapshot, failure.as_deref(), &mut plan);
    if plan.status.is_none() && !is_deleting && snapshot.unreadable.is_empty() {
        prune_names(&snapshot, &mut plan);
    }
    plan
}

/// True when the nodes' labels decide which Pods go first: only then they have to be observed.
pub fn spreads_pods(set: &CloneSet) -> bool {
    !snapshot::spread_keys(set).is_empty()
}

/// Everything but the status. Returns why the update cannot go on, if so.
fn act(snapshot: &Snapshot<'_>, plan: &mut Plan) -> Option<String> {
    if !snapshot.unreadable.is_empty() {
        return stand_still(snapshot, plan);
    }
    let mut released = Step::new(Phase::Claims, Pace::Bounded, OnFailure::Skip);
    for pod in &snapshot.released_pods {
        released.push(membership::release(pod, &snapshot.uid));
    }
    plan.push(released);
    if !snapshot.reuses_claims() {
        claims::clean_up_unused(
            plan,
            &snapshot.claims,
            &snapshot.pods_by_id(),
            &snapshot.uid,
            snapshot.env.now,
        );
    }
    snapshot.revisions.store(plan);
    pre_download::pre_download(snapshot, plan);
    let failure = scale_or_update(snapshot, plan);
    claims::reclaim(snapshot, plan);
    let in_use = snapshot.members.iter().map(|member| revision::of_pod(member.pod));
    let limit = snapshot
        .set
        .spec
        .revision_history_limit
        .unwrap_or(DEFAULT_HISTORY_LIMIT);
    snapshot.revisions.truncate(in_use, limit, plan);
    failure
}

/// Somebody's Pod must not be taken for absent because we cannot read it: while there is one, none is created or deleted, and none begins
/// an update. Those that are on their way get what they need.
fn stand_still(snapshot: &Snapshot<'_>, plan: &mut Plan) -> Option<String> {
    membership::wait_for_unreadable(snapshot.unreadable.clone(), plan);
    snapshot.revisions.store(plan);
    let is_readable = |pod: &str| {
        snapshot
            .observed
            .unreadable
            .iter()
            .all(|head| &*head.metadata.name != pod)
    };
    let failure = advance(snapshot, Outdated::of(snapshot).updates(), is_readable, plan).failure;
    claims::reclaim(snapshot, plan);
    failure
}

/// Advances, scales and updates Pods. Returns why the update cannot go on, if so.
fn scale_or_update(snapshot: &Snapshot<'_>, plan: &mut Plan) -> Option<String> {
    let mut scaling = Plan::default();
    let scales = scale::scale(snapshot, &mut scaling);
    let touched: BTreeSet<&str> = scaling
        .writes()
        .map(Action::object)
        .filter(|object| object.resource == Pod::RESOURCE)
        .map(|object| object.name.as_str())
        .collect();
    let outdated = Outdated::of(snapshot);
    let advanced = advance(snapshot, outdated.updates(), |pod| !touched.contains(pod), plan);
    let mut failure = advanced.failure;
    if !scales {
        let end = update::update(snapshot, &outdated, &advanced.written, plan);
        failure = failure.or(end);
    } else if snapshot.observed.last.has_failed(Phase::Scale) {
        // It may get nothing done this time either. Then the others are updated, and those it was about get what they need.
        let mut instead = Plan::default();
        let mut written = advanced.written;
        written.extend(advance(snapshot, outdated.updates(), |pod| touched.contains(pod), &mut instead).written);
        update::update(snapshot, &outdated, &written, &mut instead);
        plan.fallback = Some(Fallback {
            phase: Phase::Scale,
            resource: Pod::RESOURCE,
            plan: Box::new(instead),
        });
    }
    plan.append(scaling);
    failure
}

fn write_status(snapshot: &Snapshot<'_>, failure: Option<&str>, plan: &mut Plan) {
    let now = snapshot.env.now;
    let set = snapshot.set;
    let names = status::RevisionNames {
        update: snapshot.revisions.update.name(),
        current: snapshot.revisions.current.name(),
        collisions: snapshot.revisions.collisions,
    };
    let mut new = status::new_status(set, &snapshot.members, &names);
    let last: &Outcome = &snapshot.observed.last;
    let scale = last.first(Phase::Claims).or_else(|| last.first(Phase::Scale));
    let scale = scale.map(|failed| failed.message.clone());
    if let Some(message) = unreadable(snapshot).or(scale) {
        failed(&mut new.conditions, condition::FAILED_SCALE, &message, now);
    }
    let update = last.first(Phase::Update).map(|failed| failed.message.as_str());
    if let Some(message) = failure.or(update) {
        failed(&mut new.conditions, condition::FAILED_UPDATE, message, now);
    }
    let before = set.status.as_ref().map_or("", |status| &status.update_revision);
    if let Some(rest) = conditions::progress(&mut new, before, &set.spec, now) {
        plan.wake(rest);
    }
    let availabilities = snapshot.members.iter().map(|member| member.availability);
    if let Some(rest) = next_available(availabilities) {
        plan.wake(rest);
    }
    plan.status = status::write(set, &new);
}

/// Why the set stands still, if it does because of Pods that cannot be read.
fn unreadable(snapshot: &Snapshot<'_>) -> Option<String> {
    let pods = &snapshot.unreadable;
    (!pods.is_empty()).then(|| format!("no Pod is created or deleted while these cannot be read: {pods}"))
}

/// Takes names of Pods that are gone off `podsToDelete`.
fn prune_names(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let listed = &snapshot.set.spec.scale_strategy.pods_to_delete;
    let there: BTreeSet<&str> = snapshot.members.iter().map(Member::name).collect();
    let kept: Vec<&str> = listed
        .iter()
        .map(String::as_str)
        .filter(|name| there.contains(name))
        .collect();
    if kept.len() == listed.len() {
        return;
    }
    let list = if kept.is_empty() { json!(null) } else { json!(kept) };
    let action = Action::Patch {
        object: Target::of(snapshot.set),
        subresource: None,
        patch: Patch::Merge(json!({ "spec": { "scaleStrategy": { "podsToDelete": list } } })),
        preconditions: Preconditions::unchanged(snapshot.set),
    };
    let mut step = Step::new(Phase::Housekeeping, Pace::InOrder, OnFailure::GoOn);
    step.push(Chain::of(action.into()));
    plan.push(step);
}
