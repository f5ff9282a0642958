//! Nodes are given the probes of their Pods.
//!
//! - A Pod is an entry with its name, namespace, UID and address; a Pod of the same name that was made anew is another one. The address follows the Pod's.
//! - A probe is listed as `<marker>#<probe>`, with its port as a number. One whose port the container does not have is left out for that Pod.
//! - What the marker lists and should not, is dropped; a Pod left without probes is dropped with it. What others list is never touched, so that a marker
//!   whose name ends like another one's does no harm.
//! - A NodePodProbe is written only if it changes, and only as it was seen: other markers write it as well.

use k8s_openapi::api::core::v1::Probe;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kruise_api::names::pattern;
use kruise_api::nodepodprobe::CachedNodePodProbe;
use kruise_api::nodepodprobe::{ContainerProbe, PodProbe};
use kruise_api::pod::Pod;
use kruise_api::podprobemarker::PodContainerProbe;
use kruise_api::podprobemarker::v1alpha1::PodProbeMarker;
use kruise_api::resource::Preconditions;
use serde_json::json;
use std::collections::BTreeMap;

use super::Observed;
use crate::plan::why;
use crate::plan::{Action, Chain, OnFailure, Pace, Phase, PodNames, Step, Target, Why};

/// Lists the probes of these Pods, by node, and drops what no longer belongs anywhere.
pub(super) fn step(observed: &Observed, pods: &BTreeMap<&str, Vec<&Pod>>, why: &mut Vec<Why>) -> Step {
    let mut step = Step::new(Phase::Distribute, Pace::Bounded, OnFailure::GoOn);
    for (node, list) in &observed.node_probes {
        let here = pods.get(node.as_str()).map(Vec::as_slice).unwrap_or_default();
        push(&mut step, observed, list, here);
    }
    let without = pods.keys().filter(|node| !observed.node_probes.contains_key(**node));
    let nodes: PodNames = without.copied().collect();
    if !nodes.is_empty() {
        why.push(why::Probes::NoNodePodProbe { nodes }.into());
    }
    explain(&observed.marker, pods, why);
    step
}

/// Drops everything that the marker lists.
pub(super) fn take_back(observed: &Observed) -> Step {
    // The finalizer comes off after all of it is gone.
    let mut step = Step::new(Phase::Distribute, Pace::Bounded, OnFailure::Stop);
    for list in observed.node_probes.values() {
        push(&mut step, observed, list, &[]);
    }
    step
}

fn push(step: &mut Step, observed: &Observed, list: &CachedNodePodProbe, pods: &[&Pod]) {
    if list.metadata.is_deleting() {
        return;
    }
    let wanted = wanted(&observed.marker, &list.spec.pod_probes, pods);
    if wanted != list.spec.pod_probes {
        let patch = json!({"spec": {"podProbes": wanted}});
        let action = Action::merge(Target::of(list), None, patch, Preconditions::unchanged(list));
        step.push(Chain::of(action.into()));
    }
}

/// The list of a node as it should be.
fn wanted(marker: &PodProbeMarker, listed: &[PodProbe], pods: &[&Pod]) -> Vec<PodProbe> {
    let namespace = marker.metadata.namespace.as_deref().unwrap_or_default();
    let mut missing: Vec<&Pod> = pods.to_vec();
    let mut wanted = Vec::with_capacity(listed.len() + pods.len());
    for entry in listed {
        let mut entry = entry.clone();
        if entry.namespace == namespace {
            let is_this = |pod: &&Pod| *pod.metadata.name == *entry.name && pod.metadata.uid.to_string() == entry.uid;
            let pod = missing.iter().position(is_this).map(|place| missing.remove(place));
            if !update(&mut entry, marker, pod) {
                continue;
            }
        }
        wanted.push(entry);
    }
    missing.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    for pod in missing {
        let probes: Vec<_> = probes(marker, pod).collect();
        if !probes.is_empty() {
            wanted.push(PodProbe {
                name: pod.metadata.name.to_string(),
                namespace: namespace.to_owned(),
                uid: pod.metadata.uid.to_string(),
                ip: pod.status.pod_ip.to_string(),
                probes,
            });
        }
    }
    wanted
}

/// Brings an entry up to date; false when nothing is left of it.
fn update(entry: &mut PodProbe, marker: &PodProbeMarker, pod: Option<&Pod>) -> bool {
    if let Some(pod) = pod.filter(|pod| !pod.status.pod_ip.is_empty()) {
        entry.ip = pod.status.pod_ip.to_string();
    }
    let mut new: Vec<ContainerProbe> = pod.into_iter().flat_map(|pod| probes(marker, pod)).collect();
    let had = entry.probes.len();
    let ours = marker.metadata.name.as_deref().unwrap_or_default();
    entry.probes.retain_mut(|known| {
        if pattern::parse_node_probe(&known.name).is_none_or(|(marker, _)| marker != ours) {
            return true;
        }
        let place = new.iter().position(|probe| probe.name == known.name);
        place.map(|place| *known = new.remove(place)).is_some()
    });
    entry.probes.extend(new);
    !entry.probes.is_empty() || had == 0
}

/// The probes of a marker for a Pod.
fn probes<'a>(marker: &'a PodProbeMarker, pod: &'a Pod) -> impl Iterator<Item = ContainerProbe> + 'a {
    let name = marker.metadata.name.as_deref().unwrap_or_default();
    marker.spec.probes.iter().filter_map(move |probe| {
        Some(ContainerProbe {
            name: pattern::node_probe(name, &probe.name),
            container_name: probe.container_name.clone(),
            probe: with_number(probe, pod)?,
        })
    })
}

/// The probe with its port as a number; nothing when the container has no such port.
fn with_number(probe: &PodContainerProbe, pod: &Pod) -> Option<Probe> {
    let mut resolved = probe.probe.clone();
    let ports = [
        resolved.tcp_socket.as_mut().map(|tcp| &mut tcp.port),
        resolved.http_get.as_mut().map(|get| &mut get.port),
    ];
    for port in ports.into_iter().flatten() {
        if let IntOrString::String(name) = port {
            let container = pod.spec.template.container(&probe.container_name);
            let named = container.and_then(|container| container.named_ports.iter().find(|port| *port.name == **name));
            let number = named.map_or_else(|| name.parse().ok(), |port| Some(port.container_port))?;
            *port = IntOrString::Int(number);
        }
    }
    Some(resolved)
}

fn explain(marker: &PodProbeMarker, pods: &BTreeMap<&str, Vec<&Pod>>, why: &mut Vec<Why>) {
    for probe in &marker.spec.probes {
        let (mut no_container, mut no_port) = (PodNames::default(), PodNames::default());
        for pod in pods.values().flatten() {
            let name = &*pod.metadata.name;
            if pod.spec.template.container(&probe.container_name).is_none() {
                no_container.push(name);
            } else if with_number(probe, pod).is_none() {
                no_port.push(name);
            }
        }
        let probe_name = || probe.name.clone();
        if !no_container.is_empty() {
            why.push(
                why::Probes::NoSuchContainer {
                    probe: probe_name(),
                    container: probe.container_name.clone(),
                    pods: no_container,
                }
                .into(),
            );
        }
        if !no_port.is_empty() {
            why.push(
                why::Probes::NoSuchPort {
                    probe: probe_name(),
                    pods: no_port,
                }
                .into(),
            );
        }
    }
}
