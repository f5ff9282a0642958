//! How a new template reaches the subsets.

use std::sync::Arc;

use kube::ResourceExt as _;
use serde_json::json;

use super::{
    ADVANCED_SET, CLONE_SET, DEPLOYMENT, NATIVE_SET, Scenario, Stage, entry, image, in_subset, scenarios, settled,
    spec, to_image,
};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_partitions_then_each_subset_goes_as_far_as_it_may,
        given_a_rollback_then_the_old_revision_is_used_again,
        given_a_patch_then_only_its_subset_has_it,
        given_each_kind_then_a_new_image_reaches_all_pods,
        given_a_stateful_set_stuck_on_a_broken_pod_when_the_image_is_mended_then_it_goes_on,
    ]
}

async fn given_partitions_then_each_subset_goes_as_far_as_it_may(stage: Arc<Stage>) {
    settled(&stage, &spec(NATIVE_SET, 6, json!([{"name": "a"}, {"name": "b"}]))).await;
    let mut change = to_image(NATIVE_SET, "nginx:1.21");
    change["spec"]["updateStrategy"] = json!({"type": "Manual", "manualUpdate": {"partitions": {"a": 2}}});
    let live = stage.objects("v1beta1", "UnitedDeployment").get("web").await.unwrap();
    let told = stage.rehearse(&serde_json::to_value(live).unwrap(), &change).await;
    let becomes = |subset: &str, partition: i32| {
        json!({"subset": subset, "before": {"replicas": 3, "partition": 0}, "after": {"replicas": 3, "partition": partition},
            "templateChanges": true})
    };
    assert_eq!(told["subsets"], json!([becomes("a", 2), becomes("b", 0)]), "{told:#}");
    stage.patch("web", change).await;
    let status = stage
        .status("web", json!({"updatedReplicas": 4, "updatedReadyReplicas": 4}))
        .await;
    assert_eq!(
        (&entry(&status, "a")["partition"], entry(&status, "b").get("partition")),
        (&json!(2), None)
    );
    assert_ne!(status["currentRevision"], status["updatedRevision"]);
    let pods = stage.pods("web").await;
    let new = |subset: &str| -> Vec<String> {
        let pods = in_subset(&pods, subset)
            .into_iter()
            .filter(|pod| image(pod) == "nginx:1.21");
        pods.map(|pod| pod.name_any().rsplit('-').next().unwrap().to_owned())
            .collect()
    };
    assert_eq!((new("a"), new("b").len()), (vec!["2".to_owned()], 3));
    stage.why("web", "subsetPartition").await;
    // An old client sees the same as maps.
    let old = stage.objects("v1alpha1", "UnitedDeployment").get("web").await.unwrap();
    let status = &old.data["status"];
    assert_eq!(status["subsetReplicas"], json!({"a": 3, "b": 3}));
    assert_eq!(status["updateStatus"]["currentPartitions"], json!({"a": 2, "b": 0}));
    // More than there are is as many as there are.
    let partitions = |a: i32| json!({"spec": {"updateStrategy": {"manualUpdate": {"partitions": {"a": a}}}}});
    stage.patch("web", partitions(99)).await;
    let three = |status: &serde_json::Value| status["partition"] == 3;
    super::entry_is(&stage, "a", three).await;
    stage.patch("web", partitions(0)).await;
    let status = stage.status("web", json!({"updatedReadyReplicas": 6})).await;
    stage.condition("web", "UnitedDeploymentUpdated", "True").await;
    let revision = status["updatedRevision"].clone();
    stage.status("web", json!({"currentRevision": revision})).await;
}

async fn given_a_rollback_then_the_old_revision_is_used_again(stage: Arc<Stage>) {
    let first = settled(&stage, &spec(CLONE_SET, 2, json!([{"name": "a"}]))).await["updatedRevision"].clone();
    stage.patch("web", to_image(CLONE_SET, "nginx:1.21")).await;
    let second = stage.status("web", json!({"updatedReadyReplicas": 2})).await["updatedRevision"].clone();
    assert_ne!(first, second);
    stage.status("web", json!({"currentRevision": second})).await;
    stage.patch("web", to_image(CLONE_SET, "nginx:1.20")).await;
    let done = json!({"updatedRevision": first, "currentRevision": first, "updatedReadyReplicas": 2});
    stage.status("web", done).await;
}

async fn given_a_patch_then_only_its_subset_has_it(stage: Arc<Stage>) {
    let patch = |image: &str| json!({"spec": {"containers": [{"name": "main", "image": image}]}});
    let subsets = |image: &str| json!([{"name": "a", "patch": patch(image)}, {"name": "b"}]);
    let status = settled(&stage, &spec(CLONE_SET, 2, subsets("busybox:1"))).await;
    let with = |a: &'static str| {
        stage.until("web", "the Pods have their images", move |pods| {
            let image_in = |subset: &str| in_subset(pods, subset).first().map(|pod| image(pod).to_owned());
            pods.len() == 2 && image_in("a").as_deref() == Some(a) && image_in("b").as_deref() == Some("nginx:1.20")
        })
    };
    with("busybox:1").await;
    stage
        .patch("web", json!({"spec": {"topology": {"subsets": subsets("busybox:2")}}}))
        .await;
    with("busybox:2").await;
    stage
        .status("web", json!({"updatedRevision": status["updatedRevision"]}))
        .await;
}

async fn given_each_kind_then_a_new_image_reaches_all_pods(stage: Arc<Stage>) {
    for field in [NATIVE_SET, ADVANCED_SET, CLONE_SET, DEPLOYMENT] {
        let name = field.to_lowercase();
        let mut given = spec(field, 4, json!([{"name": "a"}, {"name": "b"}]));
        for pointer in [
            "/selector/matchLabels/app".to_owned(),
            format!("/template/{field}/metadata/labels/app"),
            format!("/template/{field}/spec/selector/matchLabels/app"),
            format!("/template/{field}/spec/template/metadata/labels/app"),
        ] {
            *given.pointer_mut(&pointer).unwrap() = json!(name);
        }
        super::try_create(&stage, &name, &given).await.unwrap();
        let all = json!({"replicas": 4, "updatedReadyReplicas": 4});
        let first = stage.status(&name, all.clone()).await["updatedRevision"].clone();
        let mut change = to_image(field, "nginx:1.21");
        change["spec"]["replicas"] = json!(4);
        stage.patch(&name, change).await;
        stage
            .until(&name, "all have the new image", |pods| {
                pods.len() == 4 && pods.values().all(|pod| image(pod) == "nginx:1.21")
            })
            .await;
        let status = stage.status(&name, all).await;
        assert_ne!(status["updatedRevision"], first);
        let reached = json!({"currentRevision": status["updatedRevision"]});
        stage.status(&name, reached).await;
    }
}

async fn given_a_stateful_set_stuck_on_a_broken_pod_when_the_image_is_mended_then_it_goes_on(stage: Arc<Stage>) {
    let mut given = spec(NATIVE_SET, 2, json!([{"name": "a"}]));
    let pod = given
        .pointer_mut("/template/statefulSetTemplate/spec/template")
        .unwrap();
    pod["metadata"]["annotations"] = json!({"sim.kruise.test/pull-error": "nginx:broken"});
    given["template"][NATIVE_SET]["spec"]["podManagementPolicy"] = json!("OrderedReady");
    settled(&stage, &given).await;
    stage.patch("web", to_image(NATIVE_SET, "nginx:broken")).await;
    stage
        .until("web", "one is broken", |pods| {
            pods.values().any(|pod| image(pod) == "nginx:broken")
        })
        .await;
    stage
        .status("web", json!({"updatedReplicas": 1, "readyReplicas": 1}))
        .await;
    stage.patch("web", to_image(NATIVE_SET, "nginx:1.22")).await;
    stage
        .status("web", json!({"updatedReadyReplicas": 2, "readyReplicas": 2}))
        .await;
}
