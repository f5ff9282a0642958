//! Builders for tests: `pod("a").ready().on("n1").at("web-x")`.

use std::sync::Arc;

use jiff::Timestamp;
use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_api::merge_patch::merge;
use kruise_api::meta::PartialObject;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use serde_json::{Value, json};

use super::observed::Observed;
use crate::plan::{Env, IdSource};

pub(super) const SET_UID: &str = "11111111-1111-4111-8111-111111111111";

pub(super) fn start() -> Timestamp {
    "2024-05-01T10:00:00Z".parse().unwrap()
}

pub(super) fn env() -> Env {
    Env {
        ids: IdSource::seeded(42),
        ..Env::at(start())
    }
}

pub(super) fn owner() -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": SET_UID,
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// A Pod in the making.
#[derive(Clone, Debug)]
pub(super) struct PodBuilder(pub(super) Value);

/// A running Pod of the set `web`, not ready, without a node.
pub(super) fn pod(name: &str) -> PodBuilder {
    let id = name.rsplit('-').next().unwrap_or_default();
    PodBuilder(json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "100",
            "creationTimestamp": "2024-03-01T00:00:00Z",
            "labels": {
                "app": "web", "apps.kruise.io/cloneset-instance-id": id,
                "controller-revision-hash": "web-old", "pod-template-hash": "old",
                "lifecycle.apps.kruise.io/state": "Normal",
            },
            "annotations": { "lifecycle.apps.kruise.io/timestamp": "2024-03-01T00:00:00Z" },
            "ownerReferences": [owner()],
        },
        "spec": {
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
    pub(super) fn name(&self) -> String {
        self.0["metadata"]["name"].as_str().unwrap().to_owned()
    }

    pub(super) fn build(&self) -> Arc<Pod> {
        Arc::new(serde_json::from_value(self.0.clone()).unwrap())
    }

    fn with_condition(mut self, type_: &str, condition: Value) -> Self {
        let list = self.0["status"]["conditions"].as_array_mut().unwrap();
        list.retain(|known| known["type"] != type_);
        list.push(condition);
        self
    }

    fn readiness(self, status: &str, since: &str) -> Self {
        let ready = json!({ "type": "Ready", "status": status, "lastTransitionTime": since });
        let containers = json!({ "type": "ContainersReady", "status": status, "lastTransitionTime": since });
        self.with_condition("ContainersReady", containers)
            .with_condition("Ready", ready)
    }

    pub(super) fn ready(self) -> Self {
        self.readiness("True", "2024-03-01T00:00:10Z")
    }

    pub(super) fn ready_at(self, since: &str) -> Self {
        self.readiness("True", since)
    }

    pub(super) fn unready(self) -> Self {
        self.readiness("False", "2024-03-01T00:00:10Z")
    }

    pub(super) fn phase(mut self, phase: &str) -> Self {
        self.0["status"]["phase"] = json!(phase);
        self.readiness("False", "2024-03-01T00:00:10Z")
    }

    pub(super) fn pending(self) -> Self {
        self.phase("Pending")
    }

    pub(super) fn on(mut self, node: &str) -> Self {
        self.0["spec"]["nodeName"] = json!(node);
        self
    }

    pub(super) fn at(mut self, revision: &str) -> Self {
        self.0["metadata"]["labels"]["controller-revision-hash"] = json!(revision);
        self.0["metadata"]["labels"]["pod-template-hash"] = json!(revision.rsplit('-').next().unwrap());
        self
    }

    pub(super) fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = json!(value);
        self
    }

    pub(super) fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["annotations"][key] = json!(value);
        self
    }

    pub(super) fn state(self, state: &str) -> Self {
        self.label("lifecycle.apps.kruise.io/state", state)
    }

    pub(super) fn specified_delete(self) -> Self {
        self.label("apps.kruise.io/specified-delete", "false")
    }

    pub(super) fn cost(self, cost: &str) -> Self {
        self.annotation("controller.kubernetes.io/pod-deletion-cost", cost)
    }

    pub(super) fn restarts(mut self, count: i32) -> Self {
        self.0["status"]["containerStatuses"][0]["restartCount"] = json!(count);
        self
    }

    pub(super) fn created(mut self, time: &str) -> Self {
        self.0["metadata"]["creationTimestamp"] = json!(time);
        self
    }

    pub(super) fn deleting(mut self) -> Self {
        self.0["metadata"]["deletionTimestamp"] = json!("2024-05-01T10:00:00Z");
        self
    }
}

/// A claim of the set with this id.
pub(super) fn claim(template: &str, id: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("{template}-web-{id}"), "namespace": "shop", "uid": format!("uid-{template}-{id}"),
            "resourceVersion": "100", "creationTimestamp": "2024-03-01T00:00:00Z",
            "labels": { "app": "web", "apps.kruise.io/cloneset-instance-id": id },
            "ownerReferences": [owner()],
        },
    })
}

/// The CloneSet `web` with image `nginx:1`; `spec` goes over it.
pub(super) fn set(spec: &Value) -> Value {
    let mut set = json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": SET_UID, "generation": 1, "resourceVersion": "7",
        },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "nginx:1" }] },
            },
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": { "podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1 },
            },
        },
    });
    merge(&mut set["spec"], spec);
    set
}

/// A revision of the set with this image, named after it: `web-old` has `nginx:1`.
pub(super) fn revision(name: &str, number: i64, template: &Value) -> Value {
    let data = crate::shared::revision::data(template);
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "50",
            "creationTimestamp": "2024-03-01T00:00:00Z",
            "labels": { "app": "web", "controller.kubernetes.io/hash": name.rsplit('-').next().unwrap() },
            "annotations": { "kruise.io/cloneset-volumeclaimtemplate-hash": "" },
            "ownerReferences": [owner()],
        },
        "revision": number,
        "data": serde_json::from_str::<Value>(&data).unwrap(),
    })
}

pub(super) fn template(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "main", "image": image }] },
    })
}

/// What is seen of a set whose revision `web-old` (`nginx:1`) is the current one.
pub(super) fn observed(spec: &Value, pods: &[PodBuilder]) -> Observed {
    let mut document = set(spec);
    let revisions = vec![revision("web-old", 1, &template("nginx:1"))];
    document["status"] = json!({
        "observedGeneration": 1, "currentRevision": "web-old", "updateRevision": "web-old", "collisionCount": 0,
    });
    from_parts(&document, pods, &[], &revisions)
}

/// The same, with the template already changed to `nginx:2`, of which `web-new` is the revision.
pub(super) fn rolling(spec: &Value, pods: &[PodBuilder]) -> Observed {
    let mut document = set(&json!({ "template": template("nginx:2") }));
    merge(&mut document["spec"], spec);
    let revisions = vec![
        revision("web-old", 1, &template("nginx:1")),
        revision("web-new", 2, &template("nginx:2")),
    ];
    document["status"] = json!({
        "observedGeneration": 1, "currentRevision": "web-old", "updateRevision": "web-new", "collisionCount": 0,
    });
    from_parts(&document, pods, &[], &revisions)
}

pub(super) fn from_parts(set: &Value, pods: &[PodBuilder], claims: &[Value], revisions: &[Value]) -> Observed {
    let heads = |values: &[Value]| -> Vec<Arc<PartialObject>> {
        values
            .iter()
            .map(|value| Arc::new(serde_json::from_value(value.clone()).unwrap()))
            .collect()
    };
    let revision = |value: &Value| -> Arc<ControllerRevision> {
        // Through text, because raw parts keep what was written.
        Arc::new(serde_json::from_str(&value.to_string()).unwrap())
    };
    let set: CloneSet = serde_json::from_str(&set.to_string()).unwrap();
    Observed {
        set: Arc::new(set),
        pods: pods.iter().map(PodBuilder::build).collect(),
        claims: heads(claims),
        revisions: revisions.iter().map(revision).collect(),
        ..Observed::default()
    }
}
