//! CloneSets, by theme.

mod bad_input;
mod basics;
mod claims;
mod explain;
mod in_place;
mod launch;
mod lifecycle;
mod partition;
mod pre_download;
mod resize;
mod revisions;
mod scaling;
mod status;
mod update;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::builders::{Fixture as _, Workload, cloneset};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    [
        bad_input::all(),
        basics::all(),
        claims::all(),
        explain::all(),
        in_place::all(),
        launch::all(),
        lifecycle::all(),
        partition::all(),
        pre_download::all(),
        resize::all(),
        revisions::all(),
        scaling::all(),
        status::all(),
        update::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A set called `web`.
fn web(replicas: i32) -> Workload {
    cloneset("web").replicas(replicas)
}

/// The same, updated in place.
fn web_in_place(replicas: i32) -> Workload {
    let policy = "/spec/updateStrategy/rollingUpdate/podUpdatePolicy";
    web(replicas).set(policy, "InPlaceIfPossible")
}

/// The image of a Pod's first container.
fn image(pod: &Pod) -> &str {
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice());
    let first = containers.unwrap_or_default().first();
    first.and_then(|first| first.image.as_deref()).unwrap_or_default()
}

fn state(pod: &Pod) -> &str {
    let state = pod.labels().get("lifecycle.apps.kruise.io/state");
    state.map(String::as_str).unwrap_or_default()
}

fn revision(pod: &Pod) -> &str {
    let revision = pod.labels().get("controller-revision-hash");
    revision.map(String::as_str).unwrap_or_default()
}

fn uids(pods: &BTreeMap<String, Pod>) -> BTreeSet<String> {
    pods.values().filter_map(ResourceExt::uid).collect()
}

fn names(pods: &BTreeMap<String, Pod>) -> BTreeSet<String> {
    pods.keys().cloned().collect()
}

/// The status, reason and message of a Pod's condition.
fn condition(pod: &Pod, kind: &str) -> Value {
    let conditions = json!(pod.status)["conditions"].clone();
    let found = conditions
        .as_array()
        .into_iter()
        .flatten()
        .find(|one| one["type"] == kind);
    found.cloned().unwrap_or_default()
}

fn is(pod: &Pod, kind: &str) -> bool {
    condition(pod, kind)["status"] == "True"
}

/// A change of the first container's image.
fn to_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

/// A change of a field below the rolling update.
fn rolling(field: &str, value: impl Into<Value>) -> Value {
    json!({"spec": {"updateStrategy": {"rollingUpdate": {field: value.into()}}}})
}
