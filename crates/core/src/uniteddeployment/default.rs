//! What is written into a UnitedDeployment where its user said nothing.
//!
//! | field | default |
//! |---|---|
//! | `replicas`, `revisionHistoryLimit` | 1, 10 |
//! | `updateStrategy.type`, `manualUpdate` | `Manual`, an empty one |
//! | `minReplicas` of a subset | 0, when subsets have limits and none has `replicas` |
//! | Pod and claim templates of `statefulSetTemplate` | see [`crate::pod_template::workload`] |
//!
//! The other three templates are completed when the workloads are made, by whoever does that for such workloads. A status is for the controller to write.
//!
//! All of it works on the JSON as it came. Fields nobody knows stay; a value of a wrong type is left for the API server to refuse.

use kruise_api::gates::Gates;
use serde_json::{Value, json};

use crate::pod_template::workload;
use crate::shared::tree::{Object, child, child_or_new, fill, fill_missing};

/// Completes an object; `old` is what it was before an update.
pub fn default(object: &mut Object, old: Option<&Object>, gates: Gates) {
    object.remove("status");
    let Some(spec) = child_or_new(object, "spec") else {
        return;
    };
    let mut wrote = fill_missing(spec, "replicas", json!(1));
    wrote |= fill_missing(spec, "revisionHistoryLimit", json!(10));
    wrote |= fill_missing(spec, "updateStrategy", json!({}));
    if let Some(update) = child(spec, "updateStrategy") {
        wrote |= fill(update, "type", json!("Manual"));
        if update.get("type").and_then(Value::as_str) == Some("Manual") {
            wrote |= fill_missing(update, "manualUpdate", json!({}));
        }
    }
    wrote |= minima(spec);
    let old = old.and_then(|old| old.get("spec"));
    if old.is_some_and(|old| old.get("template") == spec.get("template")) {
        return;
    }
    let template = child(spec, "template").and_then(|template| child(template, "statefulSetTemplate"));
    if let Some(spec) = template.and_then(|template| child(template, "spec")) {
        workload::default(spec, None, wrote, gates);
    }
}

/// Says whether there was anything to write.
fn minima(spec: &mut Object) -> bool {
    let subsets = child(spec, "topology").and_then(|topology| topology.get_mut("subsets")?.as_array_mut());
    let Some(subsets) = subsets else { return false };
    let has = |subset: &Value, field: &str| subset.get(field).is_some_and(|value| !value.is_null());
    let is_limited = subsets
        .iter()
        .any(|subset| has(subset, "minReplicas") || has(subset, "maxReplicas"));
    if !is_limited || subsets.iter().any(|subset| has(subset, "replicas")) {
        return false;
    }
    let mut wrote = false;
    for subset in subsets.iter_mut().filter_map(Value::as_object_mut) {
        wrote |= fill_missing(subset, "minReplicas", json!(0));
    }
    wrote
}
