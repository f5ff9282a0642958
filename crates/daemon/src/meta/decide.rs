//! When the report on a Pod is looked at, what it says, and which containers have to be restarted for their environment.
//!
//! - Reported are Pods of our workloads and Pods with sidecars of a SidecarSet.
//! - A Pod without a report that was there before the daemon is left alone until it changes: an installation in a big cluster must not
//!   begin with a write for every Pod.
//! - A container's entry stays as it is while that very container runs. Only the hash of its environment may be added later.
//! - A container is restarted for its environment only while its Pod is being updated in place.

use std::collections::BTreeMap;

use kruise_api::meta::group_of;
use kruise_api::names::annotation::{RUNTIME_CONTAINERS, SIDECAR_SET_HASH};
use kruise_api::names::condition::pod::IN_PLACE_UPDATE_READY;
use kruise_api::names::group;
use kruise_api::pod::status::Holds;
use kruise_api::pod::{Container, Pod};
use kruise_core::shared::container_hash::{Hashes, RuntimeContainer, RuntimeContainers, environment_of};
use kruise_cri::wire::{ContainerState, ContainerStatus};

use crate::containers::{plain_hash, restart_count};

/// Whether a change of a Pod calls for a look at its report.
pub(super) fn calls_for_a_look(old: Option<&Pod>, new: &Pod, with_environment: bool) -> bool {
    if !is_reported(new) || new.metadata.is_deleting() || new.status.container_statuses.is_empty() {
        return false;
    }
    if old.is_none() && new.metadata.annotation(RUNTIME_CONTAINERS).is_none() {
        return false;
    }
    let count = |pod: &Pod| pod.spec.template.containers.len();
    if old.is_some_and(|old| count(old) != count(new)) {
        return true;
    }
    let report = report_on(new);
    let length = report.as_ref().map(|report| report.containers.len());
    let mut running = new
        .status
        .container_statuses
        .iter()
        .filter(|status| !status.container_id.is_empty());
    running.any(|status| {
        let entry = report.as_ref().and_then(|report| entry(report, &status.name));
        let Some(entry) = entry.filter(|_| length == Some(new.status.container_statuses.len())) else {
            return true;
        };
        entry.container_id != status.container_id.to_string()
            || with_environment && environment_differs(old, new, &status.name, entry)
    })
}

fn environment_differs(old: Option<&Pod>, new: &Pod, name: &str, entry: &RuntimeContainer) -> bool {
    let expected = |pod: &Pod| spec_of(pod, name).map(|container| environment_of(pod, container));
    let now = expected(new);
    now.is_some_and(|now| now != entry.hashes.extracted_env_from_metadata_hash)
        || old.is_some_and(|old| expected(old) != now)
}

/// Whether Pods like this one are reported on.
fn is_reported(pod: &Pod) -> bool {
    let is_ours = |api_version: &str| group_of(api_version) == group::APPS;
    pod.metadata
        .controller()
        .is_some_and(|owner| is_ours(&owner.api_version))
        || pod.metadata.annotation(SIDECAR_SET_HASH).is_some()
}

/// The report that the Pod carries; one that cannot be read is none.
pub(super) fn report_on(pod: &Pod) -> Option<RuntimeContainers> {
    RuntimeContainers::of(pod).ok().flatten()
}

fn entry<'a>(report: &'a RuntimeContainers, name: &str) -> Option<&'a RuntimeContainer> {
    report.containers.iter().find(|entry| entry.name == name)
}

pub(super) fn spec_of<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    pod.spec
        .template
        .containers
        .iter()
        .find(|container| container.name == name)
}

/// The name of the runtime that runs the Pod's containers.
pub(super) fn runtime_name(pod: &Pod) -> Option<String> {
    let statuses = pod.status.container_statuses.iter();
    statuses.map(|status| status.container_id.to_string()).find_map(|id| {
        let (name, _) = id.split_once("://")?;
        (!name.is_empty()).then(|| name.to_owned())
    })
}

/// What is to be reported, as far as it is known without a look into the containers.
pub(super) fn content(pod: &Pod, runtime: &str, on_node: &BTreeMap<String, ContainerStatus>) -> RuntimeContainers {
    let before = report_on(pod).unwrap_or_default();
    let mut containers = Vec::new();
    for status in &pod.status.container_statuses {
        let (Some(seen), Some(_)) = (on_node.get(&*status.name), spec_of(pod, &status.name)) else {
            continue;
        };
        let container_id = format!("{runtime}://{}", seen.id);
        let kept = entry(&before, &status.name).filter(|entry| entry.container_id == container_id);
        containers.push(kept.cloned().unwrap_or_else(|| RuntimeContainer {
            name: status.name.to_string(),
            container_id,
            restart_count: restart_count(seen),
            hashes: Hashes {
                plain_hash: plain_hash(seen),
                extracted_env_from_metadata_hash: 0,
            },
        }));
    }
    RuntimeContainers { containers }
}

/// Whether a container's environment is to be looked at.
pub(super) fn lacks_environment(entry: &RuntimeContainer, seen: &ContainerStatus) -> bool {
    entry.hashes.extracted_env_from_metadata_hash == 0 && seen.state() == ContainerState::ContainerRunning
}

/// IDs of the containers that were started with an environment that is no longer what it should be.
pub(super) fn to_restart(pod: &Pod, report: &RuntimeContainers) -> Vec<String> {
    let updating = pod
        .status
        .condition(IN_PLACE_UPDATE_READY)
        .is_some_and(|condition| condition.status == Holds::False);
    if !updating || pod.metadata.is_deleting() {
        return Vec::new();
    }
    let outdated = |entry: &&RuntimeContainer| {
        let has = entry.hashes.extracted_env_from_metadata_hash;
        has > 0 && spec_of(pod, &entry.name).is_some_and(|container| environment_of(pod, container) != has)
    };
    let outdated = report.containers.iter().filter(outdated);
    outdated.map(|entry| entry.container_id.clone()).collect()
}

#[cfg(test)]
mod tests;
