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
//! A container that kubelet cannot start although its key was written says that the ConfigMap may be gone. Then it is looked for, and made again.

use std::collections::{BTreeMap, BTreeSet};

use kruise_api::meta::{Meta, OwnerReference};
use kruise_api::names::{annotation, pattern};
use kruise_api::pod::Pod;
use kruise_api::pod::status::ContainerState;
use kruise_api::resource::Preconditions;
use serde::Deserialize;
use serde_json::{Value, json};

use super::availability::CONTAINERS_READY;
use super::inplace::priority;
use super::pod_change::{Guard, PodChange, PodPatch};

/// How kubelet says that something a container is made from is missing, as a key of a ConfigMap is.
const CREATE_CONTAINER_CONFIG_ERROR: &str = "CreateContainerConfigError";

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

/// A ConfigMap that has the name of a Pod's barrier.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Barrier {
    /// Its owners above all.
    pub metadata: Meta,
    data: Option<BTreeMap<String, String>>,
}

/// Whose a [`Barrier`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The Pod's own.
    Own,
    /// That of an earlier Pod of the same name, which is no more. It may be removed.
    Predecessor,
    /// It will be gone soon, or the Pod is not the latest of its name.
    Leaving,
    /// It has nothing to do with the Pod.
    Foreign,
}

impl Barrier {
    /// The keys in it.
    pub fn keys(&self) -> BTreeSet<String> {
        self.data.iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    /// Whose it is, seen from a Pod that needs it.
    pub fn whose(&self, pod: &Pod) -> Whose {
        let owners = &*self.metadata.owner_references.0;
        let of_this_name = |owner: &OwnerReference| {
            &*owner.kind == "Pod" && &*owner.api_version == "v1" && owner.name == pod.metadata.name && !owner.controller
        };
        // A Pod that came later wrote its barrier after this Pod was made.
        let is_later = self.metadata.creation_timestamp > pod.metadata.creation_timestamp;
        match owners {
            _ if self.metadata.is_deleting() => Whose::Leaving,
            owners if owners.iter().any(|owner| owner.uid == pod.metadata.uid) => Whose::Own,
            [owner] if of_this_name(owner) && is_later => Whose::Leaving,
            [owner] if of_this_name(owner) => Whose::Predecessor,
            _ => Whose::Foreign,
        }
    }
}

/// Name of the ConfigMap of a Pod.
pub fn barrier_name(pod: &Pod) -> String {
    pattern::barrier_config_map(&pod.metadata.name)
}

/// Whether containers of a Pod wait for others. If not, there is nothing to do for it unless it is [stuck](is_stuck).
pub fn waits(pod: &Pod) -> bool {
    let is_done = pod.metadata.is_deleting() || pod.status.is_true(CONTAINERS_READY) || is_completed(pod);
    !is_done && waiting(pod).next().is_some()
}

/// Whether a container cannot be started whose key should be there. It may only be that kubelet has not tried again since.
pub fn is_stuck(pod: &Pod) -> bool {
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
pub fn release(pod: &Pod, released: Option<&BTreeSet<String>>) -> Release {
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
