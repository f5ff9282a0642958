//! Rollouts that stop half-way, because they shall.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::builders::Fixture as _;
use serde_json::json;

use super::{Scenario, Stage, image, rolling, scenarios, to_image, uids, web_in_place};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_partition_then_so_many_stay_and_the_current_revision_too,
        given_a_partition_in_percent_then_one_pod_is_updated_unless_it_is_all,
        given_scaling_out_during_a_partitioned_rollout_then_both_revisions_grow,
        given_scaling_in_during_a_partitioned_rollout_then_both_revisions_shrink,
        given_a_partition_that_is_raised_and_the_gate_then_pods_go_back_in_place,
    ]
}

fn of_image(pods: &BTreeMap<String, Pod>, wanted: &str) -> usize {
    pods.values().filter(|pod| image(pod) == wanted).count()
}

async fn given_a_partition_then_so_many_stay_and_the_current_revision_too(stage: Arc<Stage>) {
    let set = web_in_place(5).set("/spec/updateStrategy/rollingUpdate/partition", 3);
    let before = stage.settled(set).await;
    let first = stage.status("web", json!({})).await["currentRevision"].clone();
    stage.patch("web", to_image("nginx:2")).await;
    let half = json!({
        "replicas": 5, "updatedReplicas": 2, "updatedAvailableReplicas": 2, "availableReplicas": 5,
        "expectedUpdatedReplicas": 2, "currentRevision": first,
    });
    let status = stage.status("web", half).await;
    assert_ne!(status["updateRevision"], first);
    assert_eq!(stage.why("web", "partition").await["keeps"], 3);
    let after = stage.pods("web").await;
    assert_eq!(uids(&after), uids(&before));
    assert_eq!(of_image(&after, "nginx:2"), 2);
    stage
        .event("web", "SuccessfulUpdatePodInPlace", "in-place(revision web-")
        .await;

    stage.patch("web", rolling("partition", 0)).await;
    let done = json!({"updatedAvailableReplicas": 5, "currentRevision": status["updateRevision"]});
    stage.status("web", done).await;
}

async fn given_a_partition_in_percent_then_one_pod_is_updated_unless_it_is_all(stage: Arc<Stage>) {
    let set = web_in_place(3).set("/spec/updateStrategy/rollingUpdate/partition", "100%");
    stage.settled(set).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .status("web", json!({"updatedReplicas": 0, "expectedUpdatedReplicas": 0}))
        .await;
    stage.why("web", "partition").await;
    assert_eq!(of_image(&stage.pods("web").await, "nginx:2"), 0);
    stage.patch("web", rolling("partition", "99%")).await;
    let one = json!({"updatedReplicas": 1, "expectedUpdatedReplicas": 1, "availableReplicas": 3});
    stage.status("web", one).await;
    assert_eq!(of_image(&stage.pods("web").await, "nginx:2"), 1);
}

async fn given_scaling_out_during_a_partitioned_rollout_then_both_revisions_grow(stage: Arc<Stage>) {
    let set = web_in_place(4).set("/spec/updateStrategy/rollingUpdate/partition", "50%");
    stage.settled(set).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .status("web", json!({"updatedReplicas": 2, "availableReplicas": 4}))
        .await;
    stage.patch("web", json!({"spec": {"replicas": 6}})).await;
    stage
        .status(
            "web",
            json!({"replicas": 6, "updatedReplicas": 3, "availableReplicas": 6}),
        )
        .await;
    assert_eq!(of_image(&stage.pods("web").await, "nginx:1"), 3);
}

async fn given_scaling_in_during_a_partitioned_rollout_then_both_revisions_shrink(stage: Arc<Stage>) {
    let set = web_in_place(6).set("/spec/updateStrategy/rollingUpdate/partition", "50%");
    stage.settled(set).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .status("web", json!({"updatedReplicas": 3, "availableReplicas": 6}))
        .await;
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    stage
        .status(
            "web",
            json!({"replicas": 2, "updatedReplicas": 1, "availableReplicas": 2}),
        )
        .await;
    assert_eq!(of_image(&stage.pods("web").await, "nginx:1"), 1);
}

async fn given_a_partition_that_is_raised_and_the_gate_then_pods_go_back_in_place(stage: Arc<Stage>) {
    let set = web_in_place(4).set("/spec/updateStrategy/rollingUpdate/partition", 1);
    let before = stage.settled(set).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .status("web", json!({"updatedReplicas": 3, "availableReplicas": 4}))
        .await;
    stage.patch("web", rolling("partition", 3)).await;
    stage
        .status("web", json!({"updatedReplicas": 1, "availableReplicas": 4}))
        .await;
    let after = stage.pods("web").await;
    assert_eq!((uids(&after), of_image(&after, "nginx:1")), (uids(&before), 3));
}
