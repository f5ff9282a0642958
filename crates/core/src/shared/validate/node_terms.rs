//! What chooses nodes, and what tolerates their taints, as fields of a user's object. Rules and wording are those of Kubernetes.

use super::label::{key_faults, subdomain_faults, value_faults};
use crate::field_error::{FieldError, Path};
use crate::shared::node_eligibility::affinity::NAME_FIELD;
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Toleration};

/// Returns everything that is wrong with a term.
pub fn validate_term(term: &NodeSelectorTerm, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, requirement) in term.match_expressions.iter().flatten().enumerate() {
        by_label(requirement, &path.child("matchExpressions").index(index), &mut errors);
    }
    for (index, requirement) in term.match_fields.iter().flatten().enumerate() {
        by_field(requirement, &path.child("matchFields").index(index), &mut errors);
    }
    errors
}

/// Returns everything that is wrong with a term that counts so much.
pub fn validate_preferred(weight: i32, term: &NodeSelectorTerm, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(
            &path.child("weight"),
            weight,
            "must be in the range 1-100",
        ));
    }
    errors.extend(validate_term(term, &path.child("preference")));
    errors
}

fn by_label(requirement: &NodeSelectorRequirement, path: &Path, errors: &mut Vec<FieldError>) {
    let (operator, at) = (requirement.operator.as_str(), path.child("values"));
    let values = requirement.values.as_deref().unwrap_or_default();
    match operator {
        "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
            &at,
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
            &at,
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "Gt" | "Lt" if values.len() != 1 => errors.push(FieldError::required(
            &at,
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => errors.push(FieldError::invalid(
            &path.child("operator"),
            operator,
            "not a valid selector operator",
        )),
    }
    let key = requirement.key.as_str();
    let faults = key_faults(key);
    errors.extend(
        faults
            .iter()
            .map(|fault| FieldError::invalid(&path.child("key"), key, fault)),
    );
}

fn by_field(requirement: &NodeSelectorRequirement, path: &Path, errors: &mut Vec<FieldError>) {
    let (operator, at) = (requirement.operator.as_str(), path.child("values"));
    let values = requirement.values.as_deref().unwrap_or_default();
    match operator {
        "In" | "NotIn" if values.len() != 1 => errors.push(FieldError::required(
            &at,
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        )),
        "In" | "NotIn" => {}
        _ => errors.push(FieldError::invalid(
            &path.child("operator"),
            operator,
            "not a valid selector operator",
        )),
    }
    if requirement.key != NAME_FIELD {
        let key = requirement.key.as_str();
        errors.push(FieldError::invalid(
            &path.child("key"),
            key,
            "not a valid field selector key",
        ));
        return;
    }
    for (index, value) in values.iter().enumerate() {
        let faults = subdomain_faults(value);
        errors.extend(
            faults
                .iter()
                .map(|fault| FieldError::invalid(&at.index(index), value.as_str(), fault)),
        );
    }
}

/// What a taint does to Pods.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Returns everything that is wrong with tolerations.
pub fn validate_tolerations(tolerations: &[Toleration], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        validate_toleration(toleration, &path.index(index), &mut errors);
    }
    errors
}

fn validate_toleration(toleration: &Toleration, path: &Path, errors: &mut Vec<FieldError>) {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (key, operator, value) = (
        text(&toleration.key),
        text(&toleration.operator),
        text(&toleration.value),
    );
    let effect = text(&toleration.effect);
    if !key.is_empty() {
        let faults = key_faults(&key);
        errors.extend(
            faults
                .iter()
                .map(|fault| FieldError::invalid(&path.child("key"), key.as_str(), fault)),
        );
    } else if operator != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid(&path.child("operator"), operator.as_str(), detail));
    }
    if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(&path.child("effect"), effect.as_str(), detail));
    }
    match operator.as_str() {
        "" | "Equal" => {
            let faults = value_faults(&value);
            errors.extend(
                faults
                    .iter()
                    .map(|fault| FieldError::invalid(&path.child("operator"), value.as_str(), fault)),
            );
        }
        "Exists" if !value.is_empty() => {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(&path.child("operator"), value.as_str(), detail));
        }
        "Exists" => {}
        other => errors.push(FieldError::not_supported(
            &path.child("operator"),
            other,
            &["Equal", "Exists"],
        )),
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect.as_str()) {
        errors.push(FieldError::not_supported(
            &path.child("effect"),
            effect.as_str(),
            &EFFECTS,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn paths(errors: Vec<FieldError>) -> Vec<String> {
        errors.into_iter().map(|error| error.path).collect()
    }

    #[test]
    fn given_terms_then_their_faults_are_named_as_kubernetes_names_them() {
        let expressions = |requirement: Value| json!({"matchExpressions": [requirement]});
        let fields = |requirement: Value| json!({"matchFields": [requirement]});
        for (term, path) in [
            (expressions(json!({"key": "a", "operator": "In", "values": ["b"]})), ""),
            (
                expressions(json!({"key": "a", "operator": "Gt", "values": ["abc"]})),
                "",
            ),
            (
                expressions(json!({"key": "a", "operator": "In"})),
                "t.matchExpressions[0].values",
            ),
            (
                expressions(json!({"key": "a", "operator": "Exists", "values": ["b"]})),
                "t.matchExpressions[0].values",
            ),
            (
                expressions(json!({"key": "a", "operator": "Lt", "values": ["1", "2"]})),
                "t.matchExpressions[0].values",
            ),
            (
                expressions(json!({"key": "a", "operator": "Like", "values": ["b"]})),
                "t.matchExpressions[0].operator",
            ),
            (
                expressions(json!({"key": "a b", "operator": "Exists"})),
                "t.matchExpressions[0].key",
            ),
            (
                fields(json!({"key": "metadata.name", "operator": "In", "values": ["n1"]})),
                "",
            ),
            (
                fields(json!({"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]})),
                "t.matchFields[0].values",
            ),
            (
                fields(json!({"key": "metadata.name", "operator": "Exists"})),
                "t.matchFields[0].operator",
            ),
            (
                fields(json!({"key": "metadata.labels", "operator": "In", "values": ["a"]})),
                "t.matchFields[0].key",
            ),
            (
                fields(json!({"key": "metadata.name", "operator": "In", "values": ["N 1"]})),
                "t.matchFields[0].values[0]",
            ),
        ] {
            let read: NodeSelectorTerm = serde_json::from_value(term.clone()).unwrap();
            assert_eq!(paths(validate_term(&read, &Path::new("t"))).join(","), path, "{term}");
        }
        let term = NodeSelectorTerm::default();
        for (weight, is_good) in [(1, true), (100, true), (0, false), (101, false)] {
            assert_eq!(
                validate_preferred(weight, &term, &Path::new("p")).is_empty(),
                is_good,
                "{weight}"
            );
        }
    }

    #[test]
    fn given_tolerations_then_their_faults_are_named_as_kubernetes_names_them() {
        for (toleration, path) in [
            (json!({"key": "a", "value": "b", "effect": "NoSchedule"}), ""),
            (json!({"operator": "Exists"}), ""),
            (json!({"key": "a", "operator": "Like"}), "t[0].operator"),
            (json!({"operator": "Equal", "value": "b"}), "t[0].operator"),
            (json!({"key": "a", "operator": "Exists", "value": "b"}), "t[0].operator"),
            (json!({"key": "a", "value": "b c"}), "t[0].operator"),
            (json!({"key": "a b", "operator": "Exists"}), "t[0].key"),
            (json!({"key": "a", "effect": "Never"}), "t[0].effect"),
            (
                json!({"key": "a", "effect": "NoSchedule", "tolerationSeconds": 3}),
                "t[0].effect",
            ),
        ] {
            let read: Toleration = serde_json::from_value(toleration.clone()).unwrap();
            let errors = validate_tolerations(&[read], &Path::new("t"));
            assert_eq!(paths(errors).join(","), path, "{toleration}");
        }
    }
}
