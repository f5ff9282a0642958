//! Builders for tests: `pod(0).ready().at("web-old")`.

use std::sync::Arc;

use jiff::Timestamp;
use kruise_api::merge_patch::merge;
use kruise_api::pod::Pod;
use kruise_api::statefulset::v1beta1::StatefulSet;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::observed::Observed;
use crate::plan::Env;

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

/// A Pod in the making.
#[derive(Clone, Debug)]
pub(super) struct PodBuilder(pub(super) Value);

/// A running Pod of the set `web` at revision `web-old`, not ready.
pub(super) fn pod(ordinal: i32) -> PodBuilder {
    let name = format!("web-{ordinal}");
    PodBuilder(json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "100",
            "creationTimestamp": "2024-03-01T00:00:00Z",
            "labels": {
                "app": "web", "statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": ordinal.to_string(),
                "controller-revision-hash": "web-old", "lifecycle.apps.kruise.io/state": "Normal",
            },
            "annotations": { "lifecycle.apps.kruise.io/timestamp": "2024-03-01T00:00:00Z" },
            "ownerReferences": [owner()],
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{ "name": "main", "image": "nginx:1" }],
            "readinessGates": [{ "conditionType": "InPlaceUpdateReady" }, { "conditionType": "KruisePodReady" }],
        },
        "status": {
            "phase": "Running",
            "conditions": [
                { "type": "InPlaceUpdateReady", "status": "True", "lastTransitionTime": "2024-03-01T00:00:01Z" },
                { "type": "KruisePodReady", "status": "True", "lastTransitionTime": "2024-03-01T00:00:01Z" },
            ],
            "containerStatuses": [
                { "name": "main", "image": "nginx:1", "imageID": "nginx@sha256:1", "ready": true, "restartCount": 0 },
            ],
        },
    }))
}

impl PodBuilder {
    pub(super) fn build(&self) -> Arc<Pod> {
        read(&self.0)
    }

    pub(super) fn ready_since(mut self, since: &str) -> Self {
        let list = self.0["status"]["conditions"].as_array_mut().unwrap();
        for type_ in ["ContainersReady", "Ready"] {
            list.retain(|known| known["type"] != type_);
            list.push(json!({ "type": type_, "status": "True", "lastTransitionTime": since }));
        }
        self
    }

    pub(super) fn ready(self) -> Self {
        self.ready_since("2024-03-01T00:00:10Z")
    }

    pub(super) fn phase(mut self, phase: &str) -> Self {
        self.0["status"]["phase"] = json!(phase);
        self
    }

    pub(super) fn at(self, revision: &str) -> Self {
        self.label("controller-revision-hash", revision)
    }

    pub(super) fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = json!(value);
        self
    }

    pub(super) fn finalizer(mut self, name: &str) -> Self {
        self.0["metadata"]["finalizers"] = json!([name]);
        self
    }

    pub(super) fn state(self, state: &str) -> Self {
        self.label("lifecycle.apps.kruise.io/state", state)
    }

    pub(super) fn specified_delete(self) -> Self {
        self.label("apps.kruise.io/specified-delete", "")
    }

    pub(super) fn deleting(mut self) -> Self {
        self.0["metadata"]["deletionTimestamp"] = json!("2024-05-01T10:00:00Z");
        self
    }
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
    let data = crate::shared::revision::data(template);
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "50",
            "creationTimestamp": "2024-03-01T00:00:00Z",
            "labels": { "app": "web", "controller.kubernetes.io/hash": name.rsplit('-').next().unwrap() },
            "ownerReferences": [owner()],
        },
        "revision": number,
        "data": serde_json::from_str::<Value>(&data).unwrap(),
    })
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
        pods: pods.iter().map(PodBuilder::build).collect(),
        revisions: revisions.iter().map(read).collect(),
        is_confirmed: true,
        ..Observed::default()
    }
}

pub(super) fn read<T: DeserializeOwned>(object: &Value) -> Arc<T> {
    // Through text, because raw parts keep what was written.
    Arc::new(serde_json::from_str(&object.to_string()).unwrap())
}
