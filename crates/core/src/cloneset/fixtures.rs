//! Builders for tests: `pod("a").ready().on("n1").at("web-x")`.

use jiff::Timestamp;
use kruise_api::merge_patch::merge;
use serde_json::{Value, json};

use super::observed::Observed;
use crate::plan::{Env, IdSource};
pub(super) use crate::shared::fixture::{Fixture, PodBuilder, read};
use crate::shared::fixture::{web_pod, web_revision};

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

/// A running Pod of the set `web`, not ready, without a node.
pub(super) fn pod(name: &str) -> PodBuilder {
    let id = name.rsplit('-').next().unwrap_or_default();
    web_pod(name, &owner())
        .label("apps.kruise.io/cloneset-instance-id", id)
        .set("/spec/nodeName", Value::Null)
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
    let mut revision = web_revision(name, number, template, &owner());
    revision["metadata"]["annotations"] = json!({ "kruise.io/cloneset-volumeclaimtemplate-hash": "" });
    revision
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
    Observed {
        set: read(set),
        pods: pods.iter().map(|pod| read(pod.as_json())).collect(),
        claims: claims.iter().map(read).collect(),
        revisions: revisions.iter().map(read).collect(),
        ..Observed::default()
    }
}
