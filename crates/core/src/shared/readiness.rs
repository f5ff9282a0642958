//! `KruisePodReady`: a switch that several writers share to hold a Pod not ready, and the Pod's `Ready` condition.
//!
//! - The condition's message lists who holds the Pod, as JSON. It is true again only when the list is empty.
//! - A Pod without this readiness gate is never held: nothing would come of it.
//! - Who makes a gate false also writes `Ready` as kubelet will compute it, so that traffic stops at once and not when kubelet gets to it.
//!   Making a gate true never touches `Ready`: that is kubelet's to say.

use jiff::Timestamp;
use kruise_api::names::condition::not_ready;
use kruise_api::names::condition::pod::{KRUISE_POD_READY, READINESS_GATES_NOT_READY};
use kruise_api::pod::Pod;
use kruise_api::pod::status::Holds;
use serde::{Deserialize, Serialize};

use super::availability::{CONTAINERS_READY, READY};
use super::go_json;
use super::pod_change::{NewCondition, PodChange};

/// Who holds a Pod not ready.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Writer {
    /// The part of the product.
    pub user_agent: String,
    /// What it holds the Pod for.
    pub key: String,
}

impl Writer {
    /// A lifecycle hook.
    pub fn lifecycle(key: &str) -> Self {
        Self {
            user_agent: not_ready::LIFECYCLE.to_owned(),
            key: key.to_owned(),
        }
    }

    /// A ContainerRecreateRequest.
    pub fn container_recreate(namespace: &str, name: &str) -> Self {
        Self {
            user_agent: not_ready::CONTAINER_RECREATE.to_owned(),
            key: format!("{namespace}/{name}"),
        }
    }
}

/// Who holds the Pod now. A message that cannot be read lists nobody.
pub fn writers(pod: &Pod) -> Vec<Writer> {
    let message = pod
        .status
        .condition(KRUISE_POD_READY)
        .map_or("", |condition| &condition.message);
    serde_json::from_str(message).unwrap_or_default()
}

/// Whether the Pod has this readiness gate.
pub fn has_gate(pod: &Pod, gate: &str) -> bool {
    pod.spec.template.readiness_gates.iter().any(|known| known == gate)
}

/// What to change so that this writer holds the Pod not ready; nothing when it does so already or cannot.
pub fn hold(pod: &Pod, writer: Writer, now: Timestamp) -> PodChange {
    let mut change = PodChange::default();
    let mut writers = writers(pod);
    let held = pod
        .status
        .condition(KRUISE_POD_READY)
        .is_some_and(|condition| condition.status != Holds::True);
    if !has_gate(pod, KRUISE_POD_READY) || held && writers.contains(&writer) {
        return change;
    }
    if !writers.contains(&writer) {
        writers.push(writer);
    }
    change
        .conditions
        .insert(KRUISE_POD_READY.to_owned(), listing(writers, now));
    if let Some(ready) = ready_with(pod, &[(KRUISE_POD_READY, false)]) {
        change.conditions.insert(READY.to_owned(), ready);
    }
    change
}

/// What to change so that this writer no longer holds the Pod; nothing when it does not.
pub fn release(pod: &Pod, writer: &Writer, now: Timestamp) -> PodChange {
    let mut change = PodChange::default();
    let mut writers = writers(pod);
    let count = writers.len();
    writers.retain(|known| known != writer);
    if has_gate(pod, KRUISE_POD_READY) && writers.len() < count {
        change
            .conditions
            .insert(KRUISE_POD_READY.to_owned(), listing(writers, now));
    }
    change
}

/// The condition that a new Pod is still missing: nobody holds it. Nothing for Pods that have it, do not ask for it, or are on their way out.
pub fn first(pod: &Pod, now: Timestamp) -> PodChange {
    let mut change = PodChange::default();
    let missing = has_gate(pod, KRUISE_POD_READY) && pod.status.condition(KRUISE_POD_READY).is_none();
    if missing && !pod.metadata.is_deleting() {
        change.conditions.insert(KRUISE_POD_READY.to_owned(), ready_since(now));
    }
    change
}

/// A condition that holds, without a reason.
pub fn ready_since(now: Timestamp) -> NewCondition {
    NewCondition {
        holds: true,
        since: Some(now),
        ..NewCondition::default()
    }
}

fn listing(mut writers: Vec<Writer>, now: Timestamp) -> NewCondition {
    writers.sort();
    writers.dedup();
    let message = serde_json::to_string(&writers).unwrap_or_default();
    NewCondition {
        holds: writers.is_empty(),
        reason: None,
        message: Some(go_json::escape(&message)),
        since: Some(now),
    }
}

/// `Ready` as kubelet will compute it once these gates are as given; nothing when it would be as it is.
///
/// Only a Pod whose containers are ready is judged: otherwise kubelet has the better reason.
pub fn ready_with(pod: &Pod, gates: &[(&str, bool)]) -> Option<NewCondition> {
    let ready = pod.status.condition(READY)?;
    if !pod.status.is_true(CONTAINERS_READY) {
        return None;
    }
    let complaints: Vec<String> = pod
        .spec
        .template
        .readiness_gates
        .iter()
        .filter_map(|gate| complaint(pod, gate, gates))
        .collect();
    let holds = complaints.is_empty();
    if (ready.status == Holds::True) == holds {
        return None;
    }
    Some(NewCondition {
        holds,
        reason: (!holds).then(|| READINESS_GATES_NOT_READY.to_owned()),
        message: (!holds).then(|| complaints.join(", ")),
        since: None,
    })
}

fn complaint(pod: &Pod, gate: &str, gates: &[(&str, bool)]) -> Option<String> {
    let given = gates.iter().find(|(name, _)| *name == gate).map(|(_, holds)| *holds);
    let status = match given {
        Some(true) => Holds::True,
        Some(false) => Holds::False,
        None => match pod.status.condition(gate) {
            Some(condition) => condition.status,
            None => {
                return Some(format!(
                    "corresponding condition of pod readiness gate \"{gate}\" does not exist."
                ));
            }
        },
    };
    (status != Holds::True)
        .then(|| format!("the status of pod readiness gate \"{gate}\" is not \"True\", but {status:?}"))
}

#[cfg(test)]
mod tests;
