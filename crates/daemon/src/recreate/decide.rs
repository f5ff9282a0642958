//! Which request is worked on, what each container of it counts as, and what comes next.
//!
//! - Of several requests for one Pod one is worked on: the one that has begun, else the oldest. The others read `Pending`.
//! - A container counts as recreated when another one runs under its name, and as back when the manager has seen that very one
//!   ready and it has run for `minStartedSeconds`. The daemon cannot see readiness itself.
//! - With `forceRecreate` it does not count what happened before the daemon has stopped it.
//! - Containers are stopped one after the other: at once, or with `orderedRecreate` when the one before is back.
//! - A container that is not on the node holds up those after it. One that cannot be stopped ends the request, or with
//!   `failurePolicy: Ignore` only itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kruise_api::containerrecreaterequest::v1beta1::{
    ContainerRecreateRequest, ContainerRecreateRequestSpec, ContainerRecreateRequestStatus, RecreateState,
};
use kruise_api::containerrecreaterequest::{FailurePolicy, RecreatePhase};
use kruise_api::names::condition::container_recreate;
use kruise_api::shared::conditions::ConditionStatus;
use kruise_cri::wire::{ContainerState, ContainerStatus};

use crate::containers::{restart_count, started_at};

/// A little more than the drain itself, so that the wake-up does not come too early.
const BEYOND_DRAIN: Duration = Duration::from_millis(100);

/// The request to work on, and those that have to wait and do not say so yet.
#[derive(Debug, Default)]
pub(super) struct Picked {
    pub(super) first: Option<Arc<ContainerRecreateRequest>>,
    pub(super) to_wait: Vec<Arc<ContainerRecreateRequest>>,
}

/// Chooses among the requests for one Pod.
pub(super) fn pick(mut requests: Vec<Arc<ContainerRecreateRequest>>) -> Picked {
    requests.retain(|request| is_open(request));
    requests.sort_by_key(|request| {
        let begun = match phase(request) {
            RecreatePhase::Recreating => 0,
            RecreatePhase::Pending => 1,
            _ => 2,
        };
        let created = request.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (begun, created, request.metadata.name.clone())
    });
    let mut requests = requests.into_iter();
    let first = requests.next();
    let to_wait = requests.filter(|request| phase(request).is_unset()).collect();
    Picked { first, to_wait }
}

/// Whether there is something to do.
pub(super) fn is_open(request: &ContainerRecreateRequest) -> bool {
    let completed = request
        .status
        .as_ref()
        .is_some_and(|status| status.completion_time.is_some());
    request.metadata.deletion_timestamp.is_none() && !completed && phase(request) != RecreatePhase::Completed
}

pub(super) fn phase(request: &ContainerRecreateRequest) -> RecreatePhase {
    request
        .status
        .as_ref()
        .map(|status| status.phase.clone())
        .unwrap_or_default()
}

/// Whether containers may be stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Drained {
    Yes,
    /// After this time.
    In(Duration),
    /// Not before the manager has made the Pod not ready; a change will tell.
    NotYet,
}

/// Whether the time to drain is over, if there is one.
pub(super) fn drained(request: &ContainerRecreateRequest, now: Timestamp) -> Drained {
    let strategy = request.spec.strategy.clone().unwrap_or_default();
    let Some(seconds) = strategy.unready_grace_period_seconds else {
        return Drained::Yes;
    };
    let conditions = request.status.iter().flat_map(|status| &status.conditions);
    let mut since = conditions
        .filter(|held| held.type_ == container_recreate::PRE_RECREATE_GRACE && held.status == ConditionStatus::True)
        .filter_map(|held| held.last_transition_time.as_ref());
    let Some(since) = since.next() else {
        return Drained::NotYet;
    };
    let drain = Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).saturating_add(BEYOND_DRAIN);
    match drain.checked_sub(elapsed(since.0, now)) {
        Some(left) if !left.is_zero() => Drained::In(left),
        _ => Drained::Yes,
    }
}

/// Time that has passed; none when the clock went back.
fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// The containers of the request on the node, each the newest of its name.
pub(super) type OnNode = BTreeMap<String, ContainerStatus>;

/// What each container counts as now, and when time alone will make one of them count as back.
#[derive(Debug, PartialEq)]
pub(super) struct Observed {
    pub(super) states: Vec<RecreateState>,
    pub(super) look_again: Option<Duration>,
}

/// Looks at the containers. `runtime` is the name in front of container IDs, `killed` says what this daemon remembers to have stopped.
pub(super) fn observe(
    request: &ContainerRecreateRequest,
    runtime: &str,
    on_node: &OnNode,
    killed: impl Fn(&str) -> bool,
    now: Timestamp,
) -> Observed {
    let nothing = ContainerRecreateRequestStatus::default();
    let status = request.status.as_ref().unwrap_or(&nothing);
    let strategy = request.spec.strategy.clone().unwrap_or_default();
    let needed = Duration::from_secs(u64::try_from(strategy.min_started_seconds).unwrap_or(0));
    let mut look_again: Option<Duration> = None;
    let mut states = Vec::new();
    for container in &request.spec.containers {
        let name = &container.name;
        let before = status
            .container_recreate_states
            .iter()
            .find(|state| state.name == *name);
        if let Some(before) = before
            && matches!(before.phase, RecreatePhase::Succeeded | RecreatePhase::Failed)
        {
            states.push(before.clone());
            continue;
        }
        let is_killed = before.is_some_and(|state| state.is_killed) || killed(name);
        let state = |phase, message: &str| RecreateState {
            name: name.clone(),
            phase,
            message: message.to_owned(),
            is_killed,
        };
        let Some(newest) = on_node.get(name) else {
            states.push(state(RecreatePhase::Pending, "not found container on Node"));
            continue;
        };
        let context = container.status_context.clone().unwrap_or_default();
        let id = format!("{runtime}://{}", newest.id);
        let is_another = id != context.container_id || restart_count(newest) > context.restart_count;
        let phase = if newest.state() == ContainerState::ContainerExited {
            RecreatePhase::Recreating
        } else if (strategy.force_recreate && !is_killed) || !is_another {
            RecreatePhase::Pending
        } else {
            let mut snapshot = status.container_status_snapshot.iter();
            let ready = snapshot.any(|seen| seen.name == *name && seen.container_id == id && seen.ready);
            let runs = elapsed(started_at(newest), now);
            if ready && runs > needed {
                RecreatePhase::Succeeded
            } else {
                if ready {
                    let left = needed.saturating_sub(runs).saturating_add(BEYOND_DRAIN);
                    look_again = Some(look_again.map_or(left, |earlier| earlier.min(left)));
                }
                RecreatePhase::Recreating
            }
        };
        states.push(state(phase, ""));
    }
    Observed { states, look_again }
}

/// What comes next.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Stop the container at this place of the list.
    Kill(usize),
    /// All is done, or the request has failed.
    Complete,
    /// Nothing, until something changes.
    Wait,
}

/// Goes through the containers in their order. Those that are on their way are marked as stopped.
pub(super) fn next(spec: &ContainerRecreateRequestSpec, states: &mut [RecreateState], on_node: &OnNode) -> Next {
    let strategy = spec.strategy.clone().unwrap_or_default();
    let mut settled = 0;
    let all = states.len();
    for (place, state) in states.iter_mut().enumerate() {
        match state.phase {
            RecreatePhase::Succeeded => settled += 1,
            RecreatePhase::Failed if strategy.failure_policy == FailurePolicy::Ignore => settled += 1,
            RecreatePhase::Failed => return Next::Complete,
            RecreatePhase::Recreating => {
                state.is_killed = true;
                if strategy.ordered_recreate {
                    return Next::Wait;
                }
            }
            _ if on_node.contains_key(&state.name) => return Next::Kill(place),
            _ => return Next::Wait,
        }
    }
    if settled == all { Next::Complete } else { Next::Wait }
}

/// Name of the runtime that all containers of a request have in common.
pub(super) fn runtime_name(spec: &ContainerRecreateRequestSpec) -> Result<String, String> {
    let mut common: Option<String> = None;
    for container in &spec.containers {
        let id = container
            .status_context
            .as_ref()
            .map_or("", |context| context.container_id.as_str());
        let name = match id.split_once("://") {
            Some((name, id)) if !name.is_empty() && !id.is_empty() => name,
            _ => return Err(format!("container {} has the ID {id:?}", container.name)),
        };
        match &common {
            Some(other) if other != name => return Err(format!("containers of {other} and {name} in one request")),
            _ => common = Some(name.to_owned()),
        }
    }
    common.ok_or_else(|| "the request names no container".to_owned())
}

#[cfg(test)]
mod tests;
