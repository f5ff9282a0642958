//! What a SidecarSet says of itself.

use crate::object::Explained;
use kruise_api::sidecarset::{UpdateStrategyType, v1beta1::SidecarSet};
use kube::{Api, Client};
use serde_json::{Value, json};

impl Explained for SidecarSet {
    const IS_OF_CLUSTER: bool = true;

    async fn get(client: Client, _: &str, name: &str) -> kube::Result<Self> {
        Api::all(client).get(name).await
    }

    fn generation(&self) -> Option<i64> {
        self.metadata.generation
    }

    fn status(&self) -> Value {
        json!(self.status)
    }

    fn summary(&self) -> String {
        let Some(status) = &self.status else {
            return "no status yet".to_owned();
        };
        format!(
            "{} Pods, {} updated, {} ready, {} without their sidecars",
            status.matched_pods, status.updated_pods, status.ready_pods, status.pods_without_sidecars
        )
    }

    fn describe(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if self.metadata.deletion_timestamp.is_some() {
            sentences.push("It is being deleted.".to_owned());
        }
        let Some(status) = &self.status else {
            sentences.push("It has no status: no manager has looked at it yet.".to_owned());
            return sentences;
        };
        let seen = self.metadata.generation.unwrap_or_default();
        if status.observed_generation < seen {
            sentences.push(format!(
                "The status is about generation {} of the spec, which is at {seen}: the last change was not looked at yet.",
                status.observed_generation
            ));
        }
        let outdated = status.matched_pods - status.updated_pods;
        if outdated > 0 {
            let strategy = &self.spec.update_strategy;
            let why = if strategy.type_ == UpdateStrategyType::NotUpdate {
                "; type NotUpdate leaves them alone"
            } else if strategy.paused {
                "; the update is paused"
            } else {
                ""
            };
            sentences.push(format!("{outdated} Pods are not updated{why}."));
        }
        let unready = status.matched_pods - status.ready_pods;
        if unready > 0 {
            sentences.push(format!("{unready} of {} Pods are not ready.", status.matched_pods));
        }
        for condition in status
            .conditions
            .iter()
            .filter(|condition| !condition.message.is_empty())
        {
            sentences.push(format!(
                "Condition {} is {}: {}",
                condition.type_, condition.status, condition.message
            ));
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_a_status_then_what_it_tells_is_told_in_sentences() {
        let set = |strategy: Value, status: Value| -> SidecarSet {
            let set = json!({"metadata": {"name": "log", "generation": 3}, "spec": {"updateStrategy": strategy}, "status": status});
            serde_json::from_value(set).unwrap()
        };
        let status = json!({"observedGeneration": 2, "matchedPods": 5, "updatedPods": 3, "readyPods": 4, "podsWithoutSidecars": 1,
            "conditions": [{"type": "PodsWithoutSidecars", "status": "True", "message": "ns/x"}]});
        let paused = set(json!({"paused": true}), status);
        assert_eq!(paused.summary(), "5 Pods, 3 updated, 4 ready, 1 without their sidecars");
        let told = paused.describe().join("\n");
        for part in [
            "generation 2",
            "2 Pods are not updated; the update is paused.",
            "1 of 5 Pods are not ready.",
            "Condition PodsWithoutSidecars is True: ns/x",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert_eq!(set(json!({}), Value::Null).summary(), "no status yet");
    }
}
