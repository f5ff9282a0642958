//! What a subset adds to its Pods.
//!
//! 1. Its tolerations, and its preferred terms, behind those that the Pod has.
//! 2. Its required term. Where the Pod requires something itself, both have to hold: terms are alternatives, so ours is added to each of them.
//! 3. Its patch, which may change anything. With another priority class the number goes that belonged to the one before.
//! 4. The annotation that says which subset it is.

use kruise_api::names::annotation;
use kruise_api::workloadspread::v1beta1::WorkloadSpreadSubset;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::related::Matched;
use crate::shared::strategic_merge;
use crate::shared::tree::{child_or_new, set_metadata};

/// Puts what a subset adds into a Pod. `uid` is the id of its entry in the ledger, where it has one.
///
/// # Errors
/// When the patch cannot be applied.
pub fn inject(pod: &mut Value, spread: &str, subset: &WorkloadSpreadSubset, uid: &str) -> Result<(), String> {
    let object = pod.as_object_mut().ok_or("the Pod is no object")?;
    if let Some(spec) = child_or_new(object, "spec") {
        append(spec, "tolerations", &subset.tolerations);
        if let Some(nodes) = child_or_new(spec, "affinity").and_then(|affinity| child_or_new(affinity, "nodeAffinity"))
        {
            append(
                nodes,
                "preferredDuringSchedulingIgnoredDuringExecution",
                &subset.preferred_node_selector,
            );
            if let Some(term) = &subset.required_node_selector {
                require(nodes, &json(term));
            }
        }
    }
    let class = priority_class(pod).cloned();
    if !subset.patch.is_empty() {
        let patch = subset.patch.value();
        strategic_merge::apply(pod, &patch)
            .map_err(|error| format!("the patch of subset {} cannot be applied: {error}", subset.name))?;
        if priority_class(pod) != class.as_ref() {
            let given = |field: &str| patch.get("spec").is_some_and(|spec| spec.get(field).is_some());
            if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
                // The API server works them out again, and refuses those of another class.
                for field in ["priority", "preemptionPolicy"]
                    .into_iter()
                    .filter(|field| !given(field))
                {
                    spec.remove(field);
                }
            }
        }
    }
    let matched = Matched {
        name: spread.to_owned(),
        subset: subset.name.clone(),
        uid: uid.to_owned(),
    };
    if let Some(object) = pod.as_object_mut() {
        set_metadata(
            object,
            "annotations",
            annotation::MATCHED_WORKLOAD_SPREAD,
            matched.text(),
        );
    }
    Ok(())
}

fn priority_class(pod: &Value) -> Option<&Value> {
    let class = pod.pointer("/spec/priorityClassName");
    class.filter(|class| class.as_str().is_none_or(|class| !class.is_empty()))
}

fn json<T: Serialize>(part: &T) -> Value {
    // These types have only texts as keys.
    serde_json::to_value(part).unwrap_or_default()
}

fn append<T: Serialize>(object: &mut Map<String, Value>, name: &str, items: &[T]) {
    if items.is_empty() {
        return;
    }
    let list = object.entry(name).or_insert(Value::Null);
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    if let Value::Array(list) = list {
        list.extend(items.iter().map(json));
    }
}

/// Adds a term to each of those that are required.
fn require(nodes: &mut Map<String, Value>, term: &Value) {
    let Some(required) = child_or_new(nodes, "requiredDuringSchedulingIgnoredDuringExecution") else {
        return;
    };
    let terms = required.entry("nodeSelectorTerms").or_insert(Value::Null);
    let Some(terms) = terms.as_array_mut().filter(|terms| !terms.is_empty()) else {
        required.insert("nodeSelectorTerms".to_owned(), json!([term]));
        return;
    };
    for known in terms.iter_mut().filter_map(Value::as_object_mut) {
        for part in ["matchExpressions", "matchFields"] {
            let items = term.get(part).and_then(Value::as_array);
            append(known, part, items.map(Vec::as_slice).unwrap_or_default());
        }
    }
}
