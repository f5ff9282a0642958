//! What is remembered of Pods.
//!
//! - Only of Pods that are ready. While the node is the same and nothing else is to be remembered, a record stays as it is, whatever becomes of the node's labels.
//! - A node that is not known any more is no reason to forget: the old record stays.
//! - A record goes when the workload does not want the Pod's ordinal any more and the Pod is gone or on its way. Names without an ordinal are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kruise_api::persistentpodstate::v1beta1::PersistentPodState;
use kruise_api::persistentpodstate::{PodState, RetentionPolicy};
use kruise_api::pod::Pod;

use super::{Observed, Workload};
use crate::plan::PodNames;
use crate::shared::availability::{is_active, is_ready};
use crate::shared::ordinals::of_pod_name;

/// What is to be remembered, and of whom nothing new can be.
pub(super) struct Recorded {
    pub(super) pod_states: BTreeMap<String, PodState>,
    pub(super) not_ready: PodNames,
    /// Pods whose nodes or annotations are not known.
    pub(super) unknown: PodNames,
}

/// Keys of what is remembered.
struct Keys<'a> {
    labels: BTreeSet<&'a str>,
    annotations: BTreeSet<&'a str>,
}

impl<'a> Keys<'a> {
    fn of(state: &'a PersistentPodState) -> Self {
        let required = state
            .spec
            .required_persistent_topology
            .iter()
            .flat_map(|term| &term.keys);
        let preferred = state
            .spec
            .preferred_persistent_topology
            .iter()
            .flat_map(|term| &term.preference.keys);
        let annotations = state.spec.persistent_pod_annotations.iter();
        Self {
            labels: required.chain(preferred).map(String::as_str).collect(),
            annotations: annotations.map(|annotation| annotation.key.as_str()).collect(),
        }
    }

    /// Whether a record is about this node and has all of these keys, and no others.
    fn fit(&self, record: &PodState, node: &str) -> bool {
        record.node_name == node
            && record
                .node_topology_labels
                .keys()
                .map(String::as_str)
                .eq(self.labels.iter().copied())
            && record
                .annotations
                .keys()
                .map(String::as_str)
                .eq(self.annotations.iter().copied())
    }
}

/// The Pods that count: none of a workload that wants none.
fn active<'a>(pods: &'a [Arc<Pod>], workload: &Workload) -> Vec<&'a Pod> {
    if workload.ordinals.as_ref().is_some_and(|ordinals| ordinals.count() == 0) {
        return Vec::new();
    }
    pods.iter().map(|pod| &**pod).filter(|pod| is_active(pod)).collect()
}

fn is_recordable(pod: &Pod) -> bool {
    is_active(pod) && is_ready(pod) && !pod.spec.node_name.is_empty()
}

/// Returns the Pods whose annotations have to be read before they can be remembered.
pub fn to_read<'a>(state: &'a PersistentPodState, pods: &'a [Arc<Pod>]) -> impl Iterator<Item = &'a Arc<Pod>> {
    let keys = Keys::of(state);
    let known = state.status.as_ref().map(|status| &status.pod_states);
    pods.iter().filter(move |pod| {
        let record = known.and_then(|known| known.get(&*pod.metadata.name));
        !keys.annotations.is_empty()
            && is_recordable(pod)
            && !record.is_some_and(|record| keys.fit(record, &pod.spec.node_name))
    })
}

/// Remembers what there is to remember.
pub(super) fn record(observed: &Observed, state: &PersistentPodState, workload: &Workload) -> Recorded {
    let keys = Keys::of(state);
    let known = state.status.as_ref().map(|status| status.pod_states.clone());
    let mut recorded = Recorded {
        pod_states: known.unwrap_or_default(),
        not_ready: PodNames::default(),
        unknown: PodNames::default(),
    };
    let mut pods = active(&observed.pods, workload);
    pods.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    for pod in &pods {
        let (name, node) = (&*pod.metadata.name, &*pod.spec.node_name);
        if !is_recordable(pod) {
            recorded.not_ready.push(name);
            continue;
        }
        if recorded
            .pod_states
            .get(name)
            .is_some_and(|record| keys.fit(record, node))
        {
            continue;
        }
        match new_record(observed, &keys, name, node) {
            Some(record) => drop(recorded.pod_states.insert(name.to_owned(), record)),
            None => recorded.unknown.push(name),
        }
    }
    if state.spec.persistent_pod_state_retention_policy != RetentionPolicy::WhenDeleted {
        let names: BTreeSet<&str> = pods.iter().map(|pod| &*pod.metadata.name).collect();
        recorded.pod_states.retain(|name, _| {
            let is_wanted = match (of_pod_name(name), &workload.ordinals) {
                (Some((_, ordinal)), Some(ordinals)) => ordinals.contains(ordinal),
                _ => true,
            };
            is_wanted || names.contains(name.as_str())
        });
    }
    recorded
}

fn new_record(observed: &Observed, keys: &Keys<'_>, name: &str, node: &str) -> Option<PodState> {
    let found = observed.nodes.get(node)?;
    let none = BTreeMap::new();
    let annotations = match observed.annotations.get(name) {
        Some(read) => read,
        None if keys.annotations.is_empty() => &none,
        None => return None,
    };
    let labels = keys
        .labels
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), found.metadata.label(key)?.to_owned())));
    let annotations = keys
        .annotations
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), annotations.get(*key)?.clone())));
    Some(PodState {
        node_name: node.to_owned(),
        node_topology_labels: labels.collect(),
        annotations: annotations.collect(),
    })
}
