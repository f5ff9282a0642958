//! What a new Pod gets of what is remembered of its name.
//!
//! - Required keys become entries of its node selector, in place of what the user has there for the same key.
//! - Each preferred term becomes one preferred term of node affinity with its weight, behind those that are there. A weight that Kubernetes does not take is brought
//!   into its range, and one of 0 means that nothing is preferred.
//! - An annotation says whose record it was. Annotations in the record are for others, and not written back.

use kruise_api::names::annotation;
use kruise_api::persistentpodstate::PodState;
use kruise_api::persistentpodstate::v1beta1::PersistentPodState;
use serde_json::{Map, Value, json};

use crate::shared::tree::{Object, child_or_new};

/// The heaviest weight that Kubernetes takes.
const HEAVIEST: i32 = 100;

/// Returns what is remembered of a Pod, if it can be used.
pub fn record_of<'a>(state: &'a PersistentPodState, pod: &str) -> Option<&'a PodState> {
    let record = state.status.as_ref()?.pod_states.get(pod)?;
    (!record.node_topology_labels.is_empty()).then_some(record)
}

/// Puts what is remembered into a Pod.
pub fn inject(pod: &mut Object, state: &PersistentPodState, record: &PodState) {
    let known = |key: &String| Some((key.clone(), record.node_topology_labels.get(key)?.clone()));
    let required = state
        .spec
        .required_persistent_topology
        .iter()
        .flat_map(|term| &term.keys);
    let required: Map<String, Value> = required
        .filter_map(|key| known(key).map(|(key, value)| (key, json!(value))))
        .collect();
    if let Some(spec) = child_or_new(pod, "spec") {
        if !required.is_empty()
            && let Some(selector) = child_or_new(spec, "nodeSelector")
        {
            selector.extend(required);
        }
        prefer(spec, state, record);
    }
    let annotations = child_or_new(pod, "metadata").and_then(|metadata| child_or_new(metadata, "annotations"));
    if let Some(annotations) = annotations {
        let name = state.metadata.name.clone().unwrap_or_default();
        annotations.insert(
            annotation::INJECTED_PERSISTENT_POD_STATE.to_owned(),
            Value::String(name),
        );
    }
}

fn prefer(spec: &mut Object, state: &PersistentPodState, record: &PodState) {
    let terms = state
        .spec
        .preferred_persistent_topology
        .iter()
        .filter(|term| term.weight > 0);
    let terms: Vec<Value> = terms
        .map(|term| {
            let keys = term.preference.keys.iter();
            let expressions = keys.filter_map(|key| {
                let value = record.node_topology_labels.get(key)?;
                Some(json!({"key": key, "operator": "In", "values": [value]}))
            });
            let expressions: Vec<Value> = expressions.collect();
            let preference = if expressions.is_empty() {
                json!({})
            } else {
                json!({"matchExpressions": expressions})
            };
            json!({"weight": term.weight.min(HEAVIEST), "preference": preference})
        })
        .collect();
    if terms.is_empty() {
        return;
    }
    let affinity = child_or_new(spec, "affinity").and_then(|affinity| child_or_new(affinity, "nodeAffinity"));
    let Some(affinity) = affinity else { return };
    let list = affinity
        .entry("preferredDuringSchedulingIgnoredDuringExecution")
        .or_insert(Value::Null);
    if list.is_null() {
        *list = Value::Array(Vec::new());
    }
    if let Value::Array(list) = list {
        list.extend(terms);
    }
}
