//! Creating and deleting Pods.
//!
//! First the wanted Pods, from the lowest ordinal up. With `OrderedReady` the walk ends at the first that is not available, and with it the round: what is above
//! waits, and so do scaling in and updates. With `Parallel` it goes through all of them; `scaleStrategy.maxUnavailable` ends it (but not the round) when so many
//! are not available.
//!
//! | the Pod | what is done |
//! |---|---|
//! | has ended | it is deleted, and made anew when it is gone |
//! | is missing | it is made with its claims, at once or when an obstacle is gone: a claim that is about to go, somebody else's Pod of that name, or a revision without a template |
//! | is Pending | claims that it lacks are made; one that is about to go is told |
//! | is on its way out | it is waited for |
//! | was about to be deleted, and is wanted again | it comes back |
//! | does not tell its name by label | it gets the label |
//!
//! Then the Pods whose ordinals are not wanted (*condemned*), from the highest down: all of them with `Parallel`; with `OrderedReady` one after the other, and
//! only while all others are available, but for the lowest Pod that is not healthy, and for those that their hook has let go: their turn has come before. Before
//! a Pod goes, its claims are told whether they go with it.
//!
//! A Pod with anything of its `preDelete` hook on it is not deleted but waits in `PreparingDelete`.

mod walk;

use std::collections::BTreeSet;
use std::time::Duration;

use kruise_api::names::{event, label};
use kruise_api::resource::Preconditions;

use super::snapshot::{OrdinalPod, Snapshot};
use crate::plan::why;
use crate::plan::{Action, Chain, Event, Hook, OnFailure, Pace, Phase, Plan, PodNames, Step, Target, Write};
use crate::shared::lifecycle::{self, State};
use crate::shared::pod_change::{Guard, PodChange};
use crate::shared::pod_update::change_pod;
use walk::Walk;

/// When a set looks again at what nobody tells it about.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What scaling has come to.
#[derive(Debug, Default)]
pub(super) struct Scaled<'r> {
    /// Pods that are written.
    pub(super) touched: BTreeSet<&'r str>,
    /// The order does not allow any more in this round.
    pub(super) is_over: bool,
    /// The wanted ordinal that the order waits for.
    pub(super) waits_for: Option<i32>,
    /// Why a Pod cannot be made, if so.
    pub(super) obstacle: Option<String>,
}

/// Plans what becomes of all Pods, wanted or not. `recreates` tells of a Pod whether the update is about to replace it.
pub(super) fn scale<'r>(
    snapshot: &'r Snapshot<'_>,
    recreates: impl FnMut(&OrdinalPod<'_>) -> bool,
    plan: &mut Plan,
) -> Scaled<'r> {
    let mut scaled = Scaled::default();
    cancel_preparing_delete(snapshot, recreates, &mut scaled, plan);
    label_names(snapshot, &mut scaled, plan);
    fix_claims(snapshot, plan);
    scaled.waits_for = Walk::of(snapshot).walk(&mut scaled, plan);
    scaled.is_over = scaled.waits_for.is_some() || condemned(snapshot, &mut scaled, plan);
    scaled
}

/// Pods that waited for their deletion and are wanted again.
fn cancel_preparing_delete<'r>(
    snapshot: &'r Snapshot<'_>,
    mut recreates: impl FnMut(&OrdinalPod<'_>) -> bool,
    scaled: &mut Scaled<'r>,
    plan: &mut Plan,
) {
    let mut step = Step::new(Phase::Scale, Pace::Bounded, OnFailure::Skip);
    for pod in snapshot.replicas.values() {
        let is_held = pod.member.is_preparing_delete() && !pod.is_terminating() && !pod.has_ended();
        if !is_held || pod.member.is_specified_delete || recreates(pod) {
            continue;
        }
        let change = lifecycle::enter(pod.pod(), &State::PreparingNormal, snapshot.lifecycle(), snapshot.now());
        step.push(change_pod(pod.pod(), change, Guard::Version, snapshot.env));
        scaled.touched.insert(pod.name());
    }
    plan.push(step);
}

/// Pods without the label that has their name get it: Services and users look for it.
fn label_names<'r>(snapshot: &'r Snapshot<'_>, scaled: &mut Scaled<'r>, plan: &mut Plan) {
    let set = &snapshot.owner.name;
    let mut step = Step::new(Phase::Update, Pace::Bounded, OnFailure::Skip);
    let key = label::STATEFUL_SET_POD_NAME;
    let living = snapshot
        .replicas
        .values()
        .filter(|pod| !pod.is_terminating() && !pod.has_ended());
    for pod in living.filter(|pod| pod.pod().metadata.label(key) != Some(pod.name())) {
        let name = pod.name();
        if !scaled.touched.insert(name) {
            continue;
        }
        let mut change = PodChange {
            seen_by_admission: true,
            ..PodChange::default()
        };
        change.set_label(key, name);
        let mut chain = change_pod(pod.pod(), change, Guard::Version, snapshot.env);
        for write in &mut chain.writes {
            let done = format!("update Pod {name} in StatefulSet {set} successful");
            write.succeeded.push(Event::normal(event::SUCCESSFUL_UPDATE, done));
            let failed = format!("update Pod {name} in StatefulSet {set} failed error");
            write.failed = Some(Event::warning(event::FAILED_UPDATE, failed));
        }
        step.push(chain);
    }
    plan.push(step);
}

/// Claims of wanted Pods get the owners that the retention policy wants.
fn fix_claims(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    if snapshot.claims.are_none() {
        return;
    }
    let mut step = Step::new(Phase::Claims, Pace::Bounded, OnFailure::Skip);
    for pod in snapshot.replicas.values().filter(|pod| !pod.is_terminating()) {
        for write in snapshot.claims.fix_owners(pod.pod(), pod.ordinal, false) {
            step.push(Chain::of(write));
        }
    }
    plan.push(step);
}

/// What a Pod that others wait for is at.
fn state_of(pod: Option<&OrdinalPod<'_>>) -> why::OrdinalState {
    match pod {
        None => why::OrdinalState::Missing,
        Some(pod) if pod.is_terminating() => why::OrdinalState::Terminating,
        Some(pod) if pod.has_ended() => why::OrdinalState::Ended,
        Some(_) => why::OrdinalState::NotAvailable,
    }
}

fn explain_hooks(pods: PodNames, plan: &mut Plan) {
    if !pods.is_empty() {
        plan.because(why::Pods::HookWaiting {
            hook: Hook::PreDelete,
            pods,
        });
    }
}

/// Deletes Pods whose ordinals are not wanted. Returns whether the round is over.
fn condemned<'r>(snapshot: &'r Snapshot<'_>, scaled: &mut Scaled<'r>, plan: &mut Plan) -> bool {
    let is_ordered = snapshot.desired.is_ordered;
    let mut hooked = PodNames::default();
    let mut fixes = Step::new(Phase::Claims, Pace::Bounded, OnFailure::Skip);
    let mut deletions = Step::new(Phase::Scale, Pace::SlowStart, OnFailure::Skip);
    let first_unhealthy = snapshot.all_pods().filter(|pod| !pod.is_healthy());
    let first_unhealthy = first_unhealthy.map(|pod| pod.ordinal).min();
    let mut is_over = false;
    let mut waits_for: Option<&OrdinalPod<'_>> = None;
    for pod in snapshot.condemned.values().rev() {
        let mut fixed = snapshot.claims.fix_owners(pod.pod(), pod.ordinal, true);
        let is_first = first_unhealthy == Some(pod.ordinal);
        let may_go = is_first || pod.member.is_available() || was_let_go(snapshot, pod);
        let waits = is_ordered && (is_over || pod.is_terminating() || !may_go);
        if waits || pod.is_terminating() {
            waits_for = waits_for.or(waits.then_some(pod));
            is_over |= waits;
        } else {
            let removal = removal(snapshot, pod);
            hooked.extend(removal.held.then_some(pod.name()));
            if !removal.chain.writes.is_empty() {
                is_over |= is_ordered;
                scaled.touched.insert(pod.name());
                let writes = fixed.drain(..).chain(removal.chain.writes);
                deletions.push(writes.collect());
            }
        }
        for write in fixed {
            fixes.push(Chain::of(write));
        }
    }
    if let Some(pod) = waits_for {
        let below = snapshot.condemned.range(..pod.ordinal).rev();
        plan.because(why::Ordinals::InOrder {
            pod: pod.name().to_owned(),
            state: state_of(Some(pod)),
            waiting: below.map(|(_, pod)| pod.name()).collect(),
        });
    }
    explain_hooks(hooked, plan);
    plan.push(fixes);
    plan.push(deletions);
    is_over
}

/// A Pod waited for its `preDelete` hook, and need not any more. Hooks may let several go at the same time.
fn was_let_go(snapshot: &Snapshot<'_>, pod: &OrdinalPod<'_>) -> bool {
    let is_held = || lifecycle::before_delete(pod.pod(), snapshot.lifecycle(), snapshot.now()).is_some();
    pod.member.is_preparing_delete() && !is_held()
}

/// How a Pod goes.
pub(super) struct Removal {
    /// It waits for its hook.
    pub(super) held: bool,
    /// The writes; perhaps none when it waits already.
    pub(super) chain: Chain,
}

/// Deletes a Pod, or has it wait for its hook. That it is free to go, or not available anyway, was true of this version of it.
pub(super) fn removal(snapshot: &Snapshot<'_>, pod: &OrdinalPod<'_>) -> Removal {
    if let Some(change) = lifecycle::before_delete(pod.pod(), snapshot.lifecycle(), snapshot.now()) {
        return Removal {
            held: true,
            chain: change_pod(pod.pod(), change, Guard::Version, snapshot.env),
        };
    }
    let meta = &pod.pod().metadata;
    let has_hook = snapshot.lifecycle().is_some_and(|hooks| hooks.pre_delete.is_some());
    let preconditions = if pod.member.is_available() && !has_hook {
        Preconditions::same(meta)
    } else {
        Preconditions::unchanged(meta)
    };
    let (set, name) = (&snapshot.owner.name, pod.name());
    let write = Write::from(Action::delete(Target::of(pod.pod()), preconditions))
        .then(Event::normal(
            event::SUCCESSFUL_DELETE,
            format!("delete Pod {name} in StatefulSet {set} successful"),
        ))
        .or_else(Event::warning(
            event::FAILED_DELETE,
            format!("delete Pod {name} in StatefulSet {set} failed error"),
        ));
    Removal {
        held: false,
        chain: Chain::of(write),
    }
}
