//! Containers that start one after the other.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kruise_testkit::{
    builders::{Fixture as _, PodBuilder, config_map, pod},
    eventually::eventually,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{PATIENCE, Scenario, Stage, is, scenarios, web};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_ordered_containers_then_each_starts_when_the_one_before_is_ready,
        given_a_priority_that_is_no_number_then_the_pod_is_refused,
        given_the_barrier_of_a_predecessor_then_the_successor_gets_its_own,
        given_the_barrier_of_a_predecessor_that_cannot_go_yet_then_it_is_waited_for,
        given_a_users_config_map_then_it_is_not_touched_and_the_pod_says_so,
        given_a_barrier_that_disappears_then_it_is_made_again,
    ]
}

const COMPLETED: &str = "apps.kruise.io/container-launch-priority-completed";

/// A Pod of two containers that start one after the other.
fn ordered(name: &str) -> PodBuilder {
    pod(name)
        .container("second", "nginx:1")
        .annotation("apps.kruise.io/container-launch-priority", "Ordered")
}

/// Waits until all containers of a Pod were let go; then its barrier is its own and has all keys.
async fn completed(stage: &Stage, name: &str) {
    let pod = stage
        .until_pod(name, "its containers have started in order", |pod| {
            is(pod, "ContainersReady") && pod.annotations().contains_key(COMPLETED)
        })
        .await;
    let barrier = barriers(stage).get(&format!("{name}-barrier")).await.unwrap();
    let keys: Vec<String> = barrier.data.unwrap_or_default().into_keys().collect();
    let owners: Vec<String> = barrier
        .metadata
        .owner_references
        .unwrap_or_default()
        .into_iter()
        .map(|owner| owner.uid)
        .collect();
    assert_eq!(
        (keys, owners),
        (vec!["p_-1".to_owned(), "p_0".to_owned()], vec![pod.uid().unwrap()])
    );
}

fn barriers(stage: &Stage) -> Api<ConfigMap> {
    stage.api()
}

async fn barrier(stage: &Stage, name: &str) -> ConfigMap {
    eventually(PATIENCE, "there is a barrier", || async {
        Ok(barriers(stage).get(name).await?)
    })
    .await
}

/// A Pod that is replaced by one of the same name before its containers were ready.
async fn replace(stage: &Stage) {
    stage
        .pods
        .delete("solo", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    stage.gone("solo").await;
    stage
        .pods
        .create(&PostParams::default(), &ordered("solo").build())
        .await
        .unwrap();
}

async fn given_the_barrier_of_a_predecessor_then_the_successor_gets_its_own(stage: Arc<Stage>) {
    let first = ordered("solo").script("never-ready", "true").build();
    stage.pods.create(&PostParams::default(), &first).await.unwrap();
    barrier(&stage, "solo-barrier").await;
    replace(&stage).await;
    completed(&stage, "solo").await;
}

async fn given_the_barrier_of_a_predecessor_that_cannot_go_yet_then_it_is_waited_for(stage: Arc<Stage>) {
    let first = ordered("solo").script("never-ready", "true").build();
    stage.pods.create(&PostParams::default(), &first).await.unwrap();
    barrier(&stage, "solo-barrier").await;
    let params = PatchParams::default();
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["kruise.test/held"]}, "data": null}));
    let held = barriers(&stage).patch("solo-barrier", &params, &hold).await.unwrap();
    replace(&stage).await;
    stage
        .until_pod("solo", "its first container waits", |pod| {
            json!(pod.status)["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError"
        })
        .await;
    let still = barrier(&stage, "solo-barrier").await;
    assert_eq!((still.uid(), still.data), (held.uid(), held.data));
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    barriers(&stage).patch("solo-barrier", &params, &release).await.unwrap();
    completed(&stage, "solo").await;
}

async fn given_a_users_config_map_then_it_is_not_touched_and_the_pod_says_so(stage: Arc<Stage>) {
    let theirs = config_map("solo-barrier").data("mine", "1").build();
    let theirs = barriers(&stage).create(&PostParams::default(), &theirs).await.unwrap();
    stage
        .pods
        .create(&PostParams::default(), &ordered("solo").build())
        .await
        .unwrap();
    stage
        .event(
            "solo",
            "FailedCreate",
            "ConfigMap solo-barrier exists and does not belong to this Pod",
        )
        .await;
    let after = barriers(&stage).get("solo-barrier").await.unwrap();
    assert_eq!(after.resource_version(), theirs.resource_version());
    barriers(&stage)
        .delete("solo-barrier", &DeleteParams::default())
        .await
        .unwrap();
    completed(&stage, "solo").await;
}

async fn given_a_barrier_that_disappears_then_it_is_made_again(stage: Arc<Stage>) {
    let gates = json!([{"name": "kruise.test/wait"}]);
    let solo = ordered("solo").set("/spec/schedulingGates", gates).build();
    stage.pods.create(&PostParams::default(), &solo).await.unwrap();
    // While the Pod has no node, nobody has seen the first key.
    barrier(&stage, "solo-barrier").await;
    barriers(&stage)
        .delete("solo-barrier", &DeleteParams::default())
        .await
        .unwrap();
    let go = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
    stage.pods.patch("solo", &PatchParams::default(), &go).await.unwrap();
    completed(&stage, "solo").await;
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
    let pod = stage
        .until_pod(name, "it is completed", |pod| pod.annotations().contains_key(COMPLETED))
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
