//! How Pods end: by themselves, by deletion, held by finalizers, put into a phase.

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::builders::{Fixture, pod};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

use super::{condition, is_ready, main_status, on_cluster, phase};

#[test]
fn pods_that_never_restart_succeed_or_fail() {
    on_cluster("exit", |scenario| async move {
        let job = |name: &str| pod(name).restart_policy("Never").script("exit-after", "300ms");
        scenario.create(job("good")).await;
        scenario.create(job("bad").script("exit-code", "3")).await;
        let good = scenario
            .until("good", "it has succeeded", |pod| phase(pod) == "Succeeded")
            .await;
        let bad = scenario
            .until("bad", "it has failed", |pod| phase(pod) == "Failed")
            .await;
        assert_eq!(
            condition(&good, "Ready").unwrap().reason.as_deref(),
            Some("PodCompleted")
        );
        let exit = main_status(&bad).unwrap().state.clone().unwrap().terminated.unwrap();
        assert_eq!((exit.exit_code, exit.reason.as_deref()), (3, Some("Error")));
    });
}

#[test]
fn a_phase_can_be_ordered() {
    on_cluster("phase", |scenario| async move {
        scenario
            .create(
                pod("evicted")
                    .script("phase", "Failed")
                    .script("phase-reason", "Evicted"),
            )
            .await;
        let pod = scenario
            .until("evicted", "it has failed", |pod| phase(pod) == "Failed")
            .await;
        assert_eq!(pod.status.unwrap().reason.as_deref(), Some("Evicted"));
    });
}

#[test]
fn a_deleted_pod_vanishes_with_one_call() {
    on_cluster("delete", |scenario| async move {
        scenario.created_and_ready(pod("a").grace_seconds(30)).await;
        let pods: Api<Pod> = scenario.api();
        pods.delete("a", &DeleteParams::default()).await.unwrap();
        scenario.gone("a").await;
        let stats = scenario.nodes.stats();
        assert_eq!((stats.patches, stats.deletes), (1, 1));
    });
}

#[test]
fn a_slow_end_is_seen_as_terminating_and_cut_off_by_the_grace_period() {
    on_cluster("slow-end", |scenario| async move {
        scenario
            .created_and_ready(pod("a").grace_seconds(1).script("terminate-delay", "1h"))
            .await;
        let terminating = scenario.sees("a", "it terminates and is still ready", |pod| {
            pod.metadata.deletion_timestamp.is_some() && is_ready(pod)
        });
        let pods: Api<Pod> = scenario.api();
        let params = DeleteParams::default();
        let ((), deleted) = tokio::join!(terminating, pods.delete("a", &params));
        deleted.unwrap();
        scenario.gone("a").await;
    });
}

#[test]
fn a_finalizer_holds_a_pod_whose_containers_have_stopped() {
    on_cluster("finalizer", |scenario| async move {
        let before = scenario.created_and_ready(pod("a").finalizer("kruise.test/hold")).await;
        let pods: Api<Pod> = scenario.api();
        pods.delete("a", &DeleteParams::default()).await.unwrap();
        let stopped = |pod: &Pod| {
            let state = main_status(pod).and_then(|main| main.state.clone());
            state.is_some_and(|state| state.terminated.is_some())
                && pod.metadata.deletion_grace_period_seconds == Some(0)
        };
        let held = scenario
            .until("a", "its containers have stopped and it is still there", stopped)
            .await;
        assert_eq!(held.metadata.uid, before.metadata.uid);
        assert!(held.metadata.deletion_timestamp.is_some() && !is_ready(&held));
        scenario
            .patch(
                "a",
                json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["kruise.test/hold"] } }),
            )
            .await;
        scenario.gone("a").await;
    });
}
