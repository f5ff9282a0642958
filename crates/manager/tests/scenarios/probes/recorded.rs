//! A marker with two probes, as the original was recorded: the same lists, and for the same reports the same marks on the Pod, with their times.
//!
//! The reports of the two Pods of the recording are put together as if they were those of one. What the daemon finds is told in its own tests.

use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::DeleteParams};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};

use super::{Scenario, Stage, condition, create, markers, nodes, running, scenarios, tell, until_list, until_marker};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![given_the_reports_of_the_recording_then_lists_and_pods_are_the_same]
}

#[derive(Deserialize)]
struct Recording {
    marker: Value,
    listed: Value,
    reports: Vec<Report>,
}

#[derive(Deserialize)]
struct Report {
    what: String,
    states: BTreeMap<String, Found>,
    /// What the Pod has then.
    pod: Value,
}

/// State, seconds of the probe and of the last change, and message.
type Found = (String, u8, u8, String);

fn time(second: u8) -> String {
    format!("2026-11-15T08:14:{second:02}Z")
}

async fn given_the_reports_of_the_recording_then_lists_and_pods_are_the_same(stage: Arc<Stage>) {
    let recording = include_str!("../../fixtures/recordings/14-podprobemarker.json");
    let recording: Recording = serde_json::from_str(recording).unwrap();
    let nodes = nodes(&stage, 1).await;
    let node = nodes.names().swap_remove(0);
    let pod = running(&stage, "web", &node).await;
    create(&stage, "files", &recording.marker["probes"]).await;
    assert_eq!(recording.marker["selector"], json!({"matchLabels": {"app": "game"}}));
    let list = until_list(&stage, &node, "it is listed", |list| {
        list["spec"]["podProbes"][0]["probes"] == recording.listed
    });
    let entry = list.await["spec"]["podProbes"][0].clone();
    assert_eq!(
        (&entry["name"], &entry["uid"]),
        (&json!("web"), &json!(pod.metadata.uid))
    );
    until_marker(&stage, "files", "it counts", |marker| {
        marker["status"] == json!({"matchedPods": 1, "observedGeneration": 1})
    })
    .await;
    for report in &recording.reports {
        let states = report.states.iter().map(state).collect();
        tell(&stage, &node, &pod, states).await;
        stage
            .until_pod("web", &report.what, |pod| marks(pod) == report.pod)
            .await;
    }
    // What it left on the Pod stays when the marker goes, and its entry does not.
    let last = marks(&stage.pods.get("web").await.unwrap());
    markers(&stage).delete("files", &DeleteParams::default()).await.unwrap();
    until_marker(&stage, "files", "it is gone", Value::is_null).await;
    until_list(&stage, &node, "nothing is listed", |list| {
        list["spec"]["podProbes"] == json!([])
    })
    .await;
    assert_eq!(marks(&stage.pods.get("web").await.unwrap()), last);
    nodes.stop().await.unwrap();
}

fn state((name, (state, at, since, message)): (&String, &Found)) -> Value {
    json!({
        "name": format!("files#{name}"), "state": state, "message": message, "lastProbeTime": time(*at), "lastTransitionTime": time(*since),
    })
}

/// What the recording has of a Pod.
fn marks(pod: &Pod) -> Value {
    let mut marks = Map::new();
    for name in ["idle", "web"] {
        let found = condition(pod, &format!("example.com/{name}"));
        let second = |field: &str| (0..60).find(|second| found[field] == time(*second));
        if found.is_object() {
            let shown = json!([
                found["status"],
                second("lastProbeTime"),
                second("lastTransitionTime"),
                found["message"]
            ]);
            marks.insert(name.to_owned(), shown);
        }
    }
    let cost = pod.annotations().get("controller.kubernetes.io/pod-deletion-cost");
    for (name, value) in [("label", pod.labels().get("idle")), ("cost", cost)] {
        if let Some(value) = value {
            marks.insert(name.to_owned(), json!(value));
        }
    }
    Value::Object(marks)
}
