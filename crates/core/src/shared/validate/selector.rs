//! Whether a label selector is well formed. What it matches is told by [`crate::shared::selector`].

use super::label::{key_faults, value_faults};
use crate::field_error::{FieldError, Path};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Operator {
    fn read(name: &str) -> Option<Self> {
        match name {
            "In" => Some(Self::In),
            "NotIn" => Some(Self::NotIn),
            "Exists" => Some(Self::Exists),
            "DoesNotExist" => Some(Self::DoesNotExist),
            _ => None,
        }
    }
}

/// Why a selector cannot be used: what is wrong with the first condition that is not well formed.
pub fn fault(selector: &LabelSelector) -> Option<String> {
    let mut pairs = selector.match_labels.iter().flatten();
    let mut terms = selector.match_expressions.iter().flatten();
    pairs
        .find_map(|(key, value)| condition_fault(key, Operator::In, std::slice::from_ref(value)))
        .or_else(|| {
            terms.find_map(|term| match Operator::read(&term.operator) {
                None => Some(format!("{:?} is not a valid label selector operator", term.operator)),
                Some(operator) => condition_fault(&term.key, operator, term.values.as_deref().unwrap_or_default()),
            })
        })
}

/// Whether two selectors are the same word for word: the order of expressions and values counts. An empty list is no list.
pub fn is_same(one: &LabelSelector, other: &LabelSelector) -> bool {
    let parts = |selector: &LabelSelector| {
        let labels = selector.match_labels.clone().unwrap_or_default();
        let expressions = selector.match_expressions.clone().unwrap_or_default();
        let expressions: Vec<_> = expressions
            .into_iter()
            .map(|expression| {
                (
                    expression.key,
                    expression.operator,
                    expression.values.unwrap_or_default(),
                )
            })
            .collect();
        (labels, expressions)
    };
    parts(one) == parts(other)
}

fn condition_fault(key: &str, operator: Operator, values: &[String]) -> Option<String> {
    if let Some(fault) = key_faults(key).first() {
        return Some(format!("key: Invalid value: {key:?}: {fault}"));
    }
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            return Some(
                "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty".to_owned(),
            );
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            return Some(format!(
                "values: Invalid value: {values:?}: values set must be empty for exists and does not exist"
            ));
        }
        _ => {}
    }
    let mut values = values.iter().enumerate();
    values.find_map(|(index, value)| {
        let fault = value_faults(value).into_iter().next()?;
        Some(format!("values[{index}][{key}]: Invalid value: {value:?}: {fault}"))
    })
}

/// Everything that is wrong with a selector at `path`.
pub fn validate(selector: &LabelSelector, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let labels = path.child("matchLabels");
    for (key, value) in selector.match_labels.iter().flatten() {
        errors.extend(
            key_faults(key)
                .iter()
                .map(|fault| FieldError::invalid(&labels, key.as_str(), fault)),
        );
        errors.extend(
            value_faults(value)
                .iter()
                .map(|fault| FieldError::invalid(&labels, value.as_str(), fault)),
        );
    }
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        validate_requirement(requirement, &path.child("matchExpressions").index(index), &mut errors);
    }
    errors
}

fn validate_requirement(requirement: &LabelSelectorRequirement, path: &Path, errors: &mut Vec<FieldError>) {
    let values = requirement.values.as_deref().unwrap_or_default();
    let place = path.child("values");
    match Operator::read(&requirement.operator) {
        Some(Operator::In | Operator::NotIn) if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&place, detail));
        }
        Some(Operator::Exists | Operator::DoesNotExist) if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&place, detail));
        }
        Some(_) => {}
        None => {
            let operator = requirement.operator.as_str();
            errors.push(FieldError::invalid(
                &path.child("operator"),
                operator,
                "not a valid selector operator",
            ));
        }
    }
    let key = requirement.key.as_str();
    let faults = key_faults(key);
    errors.extend(
        faults
            .iter()
            .map(|fault| FieldError::invalid(&path.child("key"), key, fault)),
    );
    for (index, value) in values.iter().enumerate() {
        let faults = value_faults(value);
        errors.extend(
            faults
                .iter()
                .map(|fault| FieldError::invalid(&place.index(index), value.as_str(), fault)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_selectors_then_those_that_cannot_be_used_are_those_with_errors() {
        let path = Path::new("s");
        for (json, errors) in [
            (json!({"matchLabels": {"a": "b"}}), 0),
            (json!({"matchLabels": {"a b": "-"}}), 2),
            (json!({"matchExpressions": [{"key": "a", "operator": "Like"}]}), 1),
            (json!({"matchExpressions": [{"key": "a", "operator": "In"}]}), 1),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x y"]}]}),
                1,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
                1,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}),
                0,
            ),
        ] {
            let selector: LabelSelector = serde_json::from_value(json).unwrap();
            let found = validate(&selector, &path);
            assert_eq!(found.len(), errors, "{found:?}");
            assert_eq!(fault(&selector).is_some(), errors > 0, "{selector:?}");
        }
    }
}
