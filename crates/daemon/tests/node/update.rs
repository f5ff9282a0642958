//! An update in place of environment that comes from an annotation: the daemon reports, restarts, reports again, and the update completes.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kruise_core::shared::container_hash::{RuntimeContainers, environment, plain};
use kruise_testkit::eventually::{NotYet, eventually, not_yet, run_test};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::world::{Node, PATIENCE, restarts};

const DEADLINE: Duration = Duration::from_mins(6);

fn env_hash(value: &str) -> u64 {
    environment(vec![("VERSION".to_owned(), value.to_owned())])
}

/// The only Pod, once its report has this hash of its environment.
async fn reported(node: &Node, hash: u64) -> Pod {
    let pods: Api<Pod> = node.space.api();
    eventually(PATIENCE, "the environment is reported", || async {
        let mut found = pods.list(&ListParams::default()).await?.items;
        let pod = found.pop().ok_or_else(|| NotYet::new("no Pod"))?;
        let annotations = pod.metadata.annotations.clone().unwrap_or_default();
        let report = annotations
            .get("apps.kruise.io/runtime-containers-meta")
            .cloned()
            .unwrap_or_default();
        let report: RuntimeContainers = serde_json::from_str(&report).unwrap_or_default();
        let hashes = report.containers.first().map(|entry| entry.hashes);
        if hashes.is_some_and(|hashes| hashes.extracted_env_from_metadata_hash == hash) {
            assert_eq!(
                hashes.map(|hashes| hashes.plain_hash),
                Some(plain("main", "nginx:1.25"))
            );
            Ok(pod)
        } else {
            Err(not_yet(&pod))
        }
    })
    .await
}

#[test]
fn given_environment_from_an_annotation_then_an_update_in_place_restarts_the_container_and_completes() {
    run_test(DEADLINE, async {
        let node = Node::new("node3").await;
        let kind = GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "CloneSet");
        let sets: Api<DynamicObject> =
            Api::namespaced_with(node.client.clone(), node.space.name(), &ApiResource::from_gvk(&kind));
        let set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "web"},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
                "updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "InPlaceOnly"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}, "annotations": {"version": "one"}},
                    "spec": {
                        "terminationGracePeriodSeconds": 2, "nodeSelector": {"kubernetes.io/hostname": node.name},
                        "containers": [{"name": "main", "image": "nginx:1.25", "env": [
                            {"name": "VERSION", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['version']"}}},
                        ]}],
                    },
                },
            },
        });
        sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap())
            .await
            .unwrap();
        let pod = reported(&node, env_hash("one")).await;
        assert_eq!(restarts(&pod), 0);
        let patch = json!({"spec": {"template": {"metadata": {"annotations": {"version": "two"}}}}});
        sets.patch("web", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        let updated = reported(&node, env_hash("two")).await;
        assert_eq!(updated.metadata.uid, pod.metadata.uid, "the same Pod");
        assert_eq!(restarts(&updated), 1);
        eventually(PATIENCE, "the update is complete", || async {
            let status = sets.get("web").await?.data["status"].clone();
            (status["updatedReadyReplicas"] == 1)
                .then_some(())
                .ok_or_else(|| NotYet::from(status))
        })
        .await;
    });
}
