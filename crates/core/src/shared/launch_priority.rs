//! Lets the containers of a Pod start one after the other.
//!
//! Admission gave each container a variable from a key of the ConfigMap `<pod>-barrier`, so kubelet starts it only when the key is there.
//! The keys come in the order of the priorities: the next lower one when all containers with a higher one are ready. Once the lowest is there, the
//! Pod is annotated and not looked at again; a container that fails later does not hold back others.

use std::collections::BTreeSet;

use kruise_api::names::{annotation, pattern};
use kruise_api::pod::Pod;
use serde_json::{Value, json};

use super::availability::CONTAINERS_READY;
use super::inplace::priority;
use super::pod_change::{Guard, PodChange, PodPatch};

/// What to write, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Release {
    /// The ConfigMap, when there is none yet. Its first key is in it already.
    pub create: Option<Value>,
    /// A merge patch of the ConfigMap that lets the next containers start.
    pub patch: Option<Value>,
    /// The request that marks the Pod: nothing is left to do.
    pub complete: Option<PodPatch>,
}

/// Name of the ConfigMap of a Pod.
pub fn barrier_name(pod: &Pod) -> String {
    pattern::barrier_config_map(&pod.metadata.name)
}

/// Whether containers of a Pod wait for others. If not, there is nothing to do for it.
pub fn waits(pod: &Pod) -> bool {
    let is_done = pod.metadata.is_deleting()
        || pod.status.is_true(CONTAINERS_READY)
        || pod.metadata.annotation(annotation::LAUNCH_PRIORITY_COMPLETED) == Some("true");
    !is_done && !waiting(pod).is_empty()
}

/// What to do for a Pod that [waits](waits). `released` are the keys in its ConfigMap, `None` when there is no ConfigMap.
pub fn release(pod: &Pod, released: Option<&BTreeSet<String>>) -> Release {
    let mut release = Release::default();
    if !waits(pod) {
        return release;
    }
    let waiting = waiting(pod);
    let (Some(lowest), Some(highest)) = (waiting.first().copied(), waiting.last().copied()) else {
        return release;
    };
    let is_released = |priority| released.is_some_and(|keys| keys.contains(&pattern::barrier_key(priority)));
    if is_released(highest) {
        // Its containers are on their way. The lowest may be there already when somebody else put it in.
        if is_released(lowest) {
            release.complete = Some(completed(pod));
        }
        return release;
    }
    let data = json!({(pattern::barrier_key(highest)): "true"});
    match released {
        None => release.create = Some(barrier(pod, &data)),
        Some(_) => release.patch = Some(json!({"data": data})),
    }
    if highest == lowest || is_released(lowest) {
        release.complete = Some(completed(pod));
    }
    release
}

/// The priorities of containers that are not ready.
fn waiting(pod: &Pod) -> BTreeSet<i64> {
    let is_ready = |name: &str| {
        let mut statuses = pod.status.container_statuses.iter();
        statuses.any(|status| status.name == name && status.ready)
    };
    let containers = pod.spec.template.containers.iter();
    containers
        .filter(|container| !is_ready(&container.name))
        .filter_map(priority)
        .collect()
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
        part: super::pod_change::Part::Pod,
        body: json!({}),
    })
}

#[cfg(test)]
mod tests;
