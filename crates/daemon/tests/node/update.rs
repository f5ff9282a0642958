//! An update in place of environment that comes from an annotation and a label: the daemon reports, restarts, reports again, and the update completes.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kruise_api::{cloneset::v1beta1::CloneSet, imagepulljob::v1beta1::ImagePullJob};
use kruise_core::shared::container_hash::{RuntimeContainers, environment, plain};
use kruise_testkit::eventually::{NotYet, eventually, not_yet, run_test};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{
    registry::Registry,
    world::{Node, PATIENCE, becomes, kubectl, restarts},
};

const DEADLINE: Duration = Duration::from_mins(6);

/// Of a version that comes from an annotation and a track that comes from a label.
fn env_hash(version: &str, track: &str) -> u64 {
    let pairs = [("VERSION", version), ("TRACK", track)];
    environment(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
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
fn given_environment_from_metadata_then_an_update_in_place_restarts_the_container_and_completes() {
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
                    "metadata": {"labels": {"app": "web", "track": "slow"}, "annotations": {"version": "one"}},
                    "spec": {
                        "terminationGracePeriodSeconds": 2, "nodeSelector": {"kubernetes.io/hostname": node.name},
                        "containers": [{"name": "main", "image": "nginx:1.25", "env": [
                            {"name": "VERSION", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['version']"}}},
                            {"name": "TRACK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['track']"}}},
                        ]}],
                    },
                },
            },
        });
        sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap())
            .await
            .unwrap();
        let pod = reported(&node, env_hash("one", "slow")).await;
        assert_eq!(restarts(&pod), 0);
        let patch = json!({"spec": {"template": {"metadata": {"annotations": {"version": "two"}, "labels": {"track": "quick"}}}}});
        sets.patch("web", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        let updated = reported(&node, env_hash("two", "quick")).await;
        assert_eq!(updated.metadata.uid, pod.metadata.uid, "the same Pod");
        let name = updated.metadata.name.as_deref().unwrap();
        // The daemon may report on the new container before kubelet does.
        let pods: Api<Pod> = node.space.api();
        becomes(&pods, name, "it is restarted once", |pod| restarts(pod) == 1).await;
        let seen = kubectl(&[
            "exec",
            "-n",
            node.space.name(),
            name,
            "--",
            "sh",
            "-c",
            "echo $VERSION $TRACK",
        ]);
        assert_eq!(seen.trim(), "two quick", "what the container has");
        eventually(PATIENCE, "the update is complete", || async {
            let status = sets.get("web").await?.data["status"].clone();
            (status["updatedReadyReplicas"] == 1)
                .then_some(())
                .ok_or_else(|| NotYet::from(status))
        })
        .await;
    });
}

#[test]
fn given_a_rollout_in_steps_then_nodes_have_the_new_image_before_their_pods_need_it() {
    run_test(DEADLINE, async {
        let node = Node::new("node1").await;
        let registry = Registry::that_can_be_run(15064);
        let sets: Api<CloneSet> = node.space.api();
        let [one, two] = ["one", "two"].map(|tag| format!("open/{}:{tag}", node.space.name()));
        let (old, new) = (registry.image(&one), registry.image(&two));
        let set = json!({
            "metadata": {"name": "app"},
            "spec": {
                "replicas": 4, "selector": {"matchLabels": {"app": "app"}},
                "updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "InPlaceOnly", "partition": 4, "maxUnavailable": 4,
                    "inPlaceUpdateStrategy": {"imagePreDownloadParallelism": 3}}},
                "template": {
                    "metadata": {"labels": {"app": "app"}},
                    "spec": {"terminationGracePeriodSeconds": 2, "containers": [{"name": "main", "image": old, "imagePullPolicy": "IfNotPresent"}]},
                },
            },
        });
        sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap())
            .await
            .unwrap();
        let is_done = |set: &CloneSet| {
            let status = set.status.as_ref();
            status.is_some_and(|status| {
                status.observed_generation == set.metadata.generation.unwrap_or_default() && status.ready_replicas == 4
            })
        };
        becomes(&sets, "app", "all Pods are ready", is_done).await;
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": new, "imagePullPolicy": "IfNotPresent"}]}}}});
        let params = PatchParams::default();
        sets.patch("app", &params, &Patch::Merge(&patch)).await.unwrap();
        let jobs: Api<ImagePullJob> = node.space.api();
        let job = eventually(PATIENCE, "a job has pulled it", || async {
            let found = jobs.list(&ListParams::default()).await?.items;
            let done = found.iter().find(|job| {
                let status = job.status.as_ref();
                status.is_some_and(|status| status.completion_time.is_some())
            });
            done.cloned().ok_or_else(|| not_yet(&found))
        })
        .await;
        let status = job.status.clone().unwrap();
        assert!(status.desired > 0 && status.succeeded == status.desired, "{status:?}");
        let pods: Api<Pod> = node.space.api();
        let all = pods.list(&ListParams::default()).await.unwrap().items;
        let mut homes: Vec<String> = all
            .iter()
            .filter_map(|pod| pod.spec.as_ref()?.node_name.clone())
            .collect();
        homes.sort();
        homes.dedup();
        assert_eq!(registry.asked(&two), homes, "the nodes of the Pods");
        assert!(all.iter().all(|pod| restarts(pod) == 0), "no Pod is updated yet");

        let patch = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
        sets.patch("app", &params, &Patch::Merge(&patch)).await.unwrap();
        becomes(&sets, "app", "all Pods are updated", |set| {
            is_done(set)
                && set
                    .status
                    .as_ref()
                    .is_some_and(|status| status.updated_ready_replicas == 4)
        })
        .await;
        eventually(PATIENCE, "the job goes with the rollout", || async {
            let left = jobs.list(&ListParams::default()).await?.items;
            if left.is_empty() { Ok(()) } else { Err(not_yet(&left)) }
        })
        .await;
    });
}
