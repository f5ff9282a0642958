//! StatefulSets, by theme.

mod admission;
mod claims;
mod growth;
mod lifecycle;
mod ordinals;
mod parity;
mod trouble;
mod update;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::{
    builders::{Fixture as _, Workload, statefulset},
    cluster,
};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    [
        admission::all(),
        claims::all(),
        growth::all(),
        lifecycle::all(),
        ordinals::all(),
        parity::all(),
        trouble::all(),
        update::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A set called `web`, whose Pods come one after another.
fn web(replicas: i32) -> Workload {
    statefulset("web").replicas(replicas)
}

/// The same, whose Pods come all at once.
fn parallel(replicas: i32) -> Workload {
    web(replicas).set("/spec/podManagementPolicy", "Parallel")
}

/// The same, updated in place.
fn in_place(replicas: i32) -> Workload {
    let policy = "/spec/updateStrategy/rollingUpdate/podUpdatePolicy";
    parallel(replicas).set(policy, "InPlaceIfPossible")
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

/// The time at which a condition of a Pod got the status that it has, if that is `True`.
fn true_since(pod: &Pod, kind: &str) -> Option<jiff::Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == kind)?;
    let since = found.last_transition_time.as_ref().filter(|_| found.status == "True");
    since.map(|since| since.0)
}

fn is_ready(pod: &Pod) -> bool {
    true_since(pod, "Ready").is_some()
}

/// The ordinals of Pods.
fn ordinals(pods: &BTreeMap<String, Pod>) -> Vec<i32> {
    let mut found: Vec<i32> = pods
        .keys()
        .filter_map(|name| name.rsplit('-').next()?.parse().ok())
        .collect();
    found.sort_unstable();
    found
}

/// The ordinals of Pods with an image.
fn ordinals_with(pods: &BTreeMap<String, Pod>, wanted: &str) -> Vec<i32> {
    let with = pods.iter().filter(|(_, pod)| image(pod) == wanted);
    ordinals(&with.map(|(name, pod)| (name.clone(), pod.clone())).collect())
}

/// A change of the first container's image.
fn to_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

/// A change of a field below the rolling update.
fn rolling(field: &str, value: impl Into<Value>) -> Value {
    json!({"spec": {"updateStrategy": {"rollingUpdate": {field: value.into()}}}})
}

/// What kubectl says in the namespace of a stage, warnings and errors too.
async fn kubectl(stage: &Stage, args: &[&str]) -> String {
    let mut command = Command::from(cluster::kubectl());
    command.args(["--namespace", stage.namespace()]).args(args);
    let said = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&said.stdout) + &text(&said.stderr)
}
