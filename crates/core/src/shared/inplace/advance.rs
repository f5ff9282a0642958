//! What a Pod needs next, asked on every reconcile for every Pod.
//!
//! In this order: the end of a grace period; the next batch of containers; the condition `InPlaceUpdateReady`, together with the lifecycle state, the
//! condition `KruisePodReady` of a new Pod and a label that Pods of old releases lack. The last four are one request; with
//! hooks, labels and state are a second one.
//!
//! A kind whose new Pods become `Normal` when they have a node lets the conditions wait for it too ([`PodRules::waits_for_node`]): before that
//! nobody could see a difference.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kruise_api::names::annotation;
use kruise_api::names::condition::pod::{IN_PLACE_UPDATE_READY, KRUISE_POD_READY};
use kruise_api::pod::Pod;
use kruise_api::pod::status::Holds;

use super::progress::{Pending, is_complete, pending};
use super::record::{Grace, State, Unreadable, grace_of, grace_text, remove_grace, state_of};
use super::{Env, PodRules, batch};
use crate::shared::pod_change::{Guard, PodChange, PodPatch};
use crate::shared::seconds::whole_seconds;
use crate::shared::{lifecycle, readiness, revision};

/// What a Pod needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advanced {
    /// Requests to send, in order; none when the Pod is as it should be, or waits.
    pub requests: Vec<PodPatch>,
    /// The lifecycle state that these requests bring.
    pub state: Option<lifecycle::State>,
    /// What the Pod waits for.
    pub waits: Option<Waits>,
}

/// What a Pod waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum Waits {
    /// The end of the grace period; look again after this time.
    Grace(Duration),
    /// The containers that were changed.
    Containers(Pending),
    /// This container has to be ready before the next batch.
    Ready(String),
    /// A node.
    Node,
    /// Somebody who repairs the record of the update.
    Repair(Unreadable),
}

impl Advanced {
    fn wait(waits: Waits) -> Self {
        Self {
            waits: Some(waits),
            ..Self::default()
        }
    }

    fn write(change: PodChange, pod: &Pod, env: &Env) -> Self {
        Self {
            requests: change.requests(pod, Guard::Version, env.has_resize),
            ..Self::default()
        }
    }
}

/// Returns what a Pod needs next. `has_arrived` tells whether it is at the revision that it should be at.
pub fn advance(pod: &Pod, has_arrived: bool, rules: &impl PodRules, env: &Env) -> Advanced {
    if needs_nothing(pod, rules) {
        return Advanced::default();
    }
    match (grace_of(pod), state_of(pod)) {
        (Err(unreadable), _) | (Ok(None), Err(unreadable)) => Advanced::wait(Waits::Repair(unreadable)),
        (Ok(Some(grace)), state) => end_of_grace(pod, &grace, state, env),
        (Ok(None), Ok(None)) => finish(pod, has_arrived, rules, env),
        (Ok(None), Ok(Some(state))) => proceed(pod, state, has_arrived, rules, env),
    }
}

/// Most Pods need nothing most of the time: a quick look that reads no records.
pub(crate) fn needs_nothing(pod: &Pod, rules: &impl PodRules) -> bool {
    let keys = [annotation::IN_PLACE_STATE, annotation::IN_PLACE_STATE_OLD];
    let mut records = keys.iter().filter_map(|key| pod.metadata.annotation(key));
    is_marked_ready(pod)
        && matches!(lifecycle::state(pod), lifecycle::State::Normal | lifecycle::State::None)
        && grace_text(pod).is_none()
        && !records.any(|record| record.contains(LEFT_FOR_LATER))
        && rules.missing_label(pod).is_none()
}

/// How the fields of a record begin that have what is left for later batches.
const LEFT_FOR_LATER: &str = "\"nextContainer";

fn end_of_grace(pod: &Pod, grace: &Grace, state: Result<Option<State>, Unreadable>, env: &Env) -> Advanced {
    let state = match state {
        Ok(Some(state)) => state,
        Ok(None) => {
            return Advanced::wait(Waits::Repair(Unreadable {
                key: annotation::IN_PLACE_STATE,
                reason: "it is missing although a change waits for its grace period".to_owned(),
            }));
        }
        Err(unreadable) => return Advanced::wait(Waits::Repair(unreadable)),
    };
    let mut write = PodChange::default();
    if !revision::is_at(pod, &grace.revision) {
        // Somebody moved the Pod to another revision; the update starts over.
        remove_grace(pod, &mut write);
        return Advanced::write(write, pod, env);
    }
    let since = state
        .update_timestamp
        .as_deref()
        .and_then(|text| text.parse::<Timestamp>().ok());
    let elapsed = since.map_or(SignedDuration::MAX, |since| env.now.duration_since(since));
    let remaining = SignedDuration::from_secs(grace.grace_seconds.into()).saturating_sub(elapsed);
    if remaining.is_positive() {
        return Advanced::wait(Waits::Grace(whole_seconds(remaining)));
    }
    match grace.change() {
        Ok(change) => write = batch::apply(pod, &change, state, env.now),
        Err(unreadable) => return Advanced::wait(Waits::Repair(unreadable)),
    }
    remove_grace(pod, &mut write);
    Advanced::write(write, pod, env)
}

fn proceed(pod: &Pod, state: State, has_arrived: bool, rules: &impl PodRules, env: &Env) -> Advanced {
    if let Some(pending) = pending(pod, &state, env.gates) {
        let mut advanced = Advanced::wait(Waits::Containers(pending));
        // Its lifecycle may go on nevertheless.
        let (change, state) = lifecycle_change(pod, has_arrived, rules, env);
        advanced.requests = change.requests(pod, Guard::Version, env.has_resize);
        advanced.state = state;
        return advanced;
    }
    if !state.has_next() {
        return finish(pod, has_arrived, rules, env);
    }
    let required = state.pre_check_before_next.as_ref();
    let mut required = required.into_iter().flat_map(|check| &check.containers_required_ready);
    let is_ready = |name: &str| {
        let mut statuses = pod.status.container_statuses.iter();
        statuses.any(|status| status.name == name && status.ready)
    };
    if let Some(name) = required.find(|name| !is_ready(name)) {
        return Advanced::wait(Waits::Ready(name.clone()));
    }
    let next = state.next();
    Advanced::write(batch::apply(pod, &next, state, env.now), pod, env)
}

/// Nothing is under way: the Pod may be ready.
fn finish(pod: &Pod, has_arrived: bool, rules: &impl PodRules, env: &Env) -> Advanced {
    let (mut change, state) = lifecycle_change(pod, has_arrived, rules, env);
    let is_new = pod.status.condition(IN_PLACE_UPDATE_READY).is_none();
    if is_new && rules.waits_for_node(pod) {
        let mut advanced = Advanced::write(change, pod, env);
        advanced.state = state;
        advanced.waits = Some(Waits::Node);
        return advanced;
    }
    if readiness::has_gate(pod, IN_PLACE_UPDATE_READY) && !is_marked_ready(pod) {
        let ready = readiness::ready_since(env.now);
        change.conditions.insert(IN_PLACE_UPDATE_READY.to_owned(), ready);
        // On the way anyway; for a Pod that has it there is nothing to do.
        let mut first = readiness::first(pod, env.now);
        first.merge(change);
        change = first;
    }
    // Nobody but us updates a Pod in place, and a Pod without the condition was never updated: there is nothing that could have changed under our hands but what
    // kubelet reports about a Pod that starts, which it does all the time. Once a container has run, a request to recreate it may hold the Pod by its gate.
    let was_never_updated = is_new && matches!(state_of(pod), Ok(None));
    let can_be_held = readiness::has_gate(pod, KRUISE_POD_READY) && has_run(pod);
    let guard = if was_never_updated && !can_be_held {
        Guard::Identity
    } else {
        Guard::Version
    };
    Advanced {
        requests: change.requests(pod, guard, env.has_resize),
        state,
        waits: None,
    }
}

/// A container of the Pod runs, or has run.
fn has_run(pod: &Pod) -> bool {
    let mut statuses = pod.status.container_statuses.iter();
    statuses.any(|status| !status.container_id.is_empty())
}

fn is_marked_ready(pod: &Pod) -> bool {
    let condition = pod.status.condition(IN_PLACE_UPDATE_READY);
    condition.is_some_and(|condition| {
        condition.status == Holds::True && condition.reason.is_empty() && condition.message.is_empty()
    })
}

fn lifecycle_change(
    pod: &Pod,
    has_arrived: bool,
    rules: &impl PodRules,
    env: &Env,
) -> (PodChange, Option<lifecycle::State>) {
    let progress = lifecycle::Progress {
        at_update_revision: has_arrived,
        update_complete: lifecycle::state(pod) == lifecycle::State::Updating && is_complete(pod, env.gates),
        waits_for_node: rules.waits_for_node(pod),
    };
    let next = rules.next_state(pod, progress);
    let mut change = next
        .as_ref()
        .map(|next| lifecycle::enter(pod, next, rules.lifecycle(), env.now))
        .unwrap_or_default();
    if let Some((key, value)) = rules.missing_label(pod) {
        change.set_label(key, value);
    }
    (change, next)
}
