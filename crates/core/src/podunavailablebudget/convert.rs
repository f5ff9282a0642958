//! v1alpha1 and v1beta1 of PodUnavailableBudget.
//!
//! | v1alpha1 | v1beta1 |
//! |---|---|
//! | annotation "protect operations", a comma list | `spec.protectOperations` |
//! | annotation "protect total replicas" | `spec.protectTotalReplicas` |
//! | nothing | `spec.ignoredPodSelector`, lost in v1alpha1 |
//!
//! The annotations stay on the way up. On the way down a field is written over its annotation, and **an annotation
//! without its field is kept**: objects stored before this conversion existed have nothing else, and the controller
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
    let mut operations = Vec::new();
    let list = metadata(object, "annotations", annotation::BUDGET_PROTECT_OPERATIONS).unwrap_or_default();
    for operation in list.split(',').map(str::trim).filter(|operation| !operation.is_empty()) {
        if OPERATIONS.contains(&operation) {
            operations.push(Value::from(operation));
        } else {
            warnings.push(Warning::annotation(
                annotation::BUDGET_PROTECT_OPERATIONS,
                operation,
                "not one of DELETE, UPDATE, EVICT, RESIZE",
            ));
        }
    }
    let total = metadata(object, "annotations", annotation::BUDGET_TOTAL_REPLICAS).unwrap_or_default();
    let total = match total.parse::<i32>() {
        Ok(number) if number >= 1 => Some(number),
        _ => {
            if !total.is_empty() {
                warnings.push(Warning::annotation(
                    annotation::BUDGET_TOTAL_REPLICAS,
                    total,
                    "not an integer of 1 or more",
                ));
            }
            None
        }
    };
    let Some(spec) = child(object, "spec") else {
        return Ok(());
    };
    if !operations.is_empty() {
        spec.insert("protectOperations".into(), Value::Array(operations));
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
    if !operations.is_empty() {
        set_metadata(
            object,
            "annotations",
            annotation::BUDGET_PROTECT_OPERATIONS,
            operations.join(","),
        );
    }
    if let Some(total) = total {
        set_metadata(
            object,
            "annotations",
            annotation::BUDGET_TOTAL_REPLICAS,
            total.to_string(),
        );
    }
    Ok(())
}
