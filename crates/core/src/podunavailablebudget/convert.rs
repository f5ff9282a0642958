//! v1alpha1 and v1beta1 of PodUnavailableBudget.
//!
//! | v1alpha1 | v1beta1 |
//! |---|---|
//! | annotation "protect operations", a comma list | `spec.protectOperations` |
//! | annotation "protect total replicas" | `spec.protectTotalReplicas` |
//! | nothing | `spec.ignoredPodSelector`, lost in v1alpha1 |
//!
//! The annotations stay on the way up. On the way down a field is written over an annotation that says something else,
//! and **an annotation without its field is kept**: objects stored before this conversion existed have nothing else, and the controller
//! honours an annotation whose field is not set. A value that v1beta1 would refuse is left out with a warning; an
//! error would make every list that holds the object unreadable.

use crate::shared::convert::{ConvertError, Rules, Warning};
use crate::shared::tree::{Object, child, metadata, set_metadata};
use kruise_api::names::annotation;
use serde_json::Value;

const OPERATIONS: [&str; 4] = ["DELETE", "UPDATE", "EVICT", "RESIZE"];

pub const RULES: Rules = Rules {
    only_v1beta1: &[
        "spec.ignoredPodSelector",
        "spec.protectOperations",
        "spec.protectTotalReplicas",
    ],
    up,
    down,
    ..Rules::SAME
};

pub fn up(object: &mut Object, warnings: &mut Vec<Warning>) -> Result<(), ConvertError> {
    let operations = annotated_operations(object, warnings);
    let total = annotated_total(object, warnings);
    let Some(spec) = child(object, "spec") else {
        return Ok(());
    };
    if !operations.is_empty() {
        spec.insert("protectOperations".into(), operations.into());
    }
    if let Some(total) = total {
        spec.insert("protectTotalReplicas".into(), total.into());
    }
    Ok(())
}

pub fn down(object: &mut Object, _: &mut Vec<Warning>) -> Result<(), ConvertError> {
    let Some(spec) = child(object, "spec") else {
        return Ok(());
    };
    let operations: Vec<String> = spec
        .get("protectOperations")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|operation| operation.as_str().map(str::to_owned))
        .collect();
    let total = spec.get("protectTotalReplicas").and_then(Value::as_i64);
    if !operations.is_empty() && operations != annotated_operations(object, &mut Vec::new()) {
        let name = annotation::BUDGET_PROTECT_OPERATIONS;
        set_metadata(object, "annotations", name, operations.join(","));
    }
    if let Some(total) = total
        && Some(total) != annotated_total(object, &mut Vec::new()).map(i64::from)
    {
        let name = annotation::BUDGET_TOTAL_REPLICAS;
        set_metadata(object, "annotations", name, total.to_string());
    }
    Ok(())
}

fn annotated_operations(object: &Object, warnings: &mut Vec<Warning>) -> Vec<String> {
    let name = annotation::BUDGET_PROTECT_OPERATIONS;
    let list = metadata(object, "annotations", name).unwrap_or_default();
    let (known, unknown): (Vec<&str>, Vec<&str>) = list
        .split(',')
        .map(str::trim)
        .filter(|operation| !operation.is_empty())
        .partition(|operation| OPERATIONS.contains(operation));
    for operation in unknown {
        let reason = "not one of DELETE, UPDATE, EVICT, RESIZE";
        warnings.push(Warning::annotation(name, operation, reason));
    }
    known.into_iter().map(str::to_owned).collect()
}

fn annotated_total(object: &Object, warnings: &mut Vec<Warning>) -> Option<i32> {
    let name = annotation::BUDGET_TOTAL_REPLICAS;
    let text = metadata(object, "annotations", name).filter(|text| !text.is_empty())?;
    let total = text.parse().ok().filter(|total| *total >= 1);
    if total.is_none() {
        warnings.push(Warning::annotation(name, text, "not an integer of 1 or more"));
    }
    total
}
