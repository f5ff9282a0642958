//! Scaling out and in, and updating in place and anew.

use std::{collections::BTreeSet, time::Duration};

use kruise_testkit::{
    builders::{Fixture as _, cloneset},
    eventually::run_test,
};
use kube::ResourceExt as _;
use serde_json::json;

use super::{Stage, image, state, to_image};

#[test]
fn given_three_replicas_then_pods_come_are_updated_in_place_and_go() {
    run_test(Duration::from_mins(10), async {
        let stage = Stage::new("basics").await;
        let web = cloneset("web").replicas(3).image("nginx:1").set(
            "/spec/updateStrategy/rollingUpdate/podUpdatePolicy",
            "InPlaceIfPossible",
        );
        stage.create(web).await;
        let status = stage
            .status(
                "web",
                json!({"replicas": 3, "availableReplicas": 3, "updatedReplicas": 3}),
            )
            .await;
        let first = stage.pods("web").await;
        assert_eq!(first.len(), 3);
        for (name, pod) in &first {
            let id = &pod.labels()["apps.kruise.io/cloneset-instance-id"];
            assert_eq!(*name, format!("web-{id}"));
            assert_eq!(state(pod), Some("Normal"));
            assert_eq!(
                pod.labels()["controller-revision-hash"],
                status["updateRevision"].as_str().unwrap()
            );
        }

        stage.patch("web", to_image("nginx:2")).await;
        let updated = json!({"updatedReplicas": 3, "updatedAvailableReplicas": 3, "availableReplicas": 3});
        let status = stage.status("web", updated).await;
        assert_eq!(status["currentRevision"], status["updateRevision"]);
        let second = stage.pods("web").await;
        let uids = |pods: &std::collections::BTreeMap<_, k8s_openapi::api::core::v1::Pod>| {
            pods.values().map(kube::ResourceExt::uid).collect::<BTreeSet<_>>()
        };
        assert_eq!(uids(&first), uids(&second), "updated in place");
        for pod in second.values() {
            assert_eq!((image(pod), state(pod)), (Some("nginx:2"), Some("Normal")));
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
        stage.end().await;
    });
}
