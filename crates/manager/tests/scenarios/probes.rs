//! Probes: what markers list for nodes, and what results leave on Pods. What the daemons say, the scenarios say for them.

mod admission;
mod lists;
mod recorded;
mod results;

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::{
    builders::{Fixture as _, pod},
    eventually::{NotYet, eventually},
    sim::{SimOptions, SimulatedNodes},
};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    [admission::all(), lists::all(), recorded::all(), results::all()]
        .into_iter()
        .flatten()
        .collect()
}

/// Nodes of the scenario's own; only Pods of its namespace live on them.
async fn nodes(stage: &Stage, count: usize) -> SimulatedNodes {
    let options = SimOptions {
        count,
        name_prefix: stage.namespace().to_owned(),
        namespace: Some(stage.namespace().to_owned()),
        ..SimOptions::default()
    };
    SimulatedNodes::start(stage.client(), options).await.unwrap()
}

fn markers(stage: &Stage) -> Api<DynamicObject> {
    stage.objects("v1alpha1", "PodProbeMarker")
}

/// A marker for the Pods of the scenario.
fn marker(name: &str, probes: &Value) -> DynamicObject {
    let spec = json!({"selector": {"matchLabels": {"app": "game"}}, "probes": probes});
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": name}, "spec": spec});
    serde_json::from_value(object).unwrap()
}

async fn create(stage: &Stage, name: &str, probes: &Value) {
    markers(stage)
        .create(&PostParams::default(), &marker(name, probes))
        .await
        .unwrap();
}

async fn patch(stage: &Stage, name: &str, spec: &Value) {
    let patch = Patch::Merge(json!({ "spec": spec }));
    markers(stage)
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Waits until a marker is as wanted; `null` when there is none.
async fn until_marker(stage: &Stage, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    until(&markers(stage), name, what, wanted).await
}

fn exec(name: &str, policies: &Value) -> Value {
    json!({"name": name, "containerName": "main", "probe": {"exec": {"command": ["true"]}},
        "podConditionType": format!("game.io/{name}"), "markerPolicy": policies})
}

/// A running Pod of `app: game`.
async fn running(stage: &Stage, name: &str, node: &str) -> Pod {
    let made = pod(name)
        .image("nginx:1")
        .label("app", "game")
        .set(
            "/spec/containers/0/ports",
            json!([{"name": "web", "containerPort": 8080}]),
        )
        .on_node(node);
    stage.pods.create(&PostParams::default(), &made.build()).await.unwrap();
    let initialized = |pod: &Pod| condition(pod, "Initialized")["status"] == "True";
    stage.until_pod(name, "it is initialized", initialized).await
}

fn condition(pod: &Pod, type_: &str) -> Value {
    let status = json!(pod.status);
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == type_);
    found.unwrap_or_default()
}

fn node_probes(stage: &Stage) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", "NodePodProbe"));
    Api::all_with(stage.client(), &resource)
}

/// Waits until a NodePodProbe is as wanted; `null` when there is none.
async fn until_list(stage: &Stage, node: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    until(&node_probes(stage), node, what, wanted).await
}

async fn until(api: &Api<DynamicObject>, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually(PATIENCE, what, || async {
        let found = api.get_opt(name).await?;
        let found = found
            .map(|found| serde_json::to_value(found).unwrap())
            .unwrap_or_default();
        if wanted(&found) {
            Ok(found)
        } else {
            Err(NotYet::new(format!("{found:#}")))
        }
    })
    .await
}

/// The probes that are listed for a Pod, by name.
fn listed(list: &Value, pod: &str) -> Vec<String> {
    let entries = list["spec"]["podProbes"].as_array().cloned().unwrap_or_default();
    let entry = entries
        .into_iter()
        .find(|entry| entry["name"] == pod)
        .unwrap_or_default();
    let probes = entry["probes"].as_array().cloned().unwrap_or_default();
    probes
        .iter()
        .map(|probe| probe["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Says what the daemon of a node found for a Pod: probe, state, message and second.
async fn report(stage: &Stage, node: &str, pod: &Pod, found: &[(&str, &str, &str, u8)]) {
    let state = |(name, state, message, second): &(&str, &str, &str, u8)| {
        let time = format!("2026-05-01T10:00:{second:02}Z");
        json!({"name": name, "state": state, "message": message, "lastProbeTime": time, "lastTransitionTime": time})
    };
    tell(stage, node, pod, found.iter().map(state).collect()).await;
}

/// The same, with states as they are.
async fn tell(stage: &Stage, node: &str, pod: &Pod, states: Vec<Value>) {
    let status =
        json!([{"name": pod.name_any(), "namespace": stage.namespace(), "uid": pod.uid(), "probeStates": states}]);
    let patch = Patch::Merge(json!({"status": {"podProbeStatuses": status}}));
    node_probes(stage)
        .patch_status(node, &PatchParams::default(), &patch)
        .await
        .unwrap();
}
