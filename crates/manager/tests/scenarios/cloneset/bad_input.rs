//! What users get wrong, or do to one another.

use std::sync::Arc;

use kruise_testkit::builders::{Fixture as _, Workload, cloneset};
use kube::ResourceExt as _;
use serde_json::json;

use super::{Scenario, Stage, names, scenarios, web};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_quota_then_the_server_s_reason_is_told_and_a_smaller_set_recovers,
        given_a_template_whose_pods_are_refused_then_the_reason_is_told_and_correcting_it_helps,
        given_a_template_that_no_pod_can_have_then_it_is_refused_at_once,
        given_two_sets_with_one_selector_then_each_keeps_to_its_own_pods,
        given_a_pod_that_changes_hands_then_both_sets_end_with_what_they_want,
    ]
}

async fn given_a_quota_then_the_server_s_reason_is_told_and_a_smaller_set_recovers(stage: Arc<Stage>) {
    stage.set_quota(2).await;
    stage.create(web(4)).await;
    stage
        .status("web", json!({"replicas": 2, "availableReplicas": 2}))
        .await;
    let failed = stage.condition("web", "FailedScale", "True").await;
    assert!(
        failed["message"].as_str().unwrap().contains("exceeded quota"),
        "{failed}"
    );
    stage.event("web", "FailedCreate", "exceeded quota").await;
    let why = stage.why("web", "failed").await;
    assert_eq!(why["phase"], "scale");
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    stage
        .status("web", json!({"replicas": 2, "availableReplicas": 2}))
        .await;
    // What was made is still worked on.
    stage.patch("web", super::to_image("nginx:2")).await;
    stage.status("web", json!({"updatedAvailableReplicas": 2})).await;
}

async fn given_a_template_whose_pods_are_refused_then_the_reason_is_told_and_correcting_it_helps(stage: Arc<Stage>) {
    stage
        .create(web(2).pod(|pod| pod.set("/spec/serviceAccountName", "nobody")))
        .await;
    let failed = stage.condition("web", "FailedScale", "True").await;
    assert!(
        failed["message"].as_str().unwrap().contains("service account"),
        "{failed}"
    );
    let event = stage.event("web", "FailedCreate", "service account").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    stage
        .patch(
            "web",
            json!({"spec": {"template": {"spec": {"serviceAccountName": "default"}}}}),
        )
        .await;
    stage
        .status("web", json!({"replicas": 2, "availableReplicas": 2}))
        .await;
}

async fn given_a_template_that_no_pod_can_have_then_it_is_refused_at_once(stage: Arc<Stage>) {
    let bad = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}});
    let set = web(1).pod(|pod| pod.set("/spec/containers/0/resources", bad));
    let refusal = stage.try_create(set).await.unwrap_err().to_string();
    assert!(
        refusal.contains("spec.template.spec.containers[0].resources.requests"),
        "{refusal}"
    );
}

/// Two sets with the same selector.
fn twins() -> [Workload; 2] {
    ["one", "two"].map(|name| {
        cloneset(name)
            .replicas(2)
            .set("/spec/selector/matchLabels/app", "web")
            .pod(|pod| pod.label("app", "web"))
    })
}

async fn given_two_sets_with_one_selector_then_each_keeps_to_its_own_pods(stage: Arc<Stage>) {
    for set in twins() {
        stage.create(set).await;
    }
    for set in ["one", "two"] {
        stage.status(set, json!({"replicas": 2, "availableReplicas": 2})).await;
    }
    stage.patch("one", json!({"spec": {"replicas": 1}})).await;
    stage.patch("two", super::to_image("nginx:2")).await;
    stage
        .status("one", json!({"replicas": 1, "availableReplicas": 1}))
        .await;
    stage
        .status("two", json!({"replicas": 2, "updatedAvailableReplicas": 2}))
        .await;
    let pods = stage.until("web", "three are left", |pods| pods.len() == 3).await;
    assert_eq!(names(&pods).iter().filter(|name| name.starts_with("one-")).count(), 1);
}

async fn given_a_pod_that_changes_hands_then_both_sets_end_with_what_they_want(stage: Arc<Stage>) {
    for set in twins() {
        stage.create(set).await;
    }
    for set in ["one", "two"] {
        stage.status(set, json!({"replicas": 2, "availableReplicas": 2})).await;
    }
    let pods = stage.pods("web").await;
    let taken = pods.keys().find(|name| name.starts_with("one-")).unwrap();
    let two = stage.subjects.get("two").await.unwrap();
    let [one, two] = [pods[taken].owner_references()[0].uid.clone(), two.uid().unwrap()];
    let owner = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "two", "uid": two, "controller": true});
    let references = json!([{"$patch": "delete", "uid": one}, owner]);
    stage
        .patch_pod(taken, json!({"metadata": {"ownerReferences": references}}))
        .await;
    stage
        .until("web", "each has two", |pods| {
            let of = |uid: &str| {
                pods.values()
                    .filter(|pod| pod.owner_references()[0].uid == *uid)
                    .count()
            };
            pods.len() == 4 && of(&one) == 2 && of(&two) == 2
        })
        .await;
    for set in ["one", "two"] {
        stage.status(set, json!({"replicas": 2, "availableReplicas": 2})).await;
    }
}
