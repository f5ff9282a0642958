//! What tests of DaemonSets begin with: the set `agent`, its template, nodes and Pods as the server has them.

use jiff::Timestamp;
use kruise_api::merge_patch::merge;
use serde_json::{Value, json};

use crate::plan::{Env, IdSource};

pub(super) const SET_UID: &str = "22222222-2222-4222-8222-222222222222";

pub(super) fn start() -> Timestamp {
    "2024-05-01T10:00:00Z".parse().unwrap()
}

pub(super) fn env() -> Env {
    Env {
        ids: IdSource::seeded(42),
        ..Env::at(start())
    }
}

pub(super) fn owner(api_version: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": "DaemonSet", "name": "agent", "uid": SET_UID,
        "controller": true, "blockOwnerDeletion": true,
    })
}

pub(super) fn template(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "agent" } },
        "spec": { "containers": [{ "name": "main", "image": image }] },
    })
}

/// The DaemonSet `agent` with image `agent:1`; `spec` goes over it.
pub(super) fn set(spec: &Value) -> Value {
    let mut set = json!({
        "metadata": {
            "name": "agent", "namespace": "shop", "uid": SET_UID, "generation": 1, "resourceVersion": "7",
        },
        "spec": {
            "selector": { "matchLabels": { "app": "agent" } },
            "template": template("agent:1"),
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": { "rollingUpdateType": "Standard", "maxUnavailable": 1 },
            },
        },
    });
    merge(&mut set["spec"], spec);
    set
}

/// Rules of a rolling update, in place of those that the set has.
pub(super) fn rolling(rules: &Value) -> Value {
    let mut rolling = json!({ "rollingUpdateType": null, "maxUnavailable": null, "maxSurge": null, "partition": null });
    for (key, value) in rules.as_object().unwrap() {
        rolling[key] = value.clone();
    }
    json!({ "updateStrategy": { "rollingUpdate": rolling } })
}

pub(super) fn in_place(more: &Value) -> Value {
    let mut rules = json!({ "rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 1 });
    merge(&mut rules, more);
    rolling(&rules)
}

pub(super) fn node(name: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "name": name } }, "spec": {}, "status": {} })
}

pub(super) fn taint(key: &str, effect: &str) -> Value {
    json!([{ "key": key, "effect": effect }])
}
