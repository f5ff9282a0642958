//! The beginning of an update in place.
//!
//! First the Pod is made not ready, so that no traffic reaches it while it changes. That is written even if the cached Pod is not ready already: the
//! cache may be late. It is left out only where it would be wrong: for a Pod without the readiness gate, and when nothing but resources changes and no
//! container restarts for it.

use std::collections::BTreeMap;
use std::time::Duration;

use kruise_api::names::annotation;
use kruise_api::names::condition::pod::{IN_PLACE_UPDATE_READY, START_IN_PLACE_UPDATE};
use kruise_api::pod::Pod;
use kruise_api::pod::status::Holds;

use super::Env;
use super::batch;
use super::change_set::ChangeSet;
use super::record::{Grace, State, remove_grace};
use crate::shared::availability::READY;
use crate::shared::lifecycle;
use crate::shared::pod_change::{Guard, NewCondition, PodChange, PodPatch};
use crate::shared::readiness;
use crate::shared::seconds::to_the_second;

/// What to update to.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// What changes.
    pub change: &'a ChangeSet,
    /// The labels that tell the new revision.
    pub labels: &'a BTreeMap<String, String>,
    /// The lifecycle state to write along; nothing for workloads whose Pods have none.
    pub state: Option<&'a lifecycle::State>,
}

/// The requests that begin an update, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Started {
    /// The requests.
    pub requests: Vec<PodPatch>,
    /// When to look at the Pod again: the end of the grace period.
    pub look_again: Option<Duration>,
}

/// Begins an update in place of a Pod.
pub fn start(pod: &Pod, start: &Start<'_>, env: &Env) -> Started {
    let mut requests = Vec::new();
    let mut guard = Guard::Version;
    if makes_unready(pod, start.change) {
        requests = not_ready(pod, env).requests(pod, guard, env.has_resize);
        // The first request has changed the version; that it went through says that the Pod was as we saw it.
        guard = Guard::Identity;
    }
    let state = State::begin(start.change, to_the_second(env.now));
    let waits = start.change.grace_seconds > 0;
    let mut write = if waits {
        let mut write = PodChange::default();
        state.write_to(pod, &mut write);
        write.set_annotation(annotation::IN_PLACE_GRACE, Grace::of(start.change).to_json());
        write.remove_annotation(pod, annotation::IN_PLACE_GRACE_OLD);
        write
    } else {
        let mut write = batch::apply(pod, start.change, state, env.now);
        remove_grace(pod, &mut write);
        write
    };
    for (key, value) in start.labels {
        write.set_label(key, value);
    }
    if let Some(state) = start.state
        && lifecycle::state(pod) != *state
    {
        lifecycle::write_state(&mut write, state, env.now);
    }
    requests.extend(write.requests(pod, guard, env.has_resize));
    let seconds = u64::try_from(start.change.grace_seconds).unwrap_or_default();
    Started {
        requests,
        look_again: waits.then(|| Duration::from_secs(seconds)),
    }
}

/// Whether the Pod has to be made not ready for this change.
fn makes_unready(pod: &Pod, change: &ChangeSet) -> bool {
    readiness::has_gate(pod, IN_PLACE_UPDATE_READY) && (!change.is_vertical_only() || restarts(pod, change))
}

/// Whether a container restarts because of a resource that changes.
fn restarts(pod: &Pod, change: &ChangeSet) -> bool {
    pod.spec.template.containers.iter().any(|container| {
        let changed = change.resources.get(&*container.name);
        changed.is_some_and(|changed| {
            let mut names = changed.limits.keys().chain(changed.requests.keys());
            names.any(|name| container.restarts_for.iter().any(|known| *known == **name))
        })
    })
}

fn not_ready(pod: &Pod, env: &Env) -> PodChange {
    let mut change = PodChange::default();
    let before = pod.status.condition(IN_PLACE_UPDATE_READY);
    let unready_since = before
        .filter(|condition| condition.status == Holds::False)
        .and_then(|condition| condition.last_transition_time);
    let condition = NewCondition {
        holds: false,
        reason: Some(START_IN_PLACE_UPDATE.to_owned()),
        message: None,
        since: Some(unready_since.map_or(env.now, kruise_api::meta::CompactTimestamp::timestamp)),
    };
    change.conditions.insert(IN_PLACE_UPDATE_READY.to_owned(), condition);
    if let Some(ready) = readiness::ready_with(pod, &[(IN_PLACE_UPDATE_READY, false)]) {
        change.conditions.insert(READY.to_owned(), ready);
    }
    change
}
