//! Label selectors: whether they are well formed, and what they match.
//!
//! All conditions have to hold. `matchLabels` asks for a label with one value; `matchExpressions` asks by operator:
//!
//! | operator | holds |
//! |---|---|
//! | `In` | the label is there, with one of the values |
//! | `NotIn` | the label is not there, or has another value |
//! | `Exists` | the label is there |
//! | `DoesNotExist` | the label is not there |
//!
//! A selector without any condition matches everything; most kinds refuse it ([`Selector::is_empty`]).

use super::label::{key_faults, value_faults};
use crate::field_error::{FieldError, Path};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use std::collections::BTreeMap;

/// A selector that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

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

impl Selector {
    /// Takes a selector that is well formed; otherwise says what is wrong with the first condition that is not.
    pub fn read(selector: &LabelSelector) -> Result<Self, String> {
        let mut conditions = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            conditions.push(condition(key, Operator::In, std::slice::from_ref(value))?);
        }
        for requirement in selector.match_expressions.iter().flatten() {
            let operator = Operator::read(&requirement.operator)
                .ok_or_else(|| format!("{:?} is not a valid label selector operator", requirement.operator))?;
            let values = requirement.values.as_deref().unwrap_or_default();
            conditions.push(condition(&requirement.key, operator, values)?);
        }
        Ok(Self { conditions })
    }

    /// Whether it asks for nothing, and so matches everything.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether an object with these labels is selected; `label` tells the value of a label.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.conditions.iter().all(|condition| {
            let value = label(&condition.key);
            let listed = || value.is_some_and(|value| condition.values.iter().any(|listed| listed == value));
            match condition.operator {
                Operator::In => listed(),
                Operator::NotIn => !listed(),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }

    /// Whether an object with these labels is selected.
    pub fn matches_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches(|key| labels.get(key).map(String::as_str))
    }
}

fn condition(key: &str, operator: Operator, values: &[String]) -> Result<Condition, String> {
    if let Some(fault) = key_faults(key).first() {
        return Err(format!("key: Invalid value: {key:?}: {fault}"));
    }
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            return Err("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty".to_owned());
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            return Err(format!(
                "values: Invalid value: {values:?}: values set must be empty for exists and does not exist"
            ));
        }
        _ => {}
    }
    for (index, value) in values.iter().enumerate() {
        if let Some(fault) = value_faults(value).first() {
            return Err(format!("values[{index}][{key}]: Invalid value: {value:?}: {fault}"));
        }
    }
    Ok(Condition {
        key: key.to_owned(),
        operator,
        values: values.to_vec(),
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
    use serde_json::{Value, json};

    fn selector(json: Value) -> LabelSelector {
        serde_json::from_value(json).unwrap()
    }

    fn labels(json: Value) -> BTreeMap<String, String> {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn given_conditions_then_all_of_them_have_to_hold() {
        let asked = |key: &str, operator: &str, values: &[&str]| {
            selector(json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
        };
        let pod = labels(json!({"app": "web", "tier": ""}));
        for (selector, matched) in [
            (selector(json!({})), true),
            (selector(json!({"matchLabels": {"app": "web"}})), true),
            (selector(json!({"matchLabels": {"app": "web", "tier": "x"}})), false),
            (asked("app", "In", &["a", "web"]), true),
            (asked("app", "In", &["a"]), false),
            (asked("none", "In", &["a"]), false),
            (asked("app", "NotIn", &["web"]), false),
            (asked("none", "NotIn", &["web"]), true),
            (asked("tier", "Exists", &[]), true),
            (asked("none", "Exists", &[]), false),
            (asked("none", "DoesNotExist", &[]), true),
            (asked("tier", "DoesNotExist", &[]), false),
        ] {
            let read = Selector::read(&selector).unwrap();
            assert_eq!(read.matches_labels(&pod), matched, "{selector:?}");
        }
        assert!(Selector::read(&selector(json!({}))).unwrap().is_empty());
        assert!(
            !Selector::read(&selector(json!({"matchLabels": {"a": ""}})))
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn given_selectors_then_those_that_cannot_be_used_are_those_with_errors() {
        let path = Path::new("s");
        for (json, errors) in [
            (json!({"matchLabels": {"a": "b"}}), 0),
            (json!({"matchLabels": {"a b": "-"}}), 2),
            (json!({"matchExpressions": [{"key": "a", "operator": "Like"}]}), 1),
            (json!({"matchExpressions": [{"key": "a", "operator": "In"}]}), 1),
            (
                json!({"matchExpressions": [{"key": "", "operator": "NotIn", "values": ["x y"]}]}),
                3,
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
            let selector = selector(json);
            let found = validate(&selector, &path);
            assert_eq!(found.len(), errors, "{found:?}");
            assert_eq!(Selector::read(&selector).is_err(), errors > 0, "{selector:?}");
        }
    }
}
