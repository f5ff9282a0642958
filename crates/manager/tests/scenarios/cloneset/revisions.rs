//! The memory of templates.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use kruise_testkit::builders::Fixture as _;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use super::{Scenario, Stage, image, rolling, scenarios, to_image, uids, web, web_in_place};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_rollback_then_the_old_revision_is_the_newest_again,
        given_a_history_limit_then_older_revisions_go,
        given_a_revision_that_somebody_deletes_then_it_comes_back_and_no_pod_changes,
        given_an_old_revision_that_somebody_deletes_then_its_pods_are_made_anew,
        given_a_revision_with_a_name_of_ours_and_other_content_then_another_name_is_taken,
        given_a_set_that_is_deleted_and_applied_again_then_its_revision_keeps_its_name,
        given_the_data_of_a_revision_as_a_merge_patch_then_its_directive_is_not_stored,
    ]
}

async fn given_a_set_that_is_deleted_and_applied_again_then_its_revision_keeps_its_name(stage: Arc<Stage>) {
    stage.settled(web_in_place(2)).await;
    let first = stage.status("web", json!({})).await["updateRevision"].clone();
    stage.subjects.delete("web", &DeleteParams::background()).await.unwrap();
    stage.create(web_in_place(2)).await;
    let status = stage
        .status("web", json!({"replicas": 2, "availableReplicas": 2}))
        .await;
    assert_eq!(
        (
            &status["updateRevision"],
            status["collisionCount"].as_i64().unwrap_or(0)
        ),
        (&first, 0)
    );
}

/// As `rollout undo` of the existing plugin does it.
async fn given_the_data_of_a_revision_as_a_merge_patch_then_its_directive_is_not_stored(stage: Arc<Stage>) {
    stage.settled(web_in_place(1)).await;
    let first = stage.status("web", json!({})).await["updateRevision"].clone();
    stage.patch("web", to_image("nginx:2")).await;
    stage.status("web", json!({"updatedAvailableReplicas": 1})).await;
    let data = stage.revisions().await[0].data.clone().0;
    assert_eq!(data["spec"]["template"]["$patch"], "replace");
    let stored = stage.patch("web", data).await;
    assert_eq!(stored.data["spec"]["template"].get("$patch"), None);
    stage
        .status("web", json!({"updatedAvailableReplicas": 1, "updateRevision": first}))
        .await;
}

async fn given_a_rollback_then_the_old_revision_is_the_newest_again(stage: Arc<Stage>) {
    let before = stage.settled(web_in_place(2)).await;
    let first = stage.status("web", json!({})).await["updateRevision"].clone();
    stage.patch("web", to_image("nginx:2")).await;
    stage.status("web", json!({"updatedAvailableReplicas": 2})).await;
    stage.patch("web", to_image("nginx:1")).await;
    stage
        .status("web", json!({"updatedAvailableReplicas": 2, "updateRevision": first}))
        .await;
    let revisions = stage.revisions().await;
    let numbers: Vec<Option<i64>> = revisions.iter().map(|revision| revision.revision).collect();
    assert_eq!(numbers, [Some(2), Some(3)]);
    assert_eq!(json!(revisions[1].name_any()), first);
    assert_eq!(uids(&stage.pods("web").await), uids(&before));
}

async fn given_a_history_limit_then_older_revisions_go(stage: Arc<Stage>) {
    stage.create(web(0).set("/spec/revisionHistoryLimit", 2)).await;
    let mut last = stage.status("web", json!({"replicas": 0})).await["updateRevision"].clone();
    for version in 2..=12 {
        stage.patch("web", to_image(&format!("nginx:{version}"))).await;
        last = stage.status("web", json!({"replicas": 0})).await["updateRevision"].clone();
    }
    kruise_testkit::eventually::eventually(super::PATIENCE, "few are left", || async {
        let left = stage.revisions().await;
        let numbers: Vec<Option<i64>> = left.iter().map(|revision| revision.revision).collect();
        if numbers == [10, 11, 12].map(Some) {
            Ok(())
        } else {
            Err(format!("{numbers:?}").into())
        }
    })
    .await;
    assert_eq!(json!(stage.revisions().await[2].name_any()), last);
}

async fn delete(stage: &Stage, name: &Value) {
    let revisions: Api<ControllerRevision> = stage.api();
    revisions
        .delete(name.as_str().unwrap(), &DeleteParams::default())
        .await
        .unwrap();
}

async fn given_a_revision_that_somebody_deletes_then_it_comes_back_and_no_pod_changes(stage: Arc<Stage>) {
    let before = stage.settled(web_in_place(2)).await;
    let first = stage.status("web", json!({})).await["updateRevision"].clone();
    delete(&stage, &first).await;
    kruise_testkit::eventually::eventually(super::PATIENCE, "it is back", || async {
        let names: Vec<Value> = stage
            .revisions()
            .await
            .iter()
            .map(|found| json!(found.name_any()))
            .collect();
        if names == [first.clone()] {
            Ok(())
        } else {
            Err(format!("{names:?}").into())
        }
    })
    .await;
    stage
        .status(
            "web",
            json!({"updatedAvailableReplicas": 2, "updateRevision": first, "currentRevision": first}),
        )
        .await;
    assert_eq!(uids(&stage.pods("web").await), uids(&before));
}

/// Without it nobody knows what is different, so nothing can be changed in place.
async fn given_an_old_revision_that_somebody_deletes_then_its_pods_are_made_anew(stage: Arc<Stage>) {
    let set = web_in_place(3).set("/spec/updateStrategy/rollingUpdate/partition", 2);
    let before = stage.settled(set).await;
    let first = stage.status("web", json!({})).await["updateRevision"].clone();
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .status("web", json!({"updatedReplicas": 1, "availableReplicas": 3}))
        .await;
    delete(&stage, &first).await;
    stage.patch("web", rolling("partition", 0)).await;
    stage
        .status("web", json!({"replicas": 3, "updatedAvailableReplicas": 3}))
        .await;
    let after = stage.pods("web").await;
    assert!(after.values().all(|pod| image(pod) == "nginx:2"));
    assert_eq!(uids(&after).intersection(&uids(&before)).count(), 1);
}

async fn given_a_revision_with_a_name_of_ours_and_other_content_then_another_name_is_taken(stage: Arc<Stage>) {
    // What its name would be is seen in a twin of the same name, which is gone when the set comes.
    stage.create(web(0)).await;
    let name = stage.status("web", json!({"replicas": 0})).await["updateRevision"].clone();
    stage.subjects.delete("web", &DeleteParams::default()).await.unwrap();
    kruise_testkit::eventually::eventually(super::PATIENCE, "it is gone", || async {
        let left = stage.revisions().await.len();
        if left == 0 {
            Ok(())
        } else {
            Err(format!("{left}").into())
        }
    })
    .await;
    let rubbish: ControllerRevision = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": name, "labels": {"app": "web"}},
        "revision": 7, "data": {"spec": "rubbish"},
    }))
    .unwrap();
    let revisions: Api<ControllerRevision> = stage.api();
    revisions.create(&PostParams::default(), &rubbish).await.unwrap();

    stage.settled(web_in_place(2)).await;
    let status = stage.status("web", json!({"updatedAvailableReplicas": 2})).await;
    assert_ne!(status["updateRevision"], name);
    assert_eq!(status["collisionCount"], 1);
    stage.patch("web", to_image("nginx:2")).await;
    stage.status("web", json!({"updatedAvailableReplicas": 2})).await;
}
