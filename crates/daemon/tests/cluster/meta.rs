//! Reports on what containers were started with.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kruise_core::shared::container_hash::{RuntimeContainers, environment};
use kruise_cri::{Executed, fake::Ends};
use kruise_testkit::eventually::{NotYet, consistently, eventually, run_test};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tonic::Code;

use super::recreate::stops;
use super::world::{Node, PATIENCE, becomes};

const DEADLINE: Duration = Duration::from_mins(2);
const REPORT: &str = "apps.kruise.io/runtime-containers-meta";

fn report(pod: &Pod) -> Option<RuntimeContainers> {
    let annotations = pod.metadata.annotations.as_ref()?;
    serde_json::from_str(annotations.get(REPORT)?).ok()
}

fn env_hash(pod: &Pod) -> u64 {
    report(pod).map_or(0, |report| report.containers[0].hashes.extracted_env_from_metadata_hash)
}

fn prints(node: &Node, value: &str) {
    let printed = Executed {
        stdout: format!("HOME=/\nW={value}\n").into_bytes(),
        ..Executed::default()
    };
    node.runtime.world().commands.insert("env".to_owned(), printed);
}

/// Makes the Pod `p`, whose variable `W` is an annotation.
async fn pod_that_reads_an_annotation(node: &Node) {
    let env = json!([{"name": "W", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['w']"}}}]);
    let containers = json!([{"name": "main", "image": "i", "env": env}]);
    node.pod("p", "apps.kruise.io/v1beta1", &containers).await;
}

fn hash_of(value: &str) -> u64 {
    environment(vec![("W".to_owned(), value.to_owned())])
}

#[test]
fn given_pods_then_those_of_our_workloads_are_reported_with_both_hashes_and_others_are_not() {
    run_test(DEADLINE, async {
        let node = Node::new("meta").await;
        let daemon = node.daemon(&[]).await;
        let plain = json!([{"name": "main", "image": "nginx:1.25"}]);
        node.pod("ours", "apps.kruise.io/v1beta1", &plain).await;
        node.pod("theirs", "apps/v1", &plain).await;
        let pods: Api<Pod> = node.space.api();
        let pod = becomes(&pods, "ours", "reported", |pod| report(pod).is_some()).await;
        let entry = &report(&pod).unwrap().containers[0];
        assert_eq!((entry.name.as_str(), entry.restart_count), ("main", 0));
        assert_eq!(entry.hashes.plain_hash, 436_018_172);
        assert_eq!(entry.hashes.extracted_env_from_metadata_hash, 86_995_377);
        assert!(entry.container_id.starts_with("containerd://main-"));
        assert!(node.runtime.calls("ExecSync").is_empty(), "there was nothing to read");

        // The container restarts: another one, another entry.
        let old = entry.container_id.clone();
        node.runtime.world().end(old.strip_prefix("containerd://").unwrap());
        node.tell_status("ours").await;
        let pod = becomes(&pods, "ours", "reported anew", |pod| {
            report(pod).is_some_and(|report| report.containers[0].container_id != old)
        })
        .await;
        assert_eq!(report(&pod).unwrap().containers[0].restart_count, 1);
        assert!(report(&pods.get("theirs").await.unwrap()).is_none());
        assert_eq!(
            daemon.faults.count("patch", "pods/status"),
            2,
            "one write for each container"
        );
        daemon.stop().await;
    });
}

#[test]
fn given_an_environment_without_end_then_nothing_of_it_is_read_and_it_is_asked_for_again() {
    run_test(DEADLINE, async {
        let node = Node::new("flood").await;
        prints(&node, &"x".repeat(3 << 20));
        let daemon = node.daemon(&[]).await;
        pod_that_reads_an_annotation(&node).await;
        eventually(PATIENCE, "the environment is asked for", || async {
            (!node.runtime.calls("ExecSync").is_empty())
                .then_some(())
                .ok_or_else(|| NotYet::new("not yet"))
        })
        .await;
        prints(&node, "1");
        let pods: Api<Pod> = node.space.api();
        becomes(&pods, "p", "the environment is read once it is short", |pod| {
            env_hash(pod) == hash_of("1")
        })
        .await;
        daemon.stop().await;
    });
}

#[test]
fn given_environment_from_metadata_then_a_change_restarts_the_container_only_during_an_update_in_place() {
    run_test(DEADLINE, async {
        let node = Node::new("env").await;
        prints(&node, "1");
        node.runtime
            .next("ExecSync", [Ends::With(Code::Internal, "cannot exec")]);
        let daemon = node.daemon(&[]).await;
        pod_that_reads_an_annotation(&node).await;
        let pods: Api<Pod> = node.space.api();
        becomes(&pods, "p", "the environment is read at the second try", |pod| {
            env_hash(pod) == hash_of("1")
        })
        .await;

        let change = json!({"metadata": {"annotations": {"w": "2"}}});
        pods.patch("p", &PatchParams::default(), &Patch::Merge(change))
            .await
            .unwrap();
        consistently(
            Duration::from_secs(2),
            "nothing is stopped outside of an update",
            || async {
                stops(&node)
                    .is_empty()
                    .then_some(())
                    .ok_or_else(|| NotYet::new("stopped"))
            },
        )
        .await;

        prints(&node, "2");
        let condition = json!({"status": {"conditions": [{"type": "InPlaceUpdateReady", "status": "False"}]}});
        pods.patch_status("p", &PatchParams::default(), &Patch::Merge(condition))
            .await
            .unwrap();
        eventually(PATIENCE, "the container is stopped", || async {
            (stops(&node).len() == 1)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{:?}", stops(&node))))
        })
        .await;
        assert_eq!(
            node.runtime.calls("StopContainer")[0].timeout,
            3,
            "the Pod's own grace period"
        );
        let event = node.event("p", "Killing").await;
        assert_eq!(
            event.message.as_deref(),
            Some("Stopping containerID containerd://main by container meta restarter")
        );
        node.tell_status("p").await;
        becomes(&pods, "p", "the new environment is reported", |pod| {
            env_hash(pod) == hash_of("2")
        })
        .await;
        daemon.stop().await;
    });
}

#[test]
fn given_pods_that_were_there_before_then_only_a_change_makes_a_report_and_an_update_is_taken_up() {
    run_test(DEADLINE, async {
        let node = Node::new("before").await;
        prints(&node, "1");
        let env = json!([{"name": "W", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['w']"}}}]);
        node.pod(
            "silent",
            "apps.kruise.io/v1beta1",
            &json!([{"name": "main", "image": "i"}]),
        )
        .await;
        let pod = node
            .pod(
                "updating",
                "apps.kruise.io/v1beta1",
                &json!([{"name": "main", "image": "i", "env": env}]),
            )
            .await;
        let id = pod.status.unwrap().container_statuses.unwrap()[0]
            .container_id
            .clone()
            .unwrap();
        let old = json!({"containers": [{"name": "main", "containerID": id, "restartCount": 0, "unknown": 1,
            "hashes": {"plainHash": 1, "extractedEnvFromMetadataHash": hash_of("0"), "plainHashWithoutResources": 9}}]});
        let pods: Api<Pod> = node.space.api();
        let change = json!({"metadata": {"annotations": {REPORT: old.to_string()}}});
        pods.patch("updating", &PatchParams::default(), &Patch::Merge(change))
            .await
            .unwrap();
        let condition = json!({"status": {"conditions": [{"type": "InPlaceUpdateReady", "status": "False"}]}});
        pods.patch_status("updating", &PatchParams::default(), &Patch::Merge(condition))
            .await
            .unwrap();

        // A daemon that starts in the middle of an update restarts what is outdated.
        let daemon = node.daemon(&[]).await;
        eventually(PATIENCE, "the container is stopped", || async {
            (stops(&node).len() == 1)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{:?}", stops(&node))))
        })
        .await;
        assert!(
            report(&pods.get("silent").await.unwrap()).is_none(),
            "no write without a change"
        );
        node.tell_status("updating").await;
        becomes(&pods, "updating", "reported", |pod| env_hash(pod) == hash_of("1")).await;
        let change = json!({"metadata": {"labels": {"x": "y"}}});
        pods.patch("silent", &PatchParams::default(), &Patch::Merge(change))
            .await
            .unwrap();
        becomes(&pods, "silent", "reported after a change", |pod| report(pod).is_some()).await;
        daemon.stop().await;
    });
}
