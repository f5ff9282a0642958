//! Containers that start one after the other.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kruise_testkit::builders::{Fixture as _, pod};
use kube::{Api, ResourceExt as _, api::PostParams};
use serde_json::{Value, json};

use super::{Scenario, Stage, scenarios, web};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_ordered_containers_then_each_starts_when_the_one_before_is_ready,
        given_a_priority_that_is_no_number_then_the_pod_is_refused,
    ]
}

async fn given_ordered_containers_then_each_starts_when_the_one_before_is_ready(stage: Arc<Stage>) {
    let set = web(1).pod(|pod| {
        pod.container("second", "nginx:1")
            .container("third", "nginx:1")
            .annotation("apps.kruise.io/container-launch-priority", "Ordered")
            .script("ready-delay", "1s")
    });
    let pods = stage.settled(set).await;
    let name = pods.keys().next().unwrap();
    let done = "apps.kruise.io/container-launch-priority-completed";
    let pod = stage
        .until_pod(name, "it is completed", |pod| pod.annotations().contains_key(done))
        .await;
    let maps: Api<ConfigMap> = stage.api();
    let barrier = maps.get(&format!("{name}-barrier")).await.unwrap();
    let keys: Vec<String> = barrier.data.unwrap_or_default().into_keys().collect();
    assert_eq!(keys, ["p_-1", "p_-2", "p_0"]);
    let owner = barrier.metadata.owner_references.unwrap().remove(0);
    assert_eq!(
        (owner.kind.as_str(), owner.uid, owner.controller),
        ("Pod", pod.uid().unwrap(), None)
    );
    let started: Vec<jiff::Timestamp> = ["main", "second", "third"]
        .map(|container| started(&pod, container))
        .into();
    assert!(started.is_sorted_by(|one, other| one < other), "{started:?}");
}

fn started(pod: &Pod, container: &str) -> jiff::Timestamp {
    let statuses = json!(pod.status)["containerStatuses"].clone();
    let of_it = |status: &&Value| status["name"] == container;
    let found = statuses.as_array().into_iter().flatten().find(of_it).cloned();
    let time = found.unwrap_or_default()["state"]["running"]["startedAt"].clone();
    time.as_str().unwrap().parse().unwrap()
}

async fn given_a_priority_that_is_no_number_then_the_pod_is_refused(stage: Arc<Stage>) {
    let env = json!([{"name": "KRUISE_CONTAINER_PRIORITY", "value": "abc"}]);
    let bad = pod("bad")
        .container("side", "nginx:1")
        .set("/spec/containers/0/env", env);
    let refusal = stage
        .pods
        .create(&PostParams::default(), &bad.build())
        .await
        .unwrap_err();
    assert!(refusal.to_string().contains("launch priority \"abc\""), "{refusal}");
}
