//! Pods of other releases, and Pods that are nobody's.

use super::*;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_pods_with_an_older_owner_then_they_are_kept_and_still_wake_their_set,
        given_a_pod_that_is_nobodys_then_it_is_adopted,
        given_a_pod_that_is_named_for_deletion_then_nothing_happens,
    ]
}

async fn given_pods_with_an_older_owner_then_they_are_kept_and_still_wake_their_set(stage: Arc<Stage>) {
    let field = Field::with(stage, 1).await;
    let pods = field.settled(field.agent()).await;
    let (name, pod) = pods.iter().next().unwrap();
    let mut owners = json!(pod.metadata.owner_references);
    owners[0]["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    field
        .stage
        .patch_pod(name, json!({"metadata": {"ownerReferences": owners}}))
        .await;
    field.stage.script_pod(name, "never-ready", Some("true")).await;
    field.stage.status("agent", json!({"numberReady": 0})).await;
    field.stage.script_pod(name, "never-ready", None).await;
    field.available(1).await;
    assert_eq!(uids(&field.stage.pods("agent").await), uids(&pods));
    field.end().await;
}

async fn given_a_pod_that_is_nobodys_then_it_is_adopted(stage: Arc<Stage>) {
    let field = Field::with(stage, 1).await;
    let pods = field.settled(field.agent()).await;
    let (name, pod) = pods.iter().next().unwrap();
    let uid = &pod.owner_references()[0].uid;
    let release = json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": uid}]}});
    field.stage.patch_pod(name, release).await;
    let adopted = |pod: &Pod| pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet");
    field.stage.until_pod(name, "it is adopted", adopted).await;
    field.available(1).await;
    field.end().await;
}

async fn given_a_pod_that_is_named_for_deletion_then_nothing_happens(stage: Arc<Stage>) {
    let field = Field::with(stage, 1).await;
    let pods = field.settled(field.agent()).await;
    let name = pods.keys().next().unwrap();
    field
        .stage
        .label_pod(name, "apps.kruise.io/specified-delete", Some("true"))
        .await;
    // A later change is worked on, and the Pod is still there.
    let change = json!({"spec": {"revisionHistoryLimit": 3}});
    field.stage.patch("agent", change).await;
    field.available(1).await;
    assert_eq!(uids(&field.stage.pods("agent").await), uids(&pods));
    field.end().await;
}
