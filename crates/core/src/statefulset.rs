//! Advanced StatefulSet: Pods with an ordinal, a name and volumes of their own that stay the same when a Pod is replaced.
//!
//! [`plan`] looks at a set once and says what to do now. In this order:
//!
//! 1. Pods and revisions that belong to the set and to nobody else are adopted, before anything else is decided; Pods that no longer match the selector are let go.
//! 2. The template gets its revision.
//! 3. Images are pulled ahead of the update, if that is wanted ([`pre_download`]).
//! 4. Pods are created and deleted ([`scale`]): which ordinals there are is told by [`ordinals`], what becomes of their claims by [`claims`].
//! 5. Pods that are on their way somewhere get what they need to go on ([`advance`]). That does not wait for the order.
//! 6. Pods are updated ([`update`]), if the order allows anything more in this round.
//! 7. Revisions beyond the history limit are removed, and the status is brought up to date ([`status`]).
//!
//! With `OrderedReady` everything goes one after the other: a Pod that is not available holds up what is above it, scaling in, and updates, but for its own that
//! a hook has held up. With `Parallel` only budgets hold up anything. While one of its Pods cannot be read, a set only does what keeps the others going (5) and says so: not to know a Pod is not to know
//! that it is missing. A set that is being deleted only has its status kept.

mod admit;
mod advance;
pub mod claims;
pub mod convert;
mod counts;
mod create;
pub mod default;
mod erased;
mod explain;
#[cfg(test)]
mod fixtures;
mod observed;
mod order;
mod pre_download;
mod scale;
mod snapshot;
mod status;
#[cfg(test)]
mod tests;
mod update;
pub mod validate;
#[cfg(test)]
mod world;

use std::collections::BTreeSet;

pub use admit::Submitted;
pub use observed::{Names, Observed};

pub use crate::shared::ordinals;

use crate::plan::why;
use crate::plan::{Env, OnFailure, Pace, Phase, Plan, Step};
use crate::shared::availability::next_available;
use crate::shared::membership;
use crate::shared::revision;
use advance::advance;
use snapshot::Snapshot;
use status::Failures;

const DEFAULT_HISTORY_LIMIT: i32 = 10;

/// What to do for a StatefulSet now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let mut plan = Plan::default();
    let owner = snapshot::owner_of(observed);
    let snapshot = match Snapshot::of(observed, &owner, env) {
        Ok(snapshot) => snapshot,
        Err(message) => {
            plan.because(why::General::Invalid { message });
            return plan;
        }
    };
    let failures = if observed.set.metadata.deletion_timestamp.is_some() {
        plan.because(why::General::Deleting);
        Failures::default()
    } else {
        let failures = act(&snapshot, &mut plan);
        explain::explain(&snapshot, &mut plan);
        failures
    };
    if let Some(rest) = next_available(snapshot.all_pods().map(|pod| pod.member.availability)) {
        plan.wake(rest);
    }
    plan.status = status::write(&snapshot, &failures);
    plan
}

/// Everything but the status.
fn act(snapshot: &Snapshot<'_>, plan: &mut Plan) -> Failures {
    if !snapshot.unreadable.is_empty() {
        return stand_still(snapshot, plan);
    }
    if adopt(snapshot, plan) {
        return Failures::default();
    }
    snapshot.revisions.store(plan);
    pre_download::pre_download(snapshot, plan);
    let candidates = order::candidates(snapshot);
    let of_update: BTreeSet<i32> = candidates.iter().copied().collect();
    let mut scaling = Plan::default();
    let mut scaled = scale::scale(snapshot, update::recreates(snapshot, &of_update), &mut scaling);
    let advanced = advance(snapshot, &of_update, &scaled.touched, plan);
    plan.append(scaling);
    let mut failures = Failures {
        create: explain::lost_nodes(snapshot, plan).or(scaled.obstacle.take()),
        update: advanced.failure,
    };
    if !scaled.is_over || scaled.waits_for.is_some() {
        let end = update::update(snapshot, &candidates, &advanced.written, &scaled, plan);
        failures.update = failures.update.or(end);
    }
    failures.update = failures.update.or(explain::failed_claims(snapshot, plan));
    let in_use = snapshot.all_pods().map(|pod| revision::of_pod(pod.pod()));
    let limit = snapshot.set.spec.revision_history_limit;
    snapshot
        .revisions
        .truncate(in_use, limit.unwrap_or(DEFAULT_HISTORY_LIMIT), plan);
    failures
}

/// Adopts and releases. Returns whether the rest waits for Pods to be the set's own.
fn adopt(snapshot: &Snapshot<'_>, plan: &mut Plan) -> bool {
    let mut step = Step::new(Phase::Claims, Pace::Bounded, OnFailure::Skip);
    for pod in &snapshot.released {
        step.push(membership::release(pod, &snapshot.uid));
    }
    if snapshot.observed.is_confirmed {
        snapshot.revisions.adopt(snapshot.owner, plan);
        for pod in &snapshot.adoptable {
            step.push(membership::adopt(pod, snapshot.owner));
        }
    } else if !snapshot.adoptable.is_empty() {
        plan.wake(scale::LOOK_AGAIN);
    }
    plan.push(step);
    !snapshot.adoptable.is_empty()
}

/// Somebody's Pod must not be taken for absent because we cannot read it: while there is one, none is created or deleted, and none begins an update. Those that
/// are on their way get what they need.
fn stand_still(snapshot: &Snapshot<'_>, plan: &mut Plan) -> Failures {
    membership::wait_for_unreadable(snapshot.unreadable.clone(), plan);
    snapshot.revisions.store(plan);
    let candidates = order::candidates(snapshot).into_iter().collect();
    let unreadable = &snapshot.observed.unreadable;
    let unreadable: BTreeSet<&str> = unreadable.iter().map(|head| &*head.metadata.name).collect();
    let pods = &snapshot.unreadable;
    Failures {
        create: Some(format!(
            "no Pod is created or deleted while these cannot be read: {pods}"
        )),
        update: advance(snapshot, &candidates, &unreadable, plan).failure,
    }
}
