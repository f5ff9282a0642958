//! A spread over a CloneSet, as the original was recorded: what the user did once more, and after each step the Pods and the status are what they were then.
//!
//! Which Pod of a subset is the one too many is chance: the Pods are compared as a set. Statuses in between depend on who is faster; what is written down of Pods
//! that come and go has tests of its own.

use super::*;
use crate::cluster::scenario::recorded::{Call, filled};
use serde::Deserialize;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![given_the_steps_of_the_recording_then_pods_and_status_are_the_same]
}

#[derive(Deserialize)]
struct Step {
    #[serde(rename = "step")]
    name: String,
    requests: Vec<Call>,
    pods: Vec<Value>,
    status: Value,
}

async fn given_the_steps_of_the_recording_then_pods_and_status_are_the_same(stage: Arc<Stage>) {
    let steps = include_str!("../../fixtures/recordings/10-workloadspread.json");
    let steps: Vec<Step> = serde_json::from_str(steps).unwrap();
    let meant = [
        ("$ns", stage.namespace().to_owned()),
        ("$first", stage.node(0)),
        ("$second", stage.node(1)),
    ];
    for step in steps {
        for call in &step.requests {
            call.send(&stage, &meant).await;
        }
        let pods: Vec<Value> = serde_json::from_str(&filled(&json!(step.pods).to_string(), &meant)).unwrap();
        let expected = sorted(pods);
        stage
            .until("ws", &step.name, |pods| sorted(pods.values().map(seen_of)) == expected)
            .await;
        until_status(&stage, &step.name, |status| *status == step.status).await;
    }
}

fn sorted(pods: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut pods: Vec<Value> = pods.into_iter().collect();
    pods.sort_by_key(Value::to_string);
    pods
}

/// What the recording has of a Pod.
fn seen_of(pod: &Pod) -> Value {
    let pod = json!(pod);
    let (labels, annotations) = (&pod["metadata"]["labels"], &pod["metadata"]["annotations"]);
    let nodes = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    json!({
        "matched": annotations["apps.kruise.io/matched-workloadspread"],
        "cost": annotations["controller.kubernetes.io/pod-deletion-cost"],
        "label": labels["subset"],
        "annotation": annotations["subset"],
        "image": pod["spec"]["containers"][0]["image"],
        "nodes": pod.pointer(nodes),
    })
}
