//! Label selectors: which objects are meant.
//!
//! All `matchLabels` and all `matchExpressions` have to hold; a selector without any chooses everything.
//! An operator nobody knows, or one without the values it needs, chooses nothing: better to leave an object alone than to take a wrong one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// True when there is nothing in the selector.
pub fn is_empty(selector: &LabelSelector) -> bool {
    let none_of = |count: Option<usize>| count.unwrap_or_default() == 0;
    none_of(selector.match_labels.as_ref().map(std::collections::BTreeMap::len))
        && none_of(selector.match_expressions.as_ref().map(Vec::len))
}

/// Whether an object with these labels is chosen; `label` looks one up.
pub fn matches<'a>(selector: &LabelSelector, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    let pairs = selector.match_labels.iter().flatten();
    let terms = selector.match_expressions.iter().flatten();
    pairs.into_iter().all(|(key, value)| label(key) == Some(value))
        && terms.into_iter().all(|term| holds(term, label(&term.key)))
}

fn holds(term: &LabelSelectorRequirement, found: Option<&str>) -> bool {
    let values = term.values.as_deref().unwrap_or_default();
    let listed = found.is_some_and(|found| values.iter().any(|value| value == found));
    match term.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed && !values.is_empty(),
        "Exists" => found.is_some() && values.is_empty(),
        "DoesNotExist" => found.is_none() && values.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_choose_as_kubernetes_does() {
        let label = |key: &str| (key == "a").then_some("1");
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "2"}}), false),
            (json!({"matchLabels": {"b": ""}}), false),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["0", "1"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}),
                false,
            ),
            (
                json!({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}),
                true,
            ),
            (json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), true),
            (
                json!({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}),
                true,
            ),
            (
                json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}),
                false,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["0"]}]}),
                false,
            ),
            (json!({"matchExpressions": [{"key": "b", "operator": "NotIn"}]}), false),
        ] {
            let read: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(matches(&read, label), expected, "{selector}");
            assert_eq!(is_empty(&read), selector == json!({}), "{selector}");
        }
    }
}
