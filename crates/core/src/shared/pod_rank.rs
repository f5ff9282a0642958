//! What tells Pods apart when some of them have to go first: pieces of an order that kinds put together.

use std::cmp::{Ordering, Reverse};

use kruise_api::meta::CompactTimestamp;
use kruise_api::names::annotation;
use kruise_api::pod::Pod;
use kruise_api::pod::status::PodPhase;

use super::availability::READY;

/// Whether the Pod has a node, then its phase: `Pending`, `Unknown`, `Running`. The least useful Pod comes first.
pub fn placement(pod: &Pod) -> (bool, u8) {
    let phase = match pod.status.phase {
        PodPhase::Running => 2,
        PodPhase::Unknown => 1,
        _ => 0,
    };
    (!pod.spec.node_name.is_empty(), phase)
}

/// Restarts of the container that was restarted most.
pub fn restarts(pod: &Pod) -> i32 {
    let counts = pod.status.container_statuses.iter().map(|status| status.restart_count);
    counts.max().unwrap_or(0)
}

/// Restarts of the restartable init container that was restarted most.
pub fn sidecar_restarts(pod: &Pod) -> i32 {
    let sidecars = pod
        .spec
        .template
        .init_containers
        .iter()
        .filter(|container| container.restart_policy == "Always");
    let statuses = &pod.status.init_container_statuses;
    let restarts = sidecars.filter_map(|container| statuses.iter().find(|status| status.name == container.name));
    restarts.map(|status| status.restart_count).max().unwrap_or(0)
}

/// The Pod whose update harms least comes first: without a node, then by phase, not ready, only recently ready, restarted often (first regular containers, then
/// restartable init containers), young.
pub fn cmp_for_update(one: &Pod, other: &Pod) -> Ordering {
    let (ready, other_ready) = (one.status.is_true(READY), other.status.is_true(READY));
    let since = |pod: &Pod| pod.status.condition(READY).and_then(|ready| ready.last_transition_time);
    let by_time = || {
        if ready && other_ready {
            later_or_unknown(since(one), since(other))
        } else {
            Ordering::Equal
        }
    };
    placement(one)
        .cmp(&placement(other))
        .then(ready.cmp(&other_ready))
        .then_with(by_time)
        .then_with(|| restarts(other).cmp(&restarts(one)))
        .then_with(|| sidecar_restarts(other).cmp(&sidecar_restarts(one)))
        .then_with(|| later_or_unknown(one.metadata.creation_timestamp, other.metadata.creation_timestamp))
        .then_with(|| one.metadata.name.cmp(&other.metadata.name))
}

/// The later time first, an unknown one before all.
pub fn later_or_unknown(one: Option<CompactTimestamp>, other: Option<CompactTimestamp>) -> Ordering {
    let key = |time: Option<CompactTimestamp>| (time.is_some(), Reverse(time));
    key(one).cmp(&key(other))
}

/// What `controller.kubernetes.io/pod-deletion-cost` says; 0 when it is not the plain form of a 32-bit number.
pub fn deletion_cost(pod: &Pod) -> i32 {
    let text = pod
        .metadata
        .annotation(annotation::POD_DELETION_COST)
        .unwrap_or_default();
    let is_plain = text == "0" || text.starts_with('-') || text.starts_with(|first: char| ('1'..='9').contains(&first));
    if is_plain { text.parse().unwrap_or(0) } else { 0 }
}
