//! Readiness: gates, delays, never.

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::builders::{Fixture, pod};
use serde_json::{Value, json};

use super::{condition, condition_is, is_ready, on_cluster, phase};

fn gate(status: &str) -> Value {
    json!({ "status": { "conditions": [{ "type": "InPlaceUpdateReady", "status": status, "reason": "Because" }] } })
}

#[test]
fn ready_follows_a_readiness_gate_that_another_writer_sets() {
    on_cluster("gate", |scenario| async move {
        scenario.create(pod("a").readiness_gate("InPlaceUpdateReady")).await;
        let closed = |pod: &Pod| condition_is(pod, "ContainersReady", "True") && condition_is(pod, "Ready", "False");
        let pod = scenario.until("a", "only the gate is missing", closed).await;
        let ready = condition(&pod, "Ready").unwrap();
        assert_eq!(ready.reason.as_deref(), Some("ReadinessGatesNotReady"));
        let message = "corresponding condition of pod readiness gate \"InPlaceUpdateReady\" does not exist.";
        assert_eq!(ready.message.as_deref(), Some(message));

        scenario.patch_status("a", gate("True")).await;
        let pod = scenario.until("a", "the gate is open", is_ready).await;
        assert_eq!(condition(&pod, "Ready").unwrap().reason, None);
        scenario.patch_status("a", gate("False")).await;
        let pod = scenario.until("a", "the gate is closed", closed).await;
        assert!(condition(&pod, "Ready").unwrap().last_transition_time.is_some());
        let foreign = condition(&pod, "InPlaceUpdateReady").unwrap();
        assert_eq!(
            (foreign.status.as_str(), foreign.reason.as_deref()),
            ("False", Some("Because"))
        );
    });
}

#[test]
fn ready_written_by_another_is_corrected() {
    on_cluster("corrected", |scenario| async move {
        scenario.created_and_ready(pod("a")).await;
        let wrong =
            json!({ "status": { "conditions": [{ "type": "Ready", "status": "False", "lastTransitionTime": null }] } });
        scenario.patch_status("a", wrong).await;
        scenario.until("a", "the kubelet knows better", is_ready).await;
    });
}

#[test]
fn a_pod_that_is_never_ready_becomes_ready_when_its_script_changes() {
    on_cluster("never-ready", |scenario| async move {
        scenario
            .create(
                pod("a")
                    .container("side", "busybox:1")
                    .script("never-ready.side", "true"),
            )
            .await;
        let pod = scenario.until("a", "it runs", |pod| phase(pod) == "Running").await;
        let why = condition(&pod, "Ready").unwrap();
        assert_eq!(why.message.as_deref(), Some("containers with unready status: [side]"));
        let forget = json!({ "metadata": { "annotations": { "sim.kruise.test/never-ready.side": null } } });
        scenario.patch("a", forget).await;
        scenario.until("a", "it is ready", is_ready).await;
    });
}
