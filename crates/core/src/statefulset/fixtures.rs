//! Builders for tests: `pod(0).ready().at("web-old")`.

use jiff::Timestamp;
use kruise_api::merge_patch::merge;
use kruise_api::statefulset::v1beta1::StatefulSet;
use serde_json::{Value, json};

use super::observed::Observed;
use crate::plan::Env;
pub(super) use crate::shared::fixture::{Fixture, PodBuilder, read};
use crate::shared::fixture::{web_pod, web_revision};

pub(super) const SET_UID: &str = "11111111-1111-4111-8111-111111111111";

pub(super) fn start() -> Timestamp {
    "2024-05-01T10:00:00Z".parse().unwrap()
}

pub(super) fn env() -> Env {
    Env::at(start())
}

pub(super) fn owner() -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web", "uid": SET_UID,
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// A running Pod of the set `web` at revision `web-old`, not ready.
pub(super) fn pod(ordinal: i32) -> PodBuilder {
    let name = format!("web-{ordinal}");
    web_pod(&name, &owner())
        .label("statefulset.kubernetes.io/pod-name", &name)
        .label("apps.kubernetes.io/pod-index", &ordinal.to_string())
}

pub(super) fn template(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": {
            "readinessGates": [{ "conditionType": "InPlaceUpdateReady" }],
            "containers": [{ "name": "main", "image": image }],
        },
    })
}

/// The StatefulSet `web` of three Pods with image `nginx:1`, as admission completes it; `spec` goes over it.
pub(super) fn set(spec: &Value) -> Value {
    let mut set = json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": SET_UID, "generation": 1, "resourceVersion": "7",
        },
        "spec": {
            "replicas": 3,
            "serviceName": "web",
            "podManagementPolicy": "OrderedReady",
            "selector": { "matchLabels": { "app": "web" } },
            "template": template("nginx:1"),
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": { "podUpdatePolicy": "ReCreate", "maxUnavailable": 1, "partition": 0 },
            },
        },
    });
    merge(&mut set["spec"], spec);
    set
}

/// A claim template `data`.
pub(super) fn claim_template(storage: &str) -> Value {
    json!({
        "metadata": { "name": "data" },
        "spec": {
            "storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": storage } },
        },
    })
}

pub(super) fn revision(name: &str, number: i64, template: &Value) -> Value {
    web_revision(name, number, template, &owner())
}

/// What is seen of a set whose revision `web-old` (`nginx:1`) is the current one.
pub(super) fn observed(spec: &Value, pods: &[PodBuilder]) -> Observed {
    from_parts(set(spec), "web-old", pods)
}

/// The same, with the template already changed to `nginx:2`, of which `web-new` is the revision.
pub(super) fn rolling(spec: &Value, pods: &[PodBuilder]) -> Observed {
    let mut document = set(&json!({ "template": template("nginx:2") }));
    merge(&mut document["spec"], spec);
    from_parts(document, "web-new", pods)
}

fn from_parts(mut set: Value, update: &str, pods: &[PodBuilder]) -> Observed {
    set["status"] = json!({
        "observedGeneration": 1, "currentRevision": "web-old", "updateRevision": update, "collisionCount": 0,
        "replicas": 0, "readyReplicas": 0, "availableReplicas": 0, "currentReplicas": 0, "updatedReplicas": 0,
    });
    let mut revisions = vec![revision("web-old", 1, &template("nginx:1"))];
    if update == "web-new" {
        revisions.push(revision("web-new", 2, &template("nginx:2")));
    }
    Observed {
        set: read::<StatefulSet>(&set),
        pods: pods.iter().map(|pod| read(pod.as_json())).collect(),
        revisions: revisions.iter().map(read).collect(),
        is_confirmed: true,
        ..Observed::default()
    }
}
