//! What statuses say of where things are.

use super::number;
use serde_json::Value;

pub(super) fn resourcedistribution_summary(distribution: &Value) -> String {
    let count = |name: &str| number(distribution, &format!("/status/{name}"));
    format!(
        "{} namespaces wanted, {} have the copy, {} do not",
        count("desired"),
        count("succeeded"),
        count("failed"),
    )
}

/// The conditions, which are told for all kinds, say it without the namespaces.
pub(super) fn resourcedistribution(distribution: &Value) -> Vec<String> {
    let conditions = distribution.pointer("/status/conditions").and_then(Value::as_array);
    let holding = conditions
        .into_iter()
        .flatten()
        .filter(|condition| condition["status"] == "True");
    let sentences = holding.map(|condition| {
        let namespaces = condition["failedNamespaces"].as_array().into_iter().flatten();
        let namespaces: Vec<&str> = namespaces.filter_map(Value::as_str).collect();
        format!(
            "{} in: {}.",
            condition["type"].as_str().unwrap_or_default(),
            namespaces.join(", ")
        )
    });
    sentences.collect()
}

pub(super) fn persistentpodstate_summary(state: &Value) -> String {
    let states = state.pointer("/status/podStates").and_then(Value::as_object);
    format!("{} Pods are remembered", states.map_or(0, serde_json::Map::len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_a_distribution_then_it_is_told_where_copies_are_missing() {
        let bad = json!({"type": "ConflictOccurred", "status": "True", "failedNamespaces": ["a", "b"]});
        let good = json!({"type": "CreateResourceFailed", "status": "False"});
        let distribution = json!({"status": {"desired": 5, "succeeded": 3, "failed": 2, "conditions": [good, bad]}});
        let summary = resourcedistribution_summary(&distribution);
        assert_eq!(summary, "5 namespaces wanted, 3 have the copy, 2 do not");
        assert_eq!(resourcedistribution(&distribution), ["ConflictOccurred in: a, b."]);
    }

    #[test]
    fn given_what_is_remembered_then_it_is_counted() {
        let state = json!({"status": {"observedGeneration": 1, "podStates": {"web-0": {}, "web-1": {}}}});
        assert_eq!(persistentpodstate_summary(&state), "2 Pods are remembered");
        assert_eq!(persistentpodstate_summary(&json!({})), "0 Pods are remembered");
    }
}
