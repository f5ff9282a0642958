//! Images that are pulled ahead of an update, with the gate `PreDownloadImageForInPlaceUpdate`.

use std::sync::Arc;

use kruise_testkit::{
    builders::Fixture as _,
    eventually::{NotYet, eventually},
};
use kube::{ResourceExt as _, api::ListParams};
use serde_json::json;

use super::{PATIENCE, Scenario, Stage, rolling, scenarios, to_image, web_in_place};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_many_pods_and_another_image_then_it_is_pulled_ahead_until_all_are_updated,
        given_few_pods_then_nothing_is_pulled_ahead_and_the_revision_says_so,
    ]
}

async fn given_many_pods_and_another_image_then_it_is_pulled_ahead_until_all_are_updated(stage: Arc<Stage>) {
    let set = web_in_place(5).set("/spec/updateStrategy/rollingUpdate/maxUnavailable", 1);
    stage
        .settled(set.set("/spec/updateStrategy/rollingUpdate/partition", 4))
        .await;
    stage.patch("web", to_image("nginx:2")).await;
    let status = stage
        .status("web", json!({"updatedReplicas": 1, "availableReplicas": 5}))
        .await;
    let revision = status["updateRevision"].as_str().unwrap();
    let jobs = stage.objects("v1beta1", "ImagePullJob");
    let name = format!("{revision}-main");
    let job = eventually(PATIENCE, "there is a job", || async { Ok(jobs.get(&name).await?) }).await;
    let spec = &job.data["spec"];
    assert_eq!((&spec["image"], &spec["parallelism"]), (&json!("nginx:2"), &json!(1)));
    let not_in = &spec["podSelector"]["matchExpressions"][0];
    assert_eq!(
        (&not_in["key"], &not_in["values"][0]),
        (&json!("controller-revision-hash"), &json!(revision))
    );
    assert_eq!(job.owner_references()[0].kind, "CloneSet");
    let told = format!("created ImagePullJob {name} for image: nginx:2");
    stage.event("web", "CreatedImagePullJob", &told).await;

    stage.patch("web", rolling("partition", 0)).await;
    stage.status("web", json!({"updatedAvailableReplicas": 5})).await;
    eventually(PATIENCE, "the job is gone", || async {
        let left = jobs.list(&ListParams::default()).await?.items.len();
        if left == 0 {
            Ok(())
        } else {
            Err(NotYet::new(format!("{left} are left")))
        }
    })
    .await;
}

async fn given_few_pods_then_nothing_is_pulled_ahead_and_the_revision_says_so(stage: Arc<Stage>) {
    let set = web_in_place(3).set("/spec/updateStrategy/rollingUpdate/partition", 2);
    stage.settled(set).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .status("web", json!({"updatedReplicas": 1, "availableReplicas": 3}))
        .await;
    eventually(PATIENCE, "the revision says so", || async {
        let newest = stage.revisions().await.pop().ok_or("no revision")?;
        let labels = newest.labels();
        labels
            .contains_key("apps.kruise.io/image-predownload-ignored")
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{labels:?}")))
    })
    .await;
    let jobs = stage
        .objects("v1beta1", "ImagePullJob")
        .list(&ListParams::default())
        .await;
    assert!(jobs.unwrap().items.is_empty());
}
