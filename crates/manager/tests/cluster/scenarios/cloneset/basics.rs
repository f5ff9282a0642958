//! A whole life: Pods come, are updated in place and anew, and go.

use std::sync::Arc;

use kube::ResourceExt as _;
use serde_json::json;

use super::{Scenario, Stage, image, is, revision, scenarios, state, to_image, uids, web_in_place};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![given_three_replicas_then_pods_come_are_updated_in_place_and_go]
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
