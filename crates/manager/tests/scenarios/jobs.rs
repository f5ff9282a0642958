//! Jobs: on every node, by the clock, and in Pods that are there.

mod broadcast;
mod broadcast_bad_input;
mod broadcast_end;
mod cron;
mod ephemeral;
mod ephemeral_bad_input;
mod examples;
mod recorded;

use k8s_openapi::api::core::v1::Node;
use kruise_testkit::{
    eventually::{NotYet, eventually},
    sim::{SET_LABEL, SimOptions, SimulatedNodes},
};
use kube::{
    Api,
    api::{DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    [
        broadcast::all(),
        broadcast_bad_input::all(),
        broadcast_end::all(),
        cron::all(),
        ephemeral::all(),
        ephemeral_bad_input::all(),
        examples::all(),
        recorded::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Nodes of the scenario's own; only Pods of its namespace live on them. They have lost the taint that every new node gets: a job would find fewer nodes.
async fn nodes(stage: &Stage, count: usize) -> SimulatedNodes {
    let options = SimOptions {
        count,
        name_prefix: stage.namespace().to_owned(),
        namespace: Some(stage.namespace().to_owned()),
        ..SimOptions::default()
    };
    let nodes = SimulatedNodes::start(stage.client(), options).await.unwrap();
    let api: Api<Node> = Api::all(stage.client());
    let own = ListParams::default().labels(&format!("{SET_LABEL}={}", stage.namespace()));
    eventually(PATIENCE, "new nodes have no taint", || async {
        let listed = api.list(&own).await?.items.into_iter();
        let taints: Vec<_> = listed.filter_map(|node| node.spec?.taints).flatten().collect();
        taints
            .is_empty()
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{taints:?}")))
    })
    .await;
    nodes
}

/// A BroadcastJob on the nodes of the scenario. `script` says what its Pods do.
fn broadcast(stage: &Stage, script: &Value, spec: &Value) -> Value {
    let annotations = script.as_object().unwrap().iter();
    let annotations: serde_json::Map<String, Value> = annotations
        .map(|(key, value)| (format!("sim.kruise.test/{key}"), value.clone()))
        .collect();
    let mut full = json!({"template": {
        "metadata": {"labels": {"app": "job"}, "annotations": annotations},
        "spec": {
            "restartPolicy": "Never", "nodeSelector": {(SET_LABEL): stage.namespace()},
            "containers": [{"name": "main", "image": "busybox:1"}],
        },
    }});
    kruise_api::merge_patch::merge(&mut full, spec);
    full
}

/// The version in which a kind is spoken to.
fn version(kind: &str) -> &'static str {
    if kind == "EphemeralJob" { "v1alpha1" } else { "v1beta1" }
}

async fn try_create(stage: &Stage, kind: &str, name: &str, spec: &Value) -> kube::Result<DynamicObject> {
    let version = version(kind);
    let api_version = format!("apps.kruise.io/{version}");
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    stage
        .objects(version, kind)
        .create(&PostParams::default(), &object)
        .await
}

async fn create(stage: &Stage, kind: &str, name: &str, spec: &Value) -> DynamicObject {
    try_create(stage, kind, name, spec).await.unwrap()
}

/// Waits until fields of an object's status are as said.
async fn status(stage: &Stage, kind: &str, name: &str, expected: &Value) -> Value {
    let objects = stage.objects(version(kind), kind);
    eventually(PATIENCE, "the status is as expected", || async {
        let status = objects.get(name).await?.data["status"].clone();
        let fields = expected.as_object().unwrap();
        if fields.iter().all(|(field, value)| status[field] == *value) {
            Ok(status)
        } else {
            Err(NotYet::new(format!("{expected} is not in {status:#}")))
        }
    })
    .await
}

async fn gone(stage: &Stage, kind: &str, name: &str) {
    let objects = stage.objects(version(kind), kind);
    eventually(PATIENCE, "the object is gone", || async {
        match objects.get_opt(name).await? {
            None => Ok(()),
            Some(object) => Err(NotYet::new(format!("{:?} {:#}", object.metadata, object.data))),
        }
    })
    .await;
}
