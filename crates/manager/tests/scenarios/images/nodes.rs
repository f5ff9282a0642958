//! NodeImages come and go with nodes, and tags with their time.

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::sync::Arc;

use super::{Scenario, Stage, create, image, job, node_images, scenarios, status, tag, until_node};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_ready_node_then_its_images_have_its_labels_and_go_with_it,
        given_a_tag_made_by_hand_then_it_needs_a_time_to_live_and_goes_after_it,
        given_a_job_that_never_ends_then_a_node_that_joins_is_served,
    ]
}

/// A node that is ready, and on which nothing is scheduled.
async fn join(stage: &Stage, name: &str, labels: &Value) -> Api<Node> {
    let nodes: Api<Node> = Api::all(stage.client());
    let node = json!({"metadata": {"name": name, "labels": labels}, "spec": {"unschedulable": true}});
    nodes
        .create(&PostParams::default(), &serde_json::from_value(node).unwrap())
        .await
        .unwrap();
    let since = k8s_openapi::jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let ready =
        json!({"type": "Ready", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": since});
    let status = json!({"status": {"conditions": [ready]}});
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Strategic(status))
        .await
        .unwrap();
    nodes
}

async fn given_a_ready_node_then_its_images_have_its_labels_and_go_with_it(stage: Arc<Stage>) {
    let (name, other) = (
        format!("{}-a", stage.namespace()),
        format!("{}-virtual", stage.namespace()),
    );
    join(&stage, &other, &json!({"type": "virtual-kubelet"})).await;
    let nodes = join(&stage, &name, &json!({"zone": "x"})).await;
    until_node(&stage, &name, "it has images", |images| {
        images["metadata"]["labels"]["zone"] == "x"
    })
    .await;
    let labels = json!({"metadata": {"labels": {"zone": "y", "more": "z"}}});
    nodes
        .patch(&name, &PatchParams::default(), &Patch::Merge(labels))
        .await
        .unwrap();
    until_node(&stage, &name, "labels follow", |images| {
        let labels = &images["metadata"]["labels"];
        labels["zone"] == "y" && labels["more"] == "z"
    })
    .await;
    assert!(
        node_images(&stage).get_opt(&other).await.unwrap().is_none(),
        "no daemon runs there"
    );
    for node in [&name, &other] {
        nodes.delete(node, &DeleteParams::default()).await.unwrap();
    }
    until_node(&stage, &name, "they go with the node", Value::is_null).await;
}

async fn given_a_tag_made_by_hand_then_it_needs_a_time_to_live_and_goes_after_it(stage: Arc<Stage>) {
    let name = format!("{}-b", stage.namespace());
    let nodes = join(&stage, &name, &json!({})).await;
    until_node(&stage, &name, "it has images", Value::is_object).await;
    let images = node_images(&stage);
    let (image, _) = image(&stage, "1");
    let with = |policy: &Value| json!({"spec": {"images": {(image.as_str()): {"tags": [{"tag": "1", "pullPolicy": policy}]}}}});
    let refused = images
        .patch(&name, &PatchParams::default(), &Patch::Merge(with(&json!({}))))
        .await
        .unwrap_err();
    let at = format!("spec.images[{image}].tags[0].pullPolicy.ttlSecondsAfterFinished: Required value");
    assert!(refused.to_string().contains(&at), "{refused}");
    let policy = json!({"ttlSecondsAfterFinished": 1});
    images
        .patch(&name, &PatchParams::default(), &Patch::Merge(with(&policy)))
        .await
        .unwrap();
    until_node(&stage, &name, "it is answered", |node| {
        node["status"]["imageStatuses"][&image]["tags"][0]["phase"] == "Succeeded"
    })
    .await;
    until_node(&stage, &name, "its time is over", |node| tag(node, &image).is_null()).await;
    nodes.delete(&name, &DeleteParams::default()).await.unwrap();
}

async fn given_a_job_that_never_ends_then_a_node_that_joins_is_served(stage: Arc<Stage>) {
    let (name, image) = image(&stage, "1");
    let set = stage.namespace().to_owned();
    let spec = json!({"selector": {"matchLabels": {"set": set}}, "completionPolicy": {"type": "Never"}});
    create(&stage, "ImagePullJob", "never", &job(&image, &spec)).await;
    status(
        &stage,
        "ImagePullJob",
        "never",
        &json!({"desired": 0, "message": "job is running, no progress"}),
    )
    .await;
    let node = format!("{set}-c");
    let nodes = join(&stage, &node, &json!({ "set": set })).await;
    let done = json!({"desired": 1, "succeeded": 1, "message": "job is running, progress 100.0%"});
    let done = status(&stage, "ImagePullJob", "never", &done).await;
    assert!(done["completionTime"].is_null());
    let policy = tag(
        &until_node(&stage, &node, "it has the tag", Value::is_object).await,
        &name,
    )["pullPolicy"]
        .clone();
    assert!((85_800..87_000).contains(&policy["ttlSecondsAfterFinished"].as_i64().unwrap()));
    let jobs = stage.objects("v1beta1", "ImagePullJob");
    jobs.delete("never", &DeleteParams::default()).await.unwrap();
    until_node(&stage, &node, "the tag goes with its job", |images| {
        tag(images, &name).is_null()
    })
    .await;
    nodes.delete(&node, &DeleteParams::default()).await.unwrap();
}
