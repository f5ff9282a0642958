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

/// Reads a selector from text, as a scale subresource has it; nothing where it is empty, or not understood.
pub fn parse(text: &str) -> Option<LabelSelector> {
    let mut expressions = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        // A comma between parentheses is one between values.
        let values_end = rest
            .find('(')
            .filter(|open| !rest.get(..*open).unwrap_or_default().contains(','));
        let from = values_end.and_then(|open| Some(open + rest.get(open..)?.find(')')?));
        let end = from.map_or_else(|| rest.find(','), |from| Some(from + rest.get(from..)?.find(',')?));
        let (term, others) = match end {
            Some(end) => (rest.get(..end)?, rest.get(end + 1..)?),
            None => (rest, ""),
        };
        expressions.push(requirement(term.trim())?);
        rest = others.trim();
    }
    (!expressions.is_empty()).then(|| LabelSelector {
        match_expressions: Some(expressions),
        ..LabelSelector::default()
    })
}

fn requirement(term: &str) -> Option<LabelSelectorRequirement> {
    let made = |key: &str, operator: &str, values: Option<Vec<&str>>| {
        let key = key.trim();
        let is_key = !key.is_empty() && !key.contains([' ', '(', ')', '=', '!', '<', '>']);
        is_key.then(|| LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.map(|values| values.into_iter().map(|value| value.trim().to_owned()).collect()),
        })
    };
    if let Some((key, values)) = term.strip_suffix(')').and_then(|term| term.split_once('(')) {
        let values = Some(values.split(',').collect());
        let (key, word) = key.trim().rsplit_once(' ')?;
        return match word {
            "in" => made(key, "In", values),
            "notin" => made(key, "NotIn", values),
            _ => None,
        };
    }
    if let Some((key, value)) = term.split_once("!=") {
        return made(key, "NotIn", Some(vec![value]));
    }
    if let Some((key, value)) = term.split_once('=') {
        return made(key, "In", Some(vec![value.strip_prefix('=').unwrap_or(value)]));
    }
    match term.strip_prefix('!') {
        Some(key) => made(key, "DoesNotExist", None),
        None => made(term, "Exists", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_a_selector_as_text_then_it_is_read_as_it_is_written() {
        for (given, expected) in [
            ("app=web", "app in (web)"),
            ("app==web , tier!=a", "app in (web),tier notin (a)"),
            ("!old,app in (a, b),x", "app in (a,b),!old,x"),
            ("a.io/b notin (1,2),c=", "a.io/b notin (1,2),c in ()"),
        ] {
            let read = parse(given).unwrap_or_else(|| panic!("{given}"));
            assert_eq!(text(&read), expected, "{given}");
            assert_eq!(parse(&text(&read)), parse(expected), "{given}");
        }
        for nonsense in [
            "", " ", ",", "a b", "a in b", "in (a)", "=a", "a in (b", "a,,b", "a>1", "(a)",
        ] {
            assert_eq!(parse(nonsense), None, "{nonsense}");
        }
        let labels = |key: &str| (key == "app").then_some("b");
        assert!(matches(&parse("app in (a,b),!old").unwrap(), labels));
        assert!(!matches(&parse("app!=b").unwrap(), labels));
    }

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
