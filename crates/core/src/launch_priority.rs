//! Lets the containers of a Pod start one after the other.
//!
//! Admission gave each container a variable from a key of the ConfigMap `<pod>-barrier`, so kubelet starts it only when the key is there.
//! The keys come in the order of the priorities: the next lower one when all containers with a higher one are ready. Once the lowest is there, the
//! Pod is annotated and not looked at again; a container that fails later does not hold back others.
//!
//! A ConfigMap of that name is the Pod's own when the Pod is among its owners, by UID. Another one is never written:
//!
//! - Left by an earlier Pod of the same name: it goes, the garbage collector would take it anyway, and the Pod gets one of its own.
//! - Already on its way out, or of a Pod that came later: it is waited for.
//! - Anybody else's: it stays, and the Pod waits until its owner takes it away.
//!
//! The ConfigMaps are not watched: a cluster has many. What was written is remembered until the Pod is done. One is read only when there is one that we
//! did not make, and when a container cannot be started although its key was written.
//!
//! A container that kubelet cannot start although its key was written says that the ConfigMap may be gone. Then it is looked for, and made again.

mod barrier;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kruise_api::kind::Kind as _;
use kruise_api::names::{annotation, event, pattern};
use kruise_api::pod::Pod;
use kruise_api::pod::status::ContainerState;
use kruise_api::resource::Preconditions;
use serde_json::{Value, json};

pub use barrier::{Barrier, Found, after};

use crate::plan::{Action, Env, Event, Observation, OnFailure, Pace, Phase, Plan, Step, Target, Write};
use crate::shared::availability::CONTAINERS_READY;
use crate::shared::inplace::priority;
use crate::shared::pod_change::{Guard, PodChange, PodPatch};
use barrier::{Whose, keys};

/// How long a container may be unable to start before its barrier is looked for: kubelet tries again within 15 seconds. Also how often a ConfigMap that is
/// in the way is looked at.
pub const LOOK_AGAIN: Duration = Duration::from_secs(20);
/// When to look again at a ConfigMap that will be gone soon.
const SOON: Duration = Duration::from_secs(1);
/// How kubelet says that something a container is made from is missing, as a key of a ConfigMap is.
const CREATE_CONTAINER_CONFIG_ERROR: &str = "CreateContainerConfigError";

/// A Pod, and what is known of its barrier.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The Pod.
    pub pod: Arc<Pod>,
    /// The ConfigMap that has the name of its barrier, as it was left or found last; nothing when there was none.
    pub barrier: Option<Barrier>,
}

impl Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        plan(self, env)
    }
}

/// What to do for a Pod now.
pub fn plan(observed: &Observed, _: &Env) -> Plan {
    let (pod, barrier) = (&*observed.pod, observed.barrier.as_ref());
    let mut plan = Plan::default();
    if is_stuck(pod) {
        plan.wake(LOOK_AGAIN);
    }
    let Release {
        create,
        patch,
        complete,
    } = release(pod, keys(barrier));
    let target = Target::new(ConfigMap::RESOURCE, &pod.metadata.namespace, &barrier_name(pod));
    let mut writes: Vec<Write> = Vec::new();
    if let Some(body) = create {
        match barrier.map(|barrier| (barrier.whose, barrier)) {
            Some((Whose::Foreign, _)) => {
                plan.events.push(in_the_way(pod));
                plan.wake(LOOK_AGAIN);
                return plan;
            }
            Some((Whose::Unknown | Whose::Leaving, _)) => {
                plan.wake(SOON);
                return plan;
            }
            Some((Whose::Predecessor, old)) => {
                let preconditions = Preconditions::uid(&old.uid).at(&old.resource_version);
                writes.push(Action::delete(target.clone(), preconditions).into());
            }
            Some((Whose::Own, _)) | None => {}
        }
        writes.push(Action::create(target.clone(), body).into());
    }
    if let (Some(patch), Some(barrier)) = (patch, barrier) {
        let preconditions = Preconditions::uid(&barrier.uid);
        writes.push(Action::merge(target, None, patch, preconditions).into());
    }
    if let Some(complete) = complete {
        writes.push(Action::patch_pod(pod, complete).into());
    }
    let mut step = Step::new(Phase::Update, Pace::InOrder, OnFailure::Stop);
    step.push(writes.into_iter().collect());
    plan.push(step);
    plan
}

fn in_the_way(pod: &Pod) -> Event {
    let message = format!(
        "ConfigMap {} exists and does not belong to this Pod: its containers start in order once that ConfigMap is removed",
        barrier_name(pod)
    );
    Event::warning(event::FAILED_CREATE, message)
}

/// Returns after which time a Pod that changed is to be looked at; nothing when there is no need. What is known of its barrier is asked for only where it
/// matters: most Pods have none.
pub fn look_after(pod: &Pod, barrier: impl FnOnce() -> Option<Barrier>) -> Option<Duration> {
    if waits(pod) && release(pod, keys(barrier().as_ref())) != Release::default() {
        Some(Duration::ZERO)
    } else {
        is_stuck(pod).then_some(LOOK_AGAIN)
    }
}

/// Returns true when the ConfigMap has to be read before anything is planned: another one was in the way, or what is known of it does not explain why a
/// container cannot be started.
pub fn must_read(pod: &Pod, barrier: Option<&Barrier>) -> bool {
    let next = release(pod, keys(barrier));
    match barrier {
        Some(barrier) if barrier.whose != Whose::Own => next != Release::default(),
        _ => is_stuck(pod) && next == Release::default(),
    }
}

/// What to write, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
struct Release {
    /// The ConfigMap, when there is none yet. Its first key is in it already.
    create: Option<Value>,
    /// A merge patch of the ConfigMap that lets the next containers start.
    patch: Option<Value>,
    /// The request that marks the Pod: nothing is left to do.
    complete: Option<PodPatch>,
}

/// Name of the ConfigMap of a Pod.
fn barrier_name(pod: &Pod) -> String {
    pattern::barrier_config_map(&pod.metadata.name)
}

/// Whether containers of a Pod wait for others. If not, there is nothing to do for it unless it is [stuck](is_stuck).
fn waits(pod: &Pod) -> bool {
    let is_done = pod.metadata.is_deleting() || pod.status.is_true(CONTAINERS_READY) || is_completed(pod);
    !is_done && waiting(pod).next().is_some()
}

/// Whether a container cannot be started whose key should be there. It may only be that kubelet has not tried again since.
fn is_stuck(pod: &Pod) -> bool {
    let due = due(pod);
    let cannot_start = |name: &str| {
        let status = pod.status.container(name);
        status.is_some_and(|status| {
            matches!(&status.state, ContainerState::Waiting { reason } if *reason == CREATE_CONTAINER_CONFIG_ERROR)
        })
    };
    let mut containers = pod.spec.template.containers.iter();
    !pod.metadata.is_deleting()
        && containers.any(|container| {
            cannot_start(&container.name) && priority(container).is_some_and(|priority| due.contains(&priority))
        })
}

/// What to do for a Pod that [waits](waits) or is [stuck](is_stuck). `released` are the keys in its ConfigMap, `None` when there is no ConfigMap.
fn release(pod: &Pod, released: Option<&BTreeSet<String>>) -> Release {
    let mut release = Release::default();
    let waits = waits(pod);
    if !waits && !is_stuck(pod) {
        return release;
    }
    let is_released = |key: &String| released.is_some_and(|keys| keys.contains(key));
    let due: BTreeSet<String> = due(pod).into_iter().map(pattern::barrier_key).collect();
    let missing: BTreeMap<&String, &str> = due
        .iter()
        .filter(|key| !is_released(key))
        .map(|key| (key, "true"))
        .collect();
    match released {
        None => release.create = Some(barrier(pod, &json!(missing))),
        Some(_) if !missing.is_empty() => release.patch = Some(json!({"data": missing})),
        Some(_) => {}
    }
    // The lowest may be there already when somebody else put it in.
    let lowest = waiting(pod).min().map(pattern::barrier_key);
    if waits && lowest.is_some_and(|lowest| due.contains(&lowest) || is_released(&lowest)) {
        release.complete = Some(completed(pod));
    }
    release
}

fn is_completed(pod: &Pod) -> bool {
    pod.metadata.annotation(annotation::LAUNCH_PRIORITY_COMPLETED) == Some("true")
}

/// The priorities whose keys have to be there: down to the highest that waits, or all once the Pod is completed.
fn due(pod: &Pod) -> BTreeSet<i64> {
    let highest = waiting(pod).max().filter(|_| !is_completed(pod));
    let all = pod.spec.template.containers.iter().filter_map(priority);
    all.filter(|priority| highest.is_none_or(|highest| *priority >= highest))
        .collect()
}

/// The priorities of containers that are not ready.
fn waiting(pod: &Pod) -> impl Iterator<Item = i64> {
    let is_ready = |name: &str| {
        let mut statuses = pod.status.container_statuses.iter();
        statuses.any(|status| status.name == name && status.ready)
    };
    let containers = pod.spec.template.containers.iter();
    containers
        .filter(move |container| !is_ready(&container.name))
        .filter_map(priority)
}

fn barrier(pod: &Pod, data: &Value) -> Value {
    let (name, uid) = (&*pod.metadata.name, pod.metadata.uid.to_string());
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": barrier_name(pod),
            "namespace": &*pod.metadata.namespace,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}],
        },
        "data": data,
    })
}

fn completed(pod: &Pod) -> PodPatch {
    let mut change = PodChange::default();
    change.set_annotation(annotation::LAUNCH_PRIORITY_COMPLETED, "true");
    let body = change.requests(pod, Guard::Identity, true).into_iter().next();
    body.unwrap_or_else(|| PodPatch {
        subresource: None,
        body: json!({}),
        preconditions: Preconditions::same(pod),
    })
}

#[cfg(test)]
mod tests;
