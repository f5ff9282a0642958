//! ImagePullJobs.

use kruise_testkit::builders::{Fixture as _, cloneset, pod};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::sync::Arc;

use super::{
    PATIENCE, Scenario, Stage, create, gone, image, job, known, node_images, scenarios, status, tag, try_create,
    until_node,
};
use kruise_testkit::eventually::{NotYet, eventually};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_one_at_a_time_then_at_most_one_node_pulls_and_all_get_their_turn,
        given_names_then_only_those_that_exist_count_and_the_job_goes_with_its_tags,
        given_pods_then_their_nodes_are_chosen_also_of_one_that_comes_later,
        given_an_image_that_cannot_be_pulled_then_the_nodes_are_named,
        given_two_jobs_for_one_tag_then_both_own_it_and_the_first_keeps_it,
        given_jobs_that_cannot_be_then_they_are_refused_with_their_field,
        given_a_cloneset_that_is_updated_then_images_are_pulled_ahead_and_the_jobs_go,
    ]
}

fn nodes(stage: &Stage) -> Vec<String> {
    (0..3).map(|number| stage.node(number)).collect()
}

/// A daemon's answer, given by the scenario.
async fn answer(stage: &Stage, node: &str, image: &str, tag: &str) {
    let images = node_images(stage);
    let now = k8s_openapi::jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let done = json!([{"tag": tag, "phase": "Succeeded", "completionTime": now}]);
    let status = json!({"desired": 1, "succeeded": 1, "failed": 0, "pulling": 0, "waiting": 0, "imageStatuses": {(image): {"tags": done}}});
    let patch = Patch::Merge(json!({ "status": status }));
    images
        .patch_status(node, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn given_one_at_a_time_then_at_most_one_node_pulls_and_all_get_their_turn(stage: Arc<Stage>) {
    let nodes = nodes(&stage);
    known(&stage, &nodes).await;
    let (name, image) = image(&stage, "held");
    create(
        &stage,
        "ImagePullJob",
        "turns",
        &job(&image, &json!({"selector": {"names": nodes}})),
    )
    .await;
    for done in 0..3 {
        let progress = format!("job is running, progress {:.1}%", f64::from(done) * 100.0 / 3.0);
        status(
            &stage,
            "ImagePullJob",
            "turns",
            &json!({"desired": 3, "active": 1, "succeeded": done, "message": progress}),
        )
        .await;
        // A write that met another one is done again; never are there two.
        let asked = eventually(PATIENCE, "a node is asked", || async {
            let mut asked = Vec::new();
            for node in &nodes {
                let images = serde_json::to_value(node_images(&stage).get(node).await?).unwrap();
                let answered = &images["status"]["imageStatuses"][&name]["tags"][0];
                asked.extend((answered.is_null() && tag(&images, &name).is_object()).then(|| node.clone()));
            }
            assert!(asked.len() <= 1, "{asked:?}");
            asked.pop().ok_or_else(|| NotYet::new("nobody is"))
        })
        .await;
        answer(&stage, &asked, &name, "held").await;
    }
    let done = status(
        &stage,
        "ImagePullJob",
        "turns",
        &json!({"active": 0, "succeeded": 3, "message": "job has completed"}),
    )
    .await;
    assert!(done["completionTime"].is_string());
}

async fn given_names_then_only_those_that_exist_count_and_the_job_goes_with_its_tags(stage: Arc<Stage>) {
    let node = stage.node(0);
    known(&stage, std::slice::from_ref(&node)).await;
    let (name, image) = image(&stage, "1");
    let spec = json!({"selector": {"names": [node, "missing"]}, "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 3}});
    let made = create(&stage, "ImagePullJob", "names", &job(&image, &spec)).await;
    assert_eq!(
        made.data["spec"]["pullPolicy"],
        json!({"timeoutSeconds": 600, "backoffLimit": 3})
    );
    assert_eq!(made.data["spec"]["imagePullPolicy"], "IfNotPresent");
    status(
        &stage,
        "ImagePullJob",
        "names",
        &json!({"desired": 1, "succeeded": 1, "message": "job has completed"}),
    )
    .await;
    gone(&stage, "ImagePullJob", "names").await;
    until_node(&stage, &node, "the tag goes with its job", |images| {
        tag(images, &name).is_null()
    })
    .await;
}

async fn given_pods_then_their_nodes_are_chosen_also_of_one_that_comes_later(stage: Arc<Stage>) {
    let nodes = nodes(&stage);
    known(&stage, &nodes).await;
    let place = |name: &str, node: &str| pod(name).image("nginx:1").label("app", "web").on_node(node).build();
    for number in [0, 1] {
        let web = place(&format!("web-{number}"), &nodes[number]);
        stage.pods.create(&PostParams::default(), &web).await.unwrap();
    }
    let (_, image) = image(&stage, "held");
    // Never complete: it may be seen before the Pods.
    let spec = json!({"podSelector": {"matchLabels": {"app": "web"}}, "parallelism": 1, "completionPolicy": {"type": "Never"}});
    create(&stage, "ImagePullJob", "pods", &job(&image, &spec)).await;
    status(&stage, "ImagePullJob", "pods", &json!({"desired": 2, "active": 1})).await;
    stage
        .pods
        .create(&PostParams::default(), &place("web-2", &nodes[2]))
        .await
        .unwrap();
    status(&stage, "ImagePullJob", "pods", &json!({"desired": 3, "active": 1})).await;
    stage.label_pod("web-2", "app", Some("other")).await;
    status(&stage, "ImagePullJob", "pods", &json!({"desired": 2})).await;
}

async fn given_an_image_that_cannot_be_pulled_then_the_nodes_are_named(stage: Arc<Stage>) {
    let mut nodes = nodes(&stage);
    known(&stage, &nodes).await;
    let (_, image) = image(&stage, "bad");
    let spec = json!({"selector": {"names": nodes}, "parallelism": "3", "pullPolicy": {"backoffLimit": 0}});
    create(&stage, "ImagePullJob", "bad", &job(&image, &spec)).await;
    let done = status(
        &stage,
        "ImagePullJob",
        "bad",
        &json!({"failed": 3, "message": "job has completed"}),
    )
    .await;
    nodes.sort();
    assert_eq!(done["failedNodes"], json!(nodes));
}

async fn given_two_jobs_for_one_tag_then_both_own_it_and_the_first_keeps_it(stage: Arc<Stage>) {
    let node = stage.node(1);
    known(&stage, std::slice::from_ref(&node)).await;
    let (name, image) = image(&stage, "1");
    let spec = job(&image, &json!({"selector": {"names": [node]}}));
    for (job, version) in [("one", Value::Null), ("two", json!(1))] {
        create(&stage, "ImagePullJob", job, &spec).await;
        status(
            &stage,
            "ImagePullJob",
            job,
            &json!({"succeeded": 1, "message": "job has completed"}),
        )
        .await;
        let images = until_node(&stage, &node, "it has the tag", |images| tag(images, &name).is_object()).await;
        assert_eq!(tag(&images, &name)["version"], version);
    }
    let jobs = stage.objects("v1beta1", "ImagePullJob");
    jobs.delete("two", &DeleteParams::default()).await.unwrap();
    let images = until_node(&stage, &node, "one owner is left", |images| {
        tag(images, &name)["ownerReferences"]
            .as_array()
            .is_some_and(|owners| owners.len() == 1)
    })
    .await;
    assert_eq!(tag(&images, &name)["ownerReferences"][0]["name"], "one");
}

async fn given_jobs_that_cannot_be_then_they_are_refused_with_their_field(stage: Arc<Stage>) {
    for (spec, told) in [
        (
            json!({"image": "NGINX"}),
            "spec.image: Invalid value: \"NGINX\": invalid image NGINX: invalid reference format",
        ),
        (
            json!({"parallelism": "10%"}),
            "spec.parallelism: Invalid value: \"10%\": parallelism does not support percentage value",
        ),
        (
            json!({"completionPolicy": {"type": "Always", "activeDeadlineSeconds": 300}}),
            "spec.completionPolicy.activeDeadlineSeconds",
        ),
        (
            json!({"selector": {"names": ["a", "a"]}}),
            "spec.selector.names[1]: Invalid value: \"a\": duplicated name",
        ),
        (
            json!({"selector": {"names": ["a"], "matchLabels": {"a": "b"}}}),
            "spec.selector.names: Forbidden",
        ),
        (
            json!({"selector": {}, "podSelector": {}}),
            "spec.podSelector: Forbidden",
        ),
    ] {
        let error = try_create(&stage, "ImagePullJob", "refused", &job("nginx:1", &spec))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(told), "{spec}: {error}");
    }
    let spec = job(
        "nginx:1",
        &json!({"selector": {"names": ["none"]}, "parallelism": "2", "pullSecrets": ["a"]}),
    );
    create(&stage, "ImagePullJob", "kept", &spec).await;
    let jobs = stage.objects("v1beta1", "ImagePullJob");
    let patch = Patch::Merge(json!({"spec": {"pullSecrets": ["b"]}}));
    let error = jobs.patch("kept", &PatchParams::default(), &patch).await.unwrap_err();
    assert!(error.to_string().contains("spec.pullSecrets is immutable"), "{error}");
    status(
        &stage,
        "ImagePullJob",
        "kept",
        &json!({"desired": 0, "message": "job has completed"}),
    )
    .await;
}

async fn given_a_cloneset_that_is_updated_then_images_are_pulled_ahead_and_the_jobs_go(stage: Arc<Stage>) {
    known(&stage, &nodes(&stage)).await;
    let (_, first) = image(&stage, "1");
    let (name, second) = image(&stage, "2");
    let set = cloneset("web").replicas(5).image(&first);
    let set = set.set(
        "/spec/updateStrategy/rollingUpdate/podUpdatePolicy",
        "InPlaceIfPossible",
    );
    let set = set.set("/spec/updateStrategy/rollingUpdate/partition", 4);
    let sets = stage.about("CloneSet");
    sets.settled(set).await;
    let template = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": second}]}}}});
    sets.patch("web", template).await;
    let jobs = stage.objects("v1beta1", "ImagePullJob");
    let done = eventually(PATIENCE, "the job is done and nothing holds it any more", || async {
        let jobs = jobs.list(&ListParams::default()).await?.items;
        let done = jobs
            .iter()
            .find(|job| job.data["status"]["completionTime"].is_string() && job.finalizers().is_empty());
        done.cloned()
            .ok_or_else(|| NotYet::new(format!("{:?}", jobs.iter().map(|job| &job.data).collect::<Vec<_>>())))
    })
    .await;
    assert_eq!(
        (&done.data["spec"]["image"], &done.data["status"]["message"]),
        (&json!(second), &json!("job has completed"))
    );
    assert!(done.data["status"]["succeeded"].as_i64().unwrap() > 0);
    sets.patch(
        "web",
        json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}),
    )
    .await;
    sets.status("web", json!({"updatedAvailableReplicas": 5})).await;
    gone(&stage, "ImagePullJob", &done.name_any()).await;
    for node in nodes(&stage) {
        until_node(&stage, &node, "tags go with their job", |images| {
            tag(images, &name).is_null()
        })
        .await;
    }
}
