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

/// A selector as text, as `kubectl` takes it; requirements by key.
pub fn text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten();
    let mut terms: Vec<(&str, String)> = labels
        .map(|(key, value)| (key.as_str(), format!("{key}={value}")))
        .collect();
    let expressions = selector.match_expressions.iter().flatten();
    terms.extend(expressions.map(|term| (term.key.as_str(), expression(term))));
    terms.sort_by(|one, other| one.0.cmp(other.0));
    terms.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

fn expression(term: &LabelSelectorRequirement) -> String {
    let mut values = term.values.clone().unwrap_or_default();
    values.sort();
    let key = &term.key;
    match term.operator.as_str() {
        "In" => format!("{key} in ({})", values.join(",")),
        "NotIn" => format!("{key} notin ({})", values.join(",")),
        "DoesNotExist" => format!("!{key}"),
        _ => key.clone(),
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

    #[test]
    fn a_selector_is_written_as_kubectl_takes_it() {
        let selector: LabelSelector = serde_json::from_value(json!({
            "matchLabels": { "b": "2", "z": "" },
            "matchExpressions": [
                { "key": "c", "operator": "In", "values": ["y", "x"] },
                { "key": "a", "operator": "NotIn", "values": ["1"] },
                { "key": "d", "operator": "Exists" },
                { "key": "e", "operator": "DoesNotExist" },
            ],
        }))
        .unwrap();
        assert_eq!(text(&selector), "a notin (1),b=2,c in (x,y),d,!e,z=");
    }
}
