//! Where the Pods of a subset may be: its nodes, and the taints that they tolerate. The rules are those of Kubernetes.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, Toleration};
use kruise_api::uniteddeployment::topology::{Subset, Topology};

use crate::field_error::{FieldError, Path};
use crate::shared::validate::label::{key_faults, value_faults};

/// What is wrong with nodes and tolerations of a subset at `path`.
pub(super) fn validate(subset: &Subset, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let at = path.child("nodeSelectorTerm");
    let term = subset.node_selector_term.as_ref();
    let expressions = term.and_then(|term| term.match_expressions.as_ref());
    for (index, requirement) in expressions.into_iter().flatten().enumerate() {
        errors.extend(expression(requirement, &at.child("matchExpressions").index(index)));
    }
    let fields = term.and_then(|term| term.match_fields.as_ref());
    for (index, requirement) in fields.into_iter().flatten().enumerate() {
        errors.extend(field(requirement, &at.child("matchFields").index(index)));
    }
    for (index, given) in subset.tolerations.iter().enumerate() {
        errors.extend(toleration(given, &path.child("tolerations").index(index)));
    }
    errors
}

fn expression(requirement: &NodeSelectorRequirement, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let values = at.child("values");
    let count = requirement.values.as_ref().map_or(0, Vec::len);
    match (&*requirement.operator, count) {
        ("In" | "NotIn", 0) => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&values, detail));
        }
        ("Exists" | "DoesNotExist", 1..) => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&values, detail));
        }
        ("Gt" | "Lt", 0 | 2..) => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(&values, detail));
        }
        ("In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt", _) => {}
        (other, _) => {
            let detail = "not a valid selector operator";
            errors.push(FieldError::invalid(&at.child("operator"), other, detail));
        }
    }
    let key = &*requirement.key;
    let faults = key_faults(key);
    errors.extend(
        faults
            .iter()
            .map(|fault| FieldError::invalid(&at.child("key"), key, fault)),
    );
    errors
}

fn field(requirement: &NodeSelectorRequirement, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match &*requirement.operator {
        "In" | "NotIn" if requirement.values.as_ref().map_or(0, Vec::len) == 1 => {}
        "In" | "NotIn" => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(&at.child("values"), detail));
        }
        other => {
            let detail = "not a valid selector operator";
            errors.push(FieldError::invalid(&at.child("operator"), other, detail));
        }
    }
    if requirement.key != "metadata.name" {
        let detail = "not a valid field selector key";
        errors.push(FieldError::invalid(&at.child("key"), &*requirement.key, detail));
    }
    errors
}

fn toleration(given: &Toleration, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (key, operator, value, effect) = (
        text(&given.key),
        text(&given.operator),
        text(&given.value),
        text(&given.effect),
    );
    if !key.is_empty() {
        let faults = key_faults(&key);
        errors.extend(
            faults
                .iter()
                .map(|fault| FieldError::invalid(&at.child("key"), &*key, fault)),
        );
    }
    let on_operator = at.child("operator");
    if key.is_empty() && operator != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid(&on_operator, &*operator, detail));
    }
    if given.toleration_seconds.is_some() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(&at.child("effect"), &*effect, detail));
    }
    match &*operator {
        "" | "Equal" => errors.extend(
            value_faults(&value)
                .iter()
                .map(|fault| FieldError::invalid(&on_operator, &*value, fault)),
        ),
        "Exists" if !value.is_empty() => {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(&on_operator, &*value, detail));
        }
        "Exists" => {}
        other => errors.push(FieldError::not_supported(&on_operator, other, &["Equal", "Exists"])),
    }
    if !matches!(&*effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
        let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        errors.push(FieldError::not_supported(&at.child("effect"), &*effect, &known));
    }
    errors
}

/// Nodes and tolerations of subsets that stay cannot be changed.
pub(super) fn unchanged(new: &Topology, old: &Topology, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, subset) in new.subsets.iter().enumerate() {
        let Some(before) = old.subsets.iter().find(|known| known.name == subset.name) else {
            continue;
        };
        let at = path.child("subsets").index(index);
        let term = |subset: &Subset| subset.node_selector_term.clone().unwrap_or_default();
        let detail = "may not be changed in an update";
        if term(subset) != term(before) {
            errors.push(FieldError::forbidden(&at.child("nodeSelectorTerm"), detail));
        }
        if subset.tolerations != before.tolerations {
            errors.push(FieldError::forbidden(&at.child("tolerations"), detail));
        }
    }
    errors
}
