//! ImageListPullJobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use kruise_testkit::eventually::{NotYet, eventually};
use kube::{
    ResourceExt as _,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{PATIENCE, Scenario, Stage, create, image, known, scenarios, status, try_create};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_list_then_each_image_has_a_job_that_follows_the_list,
        given_lists_that_cannot_be_then_they_are_refused_with_their_field,
    ]
}

/// Waits until the jobs of the namespace are as wanted, by image.
async fn until_jobs(
    stage: &Stage,
    what: &str,
    wanted: impl Fn(&BTreeMap<String, DynamicObject>) -> bool,
) -> BTreeMap<String, DynamicObject> {
    let jobs = stage.objects("v1beta1", "ImagePullJob");
    eventually(PATIENCE, what, || async {
        let all = jobs.list(&ListParams::default()).await?.items.into_iter();
        let living = all.filter(|job| job.metadata.deletion_timestamp.is_none());
        let all: BTreeMap<_, _> = living
            .map(|job| (job.data["spec"]["image"].as_str().unwrap().to_owned(), job))
            .collect();
        if wanted(&all) {
            Ok(all)
        } else {
            Err(NotYet::new(format!("{all:#?}")))
        }
    })
    .await
}

async fn given_a_list_then_each_image_has_a_job_that_follows_the_list(stage: Arc<Stage>) {
    let node = stage.node(2);
    known(&stage, std::slice::from_ref(&node)).await;
    let (_, held) = image(&stage, "held");
    let (_, good) = image(&stage, "1");
    let (_, bad) = image(&stage, "bad");
    let spec = json!({"images": [held, good], "selector": {"names": [node]}, "completionPolicy": {"type": "Always"}});
    let list = create(&stage, "ImageListPullJob", "list", &spec).await;
    let first = until_jobs(&stage, "there are two", |jobs| jobs.len() == 2).await;
    let owner = &first[&good].owner_references()[0];
    assert_eq!((&owner.uid, owner.controller), (&list.uid().unwrap(), Some(true)));
    assert!(first[&good].name_any().starts_with("list-"));
    stage
        .event("list", "Successful create ImagePullJob", "Create 2 ImagePullJob")
        .await;
    status(
        &stage,
        "ImageListPullJob",
        "list",
        &json!({"desired": 2, "active": 1, "completed": 1, "succeeded": 1}),
    )
    .await;

    let lists = stage.objects("v1beta1", "ImageListPullJob");
    let change = |spec: Value| Patch::Merge(json!({ "spec": spec }));
    let another = change(json!({"images": [held, bad]}));
    lists.patch("list", &PatchParams::default(), &another).await.unwrap();
    let second = until_jobs(&stage, "one goes, one comes", |jobs| {
        jobs.len() == 2 && jobs.contains_key(&bad)
    })
    .await;
    assert_eq!(second[&held].uid(), first[&held].uid(), "one stays");
    let failed = status(
        &stage,
        "ImageListPullJob",
        "list",
        &json!({"completed": 1, "succeeded": 0}),
    )
    .await;
    assert_eq!(failed["failedImageStatuses"][0]["name"], bad);
    assert_eq!(
        failed["failedImageStatuses"][0]["imagePullJob"],
        second[&bad].name_any()
    );

    let faster = change(json!({"images": [good, bad], "parallelism": 2}));
    lists.patch("list", &PatchParams::default(), &faster).await.unwrap();
    let third = until_jobs(&stage, "all are made anew", |jobs| {
        jobs.len() == 2 && jobs.values().all(|job| job.data["spec"]["parallelism"] == 2)
    })
    .await;
    assert_ne!(third[&bad].uid(), second[&bad].uid());
    let done = status(
        &stage,
        "ImageListPullJob",
        "list",
        &json!({"desired": 2, "completed": 2, "succeeded": 1}),
    )
    .await;
    assert!(done["completionTime"].is_string());
}

async fn given_lists_that_cannot_be_then_they_are_refused_with_their_field(stage: Arc<Stage>) {
    let many: Vec<String> = (0..256).map(|number| format!("image-{number}")).collect();
    for (images, told) in [
        (
            json!(many),
            "spec.images: Invalid value: 256: the maximum number of images cannot > 255",
        ),
        (
            json!(["a", "a"]),
            "spec.images[1]: Invalid value: \"a\": images cannot have duplicate values",
        ),
        (json!([]), "spec.images: Required value: image can not be empty"),
    ] {
        let spec = json!({"images": images, "completionPolicy": {"type": "Always"}});
        let error = try_create(&stage, "ImageListPullJob", "refused", &spec)
            .await
            .unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }
}
