//! PersistentPodStates: Pods come back to where they were.

mod admission;
mod generated;
mod recording;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::{
    builders::{Fixture as _, Workload, statefulset},
    eventually::{NotYet, eventually},
};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const INJECTED: &str = "kruise.io/injected-persistent-pod-state";

pub(crate) fn all() -> Vec<Scenario> {
    [admission::all(), generated::all(), recording::all()]
        .into_iter()
        .flatten()
        .collect()
}

/// A set called `web`, whose Pods come all at once.
fn web(replicas: i32) -> Workload {
    statefulset("web")
        .replicas(replicas)
        .set("/spec/podManagementPolicy", "Parallel")
}

fn states(stage: &Stage) -> Api<DynamicObject> {
    stage.objects("v1beta1", "PersistentPodState")
}

/// One about the set `web`, called `keep`.
async fn try_keep(stage: &Stage, name: &str, spec: &Value) -> kube::Result<DynamicObject> {
    let mut full = json!({"targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"}});
    kruise_api::merge_patch::merge(&mut full, spec);
    let object = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "PersistentPodState", "metadata": {"name": name}, "spec": full,
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    states(stage).create(&PostParams::default(), &object).await
}

async fn keep(stage: &Stage, spec: &Value) {
    try_keep(stage, "keep", spec).await.unwrap();
}

/// Waits until what is remembered is as wanted.
async fn remembered(stage: &Stage, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let states = states(stage);
    eventually(PATIENCE, what, || async {
        let object = states.get(name).await?;
        let status = object.data["status"].clone();
        let is_seen = status["observedGeneration"].as_i64() == object.metadata.generation;
        if is_seen && wanted(&status["podStates"]) {
            Ok(status["podStates"].clone())
        } else {
            Err(NotYet::new(format!("{status:#}")))
        }
    })
    .await
}

/// Waits until exactly these Pods are remembered.
async fn names(stage: &Stage, expected: &[&str]) -> Value {
    remembered(stage, "keep", "exactly these are remembered", |states| {
        let found: Vec<&String> = states.as_object().into_iter().flatten().map(|(name, _)| name).collect();
        found == expected
    })
    .await
}

/// Deletes a Pod, and returns the one that comes in its place.
async fn replaced(stage: &Stage, name: &str) -> Value {
    let old = stage.pods.get(name).await.unwrap().metadata.uid;
    stage.delete_pod(name).await;
    successor(stage, name, old.as_deref()).await
}

async fn successor(stage: &Stage, name: &str, old: Option<&str>) -> Value {
    eventually(PATIENCE, "another Pod has come", || async {
        match stage.pods.get_opt(name).await? {
            Some(pod) if pod.metadata.uid.as_deref() != old => Ok(json!(pod)),
            other => Err(NotYet::new(format!("{:?}", other.map(|pod| pod.metadata)))),
        }
    })
    .await
}

fn preferred(pod: &Value) -> Value {
    let path = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
    pod.pointer(path).cloned().unwrap_or_default()
}
