//! What the numbers of a WorkloadSpread mean.

use kruise_api::workloadspread::v1beta1::WorkloadSpread;
use kruise_core::workloadspread::explain;
use serde_json::Value;

pub(super) fn summary(spread: &Value) -> String {
    let subsets = spread.pointer("/status/subsetStatuses").and_then(Value::as_array);
    let parts = subsets.into_iter().flatten().map(|subset| {
        let name = subset["name"].as_str().unwrap_or_default();
        format!("{name} {}", subset["replicas"].as_i64().unwrap_or_default())
    });
    let parts: Vec<String> = parts.collect();
    let target = |field: &str| {
        spread
            .pointer(&format!("/spec/targetRef/{field}"))
            .and_then(Value::as_str)
    };
    let workload = format!("{} {}", target("kind").unwrap_or("-"), target("name").unwrap_or("-"));
    format!("Pods of {workload}: {}", parts.join(", "))
}

pub(super) fn describe(spread: &Value) -> Vec<String> {
    let read: Result<WorkloadSpread, _> = serde_json::from_value(spread.clone());
    read.map(|read| explain::subsets(&read)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_a_spread_then_its_subsets_are_told() {
        let first = json!({"name": "a", "replicas": 2, "missingReplicas": 0});
        let spread = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "WorkloadSpread", "metadata": {"name": "web"},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "subsets": [{"name": "a", "maxReplicas": 2}]},
            "status": {"subsetStatuses": [first], "versionedSubsetStatuses": {"7d9c": [first]}}});
        assert_eq!(summary(&spread), "Pods of Deployment web: a 2");
        assert_eq!(describe(&spread), ["7d9c: subset a has 2 Pods, room for 0 more"]);
    }
}
