//! UnitedDeployments, by theme.

mod admission;
mod divide;
mod examples;
mod recorded;
mod rollout;
mod room;
mod workloads;

use std::collections::BTreeMap;

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::Pod,
};
use kruise_testkit::eventually::{NotYet, eventually};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    [
        admission::all(),
        divide::all(),
        examples::all(),
        recorded::all(),
        room::all(),
        rollout::all(),
        workloads::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

const SUBSET: &str = "apps.kruise.io/subset-name";
const REVISION: &str = "apps.kruise.io/controller-revision-hash";
const RESERVED: &str = "apps.kruise.io/united-deployment-reserved-pod";

/// The fields of the four templates.
const NATIVE_SET: &str = "statefulSetTemplate";
const ADVANCED_SET: &str = "advancedStatefulSetTemplate";
const CLONE_SET: &str = "cloneSetTemplate";
const DEPLOYMENT: &str = "deploymentTemplate";

/// A template of this kind with one container.
fn template(field: &str) -> Value {
    let labels = json!({"app": "web"});
    let pod = json!({
        "metadata": {"labels": labels},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "nginx:1.20"}]},
    });
    let mut spec = json!({"selector": {"matchLabels": labels}, "template": pod});
    if field == NATIVE_SET || field == ADVANCED_SET {
        spec["serviceName"] = json!("web");
        spec["podManagementPolicy"] = json!("Parallel");
    }
    json!({(field): {"metadata": {"labels": labels}, "spec": spec}})
}

/// A spec with these subsets.
#[expect(clippy::needless_pass_by_value, reason = "as `json!` gives it")]
fn spec(field: &str, replicas: i32, subsets: Value) -> Value {
    json!({
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template(field),
        "topology": {"subsets": subsets},
    })
}

async fn try_create(stage: &Stage, name: &str, spec: &Value) -> kube::Result<DynamicObject> {
    let object = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment", "metadata": {"name": name}, "spec": spec,
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    stage.subjects.create(&PostParams::default(), &object).await
}

/// Creates `web`.
async fn create(stage: &Stage, spec: &Value) -> DynamicObject {
    try_create(stage, "web", spec).await.unwrap()
}

/// Creates `web`, and waits until all of its Pods are ready.
async fn settled(stage: &Stage, spec: &Value) -> Value {
    let replicas = spec["replicas"].clone();
    create(stage, spec).await;
    stage
        .status("web", json!({"replicas": replicas, "updatedReadyReplicas": replicas}))
        .await
}

/// What makes another image of the first container.
fn to_image(field: &str, image: &str) -> Value {
    let pod = json!({"spec": {"containers": [{"name": "main", "image": image}]}});
    json!({"spec": {"template": {(field): {"spec": {"template": pod}}}}})
}

/// The workloads of a kind, as JSON.
async fn try_children(stage: &Stage, field: &str) -> kube::Result<Vec<Value>> {
    let all = ListParams::default();
    let json = |objects: Vec<Value>| objects;
    Ok(match field {
        NATIVE_SET => json(
            stage
                .api::<StatefulSet>()
                .list(&all)
                .await?
                .items
                .iter()
                .map(|one| json!(one))
                .collect(),
        ),
        DEPLOYMENT => json(
            stage
                .api::<Deployment>()
                .list(&all)
                .await?
                .items
                .iter()
                .map(|one| json!(one))
                .collect(),
        ),
        _ => {
            let kind = if field == CLONE_SET { "CloneSet" } else { "StatefulSet" };
            let found = stage.objects("v1beta1", kind).list(&all).await?;
            found.items.iter().map(|one| json!(one)).collect()
        }
    })
}

fn subset_of(child: &Value) -> String {
    child["metadata"]["labels"][SUBSET]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// The living workloads of a kind by subset.
async fn children(stage: &Stage, field: &str) -> BTreeMap<String, Value> {
    let all = try_children(stage, field).await.unwrap().into_iter();
    let living = all.filter(|child| child["metadata"].get("deletionTimestamp").is_none());
    living.map(|child| (subset_of(&child), child)).collect()
}

/// Waits until the workloads of a kind ask for so many Pods, by subset.
async fn divided(stage: &Stage, field: &str, expected: &[(&str, i64)]) {
    eventually(PATIENCE, "the Pods are divided", || async {
        let children = try_children(stage, field).await?;
        let mut found: Vec<(String, i64)> = children
            .iter()
            .map(|child| (subset_of(child), child["spec"]["replicas"].as_i64().unwrap_or(-1)))
            .collect();
        found.sort();
        let wanted: Vec<(String, i64)> = expected
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect();
        (found == wanted)
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{found:?} is not {wanted:?}")))
    })
    .await;
}

/// The Pods of a subset.
fn in_subset<'a>(pods: &'a BTreeMap<String, Pod>, subset: &str) -> Vec<&'a Pod> {
    let is_in = |pod: &&Pod| pod.labels().get(SUBSET).is_some_and(|found| found == subset);
    pods.values().filter(is_in).collect()
}

fn image(pod: &Pod) -> &str {
    let first = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    first.and_then(|first| first.image.as_deref()).unwrap_or_default()
}

/// The entry of a subset in a status.
fn entry<'a>(status: &'a Value, subset: &str) -> &'a Value {
    let all = status["subsetStatuses"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    all.iter().find(|known| known["name"] == subset).unwrap_or(&Value::Null)
}

/// Waits until the entry of a subset is as wanted.
async fn entry_is(stage: &Stage, subset: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually(PATIENCE, "the subset is as wanted", || async {
        let status = stage.subjects.get("web").await?.data["status"].clone();
        let found = entry(&status, subset).clone();
        if wanted(&found) {
            Ok(found)
        } else {
            Err(NotYet::new(format!("{status:#}")))
        }
    })
    .await
}

#[track_caller]
fn is_invalid<T: std::fmt::Debug>(answer: kube::Result<T>, text: &str) {
    match answer {
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 422, "{status:?}");
            assert!(status.message.contains(text), "{text}: {status:?}");
        }
        other => panic!("not refused: {other:?}"),
    }
}

/// Writes the replicas as autoscalers do.
async fn scale(stage: &Stage, replicas: i32) {
    let scales: &Api<DynamicObject> = &stage.subjects;
    let patch = kube::api::Patch::Merge(json!({"spec": {"replicas": replicas}}));
    scales
        .patch_scale("web", &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();
}
