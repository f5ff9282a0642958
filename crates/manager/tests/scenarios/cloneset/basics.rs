//! A whole life: Pods come, are updated in place and anew, and go.

use std::sync::Arc;

use kruise_testkit::builders::Fixture as _;
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PropagationPolicy},
};
use serde_json::json;

use super::{Scenario, Stage, image, is, revision, scenarios, state, to_image, uids, web_in_place};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_three_replicas_then_pods_come_are_updated_in_place_and_go,
        given_a_pod_of_a_set_at_rest_without_a_readiness_condition_then_it_comes_back,
        given_a_set_that_is_gone_before_its_pods_have_a_node_then_they_become_ready,
    ]
}

async fn given_a_pod_of_a_set_at_rest_without_a_readiness_condition_then_it_comes_back(stage: Arc<Stage>) {
    let pods = stage.settled(web_in_place(1)).await;
    let name = pods.keys().next().unwrap();
    let lost = json!({"status": {"conditions": [{"type": "KruisePodReady", "$patch": "delete"}]}});
    let before = stage.pods.get(name).await.unwrap().resource_version();
    stage.patch_pod_status(name, lost).await;
    stage
        .until_pod(name, "it is ready again", |pod| {
            pod.resource_version() != before && is(pod, "KruisePodReady") && is(pod, "Ready")
        })
        .await;
}

async fn given_a_set_that_is_gone_before_its_pods_have_a_node_then_they_become_ready(stage: Arc<Stage>) {
    let gates = json!([{"name": "kruise.test/wait"}]);
    stage
        .create(web_in_place(2).pod(|pod| pod.set("/spec/schedulingGates", gates)))
        .await;
    let pods = stage.until("web", "there are two", |pods| pods.len() == 2).await;
    // One is released, then the other loses its set.
    let released = pods.keys().next().unwrap();
    stage.label_pod(released, "app", Some("other")).await;
    stage
        .until_pod(released, "it has no owner", |pod| pod.owner_references().is_empty())
        .await;
    let orphan = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    stage.subjects.delete("web", &orphan).await.unwrap();
    for name in pods.keys() {
        let go = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
        stage
            .until_pod(name, "it has no owner", |pod| pod.owner_references().is_empty())
            .await;
        stage.pods.patch(name, &PatchParams::default(), &go).await.unwrap();
        stage.until_pod(name, "it is ready", |pod| is(pod, "Ready")).await;
    }
}

async fn given_three_replicas_then_pods_come_are_updated_in_place_and_go(stage: Arc<Stage>) {
    let first = stage.settled(web_in_place(3)).await;
    let status = stage.status("web", json!({"updatedReplicas": 3})).await;
    assert_eq!(first.len(), 3);
    for (name, pod) in &first {
        let id = &pod.labels()["apps.kruise.io/cloneset-instance-id"];
        assert_eq!(*name, format!("web-{id}"));
        assert_eq!(
            (state(pod), revision(pod)),
            ("Normal", status["updateRevision"].as_str().unwrap())
        );
        assert!(is(pod, "InPlaceUpdateReady") && is(pod, "KruisePodReady") && is(pod, "Ready"));
    }

    stage.patch("web", to_image("nginx:2")).await;
    let updated = json!({"updatedReplicas": 3, "updatedAvailableReplicas": 3, "availableReplicas": 3});
    let status = stage.status("web", updated).await;
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    let second = stage.pods("web").await;
    assert_eq!(uids(&first), uids(&second), "updated in place");
    for pod in second.values() {
        assert_eq!((image(pod), state(pod)), ("nginx:2", "Normal"));
    }

    // An environment variable cannot be changed in place.
    let env = json!([{"name": "main", "image": "nginx:2", "env": [{"name": "A", "value": "1"}]}]);
    stage
        .patch("web", json!({"spec": {"template": {"spec": {"containers": env}}}}))
        .await;
    let replaced = json!({"updatedReplicas": 3, "updatedAvailableReplicas": 3, "replicas": 3});
    stage.status("web", replaced).await;
    let third = stage.pods("web").await;
    assert!(uids(&second).is_disjoint(&uids(&third)), "made anew");

    stage.patch("web", json!({"spec": {"replicas": 1}})).await;
    stage
        .status("web", json!({"replicas": 1, "availableReplicas": 1}))
        .await;
    assert_eq!(stage.pods("web").await.len(), 1);
}
