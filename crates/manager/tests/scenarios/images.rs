//! NodeImages and the jobs that pull images through them.

mod examples;
mod jobs;
mod lists;
mod nodes;
mod secrets;

use kruise_testkit::eventually::{NotYet, eventually};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::{Value, json};

use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    [examples::all(), jobs::all(), lists::all(), nodes::all(), secrets::all()]
        .into_iter()
        .flatten()
        .collect()
}

/// NodeImages.
fn node_images(stage: &Stage) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "NodeImage"));
    Api::all_with(stage.client(), &resource)
}

/// Waits until a NodeImage is as wanted; `null` when there is none.
async fn until_node(stage: &Stage, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let images = node_images(stage);
    eventually(PATIENCE, what, || async {
        let found = images.get_opt(name).await?;
        let found = found
            .map(|found| serde_json::to_value(found).unwrap())
            .unwrap_or_default();
        if wanted(&found) {
            Ok(found)
        } else {
            Err(NotYet::new(format!("{found:#}")))
        }
    })
    .await
}

/// Waits until there are NodeImages for these nodes.
async fn known(stage: &Stage, nodes: &[String]) {
    for node in nodes {
        until_node(stage, node, "the node has its images", Value::is_object).await;
    }
}

/// An image that no other scenario pulls; the tag says what daemons do with it.
fn image(stage: &Stage, tag: &str) -> (String, String) {
    let name = format!("{}/app", stage.namespace());
    (name.clone(), format!("{name}:{tag}"))
}

fn job(image: &str, spec: &Value) -> Value {
    let mut full = json!({"image": image, "completionPolicy": {"type": "Always"}});
    full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    full
}

async fn try_create(stage: &Stage, kind: &str, name: &str, spec: &Value) -> kube::Result<DynamicObject> {
    let object =
        json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    stage
        .objects("v1beta1", kind)
        .create(&PostParams::default(), &object)
        .await
}

async fn create(stage: &Stage, kind: &str, name: &str, spec: &Value) -> DynamicObject {
    try_create(stage, kind, name, spec).await.unwrap()
}

/// Waits until fields of an object's status are as said.
async fn status(stage: &Stage, kind: &str, name: &str, expected: &Value) -> Value {
    let objects = stage.objects("v1beta1", kind);
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
    let objects = stage.objects("v1beta1", kind);
    eventually(PATIENCE, "the object is gone", || async {
        match objects.get_opt(name).await? {
            None => Ok(()),
            Some(object) => Err(NotYet::new(format!("{:?} {:#}", object.metadata, object.data))),
        }
    })
    .await;
}

/// The first tag of an image that a node is asked for.
fn tag(node: &Value, image: &str) -> Value {
    node["spec"]["images"][image]["tags"][0].clone()
}
