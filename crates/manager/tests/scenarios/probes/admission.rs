//! Markers on their way in, and Pods that carry their probes with them.

use k8s_openapi::api::core::v1::{Node, Pod};
use kruise_testkit::builders::{Fixture as _, cloneset, deployment, node, pod};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::sync::Arc;

use super::{Scenario, Stage, create, exec, marker, markers, patch, scenarios, until_marker};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_marker_that_breaks_a_rule_then_it_is_refused_with_its_field,
        given_a_change_then_the_selector_is_refused_and_a_probe_is_not,
        given_a_pod_that_markers_choose_then_it_carries_its_probes,
        given_a_pod_on_a_virtual_node_then_its_conditions_mark_it_and_nothing_is_taken_away,
        given_a_pod_of_ours_that_asks_then_its_liveness_probe_is_set_aside,
        given_the_example_then_it_is_taken,
    ]
}

/// Why the API server refuses something.
fn refusal<K: std::fmt::Debug>(result: kube::Result<K>) -> (u16, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
        other => panic!("{other:?}"),
    }
}

async fn given_a_marker_that_breaks_a_rule_then_it_is_refused_with_its_field(stage: Arc<Stage>) {
    let with = |change: Value| {
        let mut probe = exec("idle", &json!([]));
        probe
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        probe
    };
    let http = |more: Value| {
        let mut get = json!({"path": "/", "port": 80, "scheme": "HTTP"});
        get.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([with(json!({"probe": {"httpGet": get}}))])
    };
    let two = json!({"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}});
    for (probes, field) in [
        (json!([with(json!({"name": "Ready"}))]), "spec.probes: "),
        (json!([with(json!({"name": "a#b"}))]), "spec.probes: "),
        (json!([with(json!({})), with(json!({}))]), "spec.probes: "),
        (json!([with(json!({"podConditionType": ""}))]), "spec.probes: "),
        (json!([with(json!({"probe": {}}))]), "spec.probe: Required value"),
        (
            json!([with(json!({"probe": {"grpc": {"port": 1}}}))]),
            "spec.probe: Required value",
        ),
        (json!([with(json!({"probe": two}))]), "spec.probe.tcpSocket: Forbidden"),
        (http(json!({"host": "x"})), "spec.probe.httpGet.host: "),
        (
            http(json!({"scheme": ""})),
            "spec.probe.httpGet.scheme: Unsupported value",
        ),
    ] {
        let result = markers(&stage)
            .create(&PostParams::default(), &marker("bad", &probes))
            .await;
        let (code, message) = refusal(result);
        assert!(code == 400 && message.contains(field), "{code} {message}, not {field}");
    }
}

async fn given_a_change_then_the_selector_is_refused_and_a_probe_is_not(stage: Arc<Stage>) {
    create(&stage, "game", &json!([exec("idle", &json!([]))])).await;
    let other = Patch::Merge(json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}}));
    let (code, message) = refusal(markers(&stage).patch("game", &PatchParams::default(), &other).await);
    assert!(
        code == 400 && message.contains("selector must be immutable"),
        "{code} {message}"
    );
    patch(&stage, "game", &json!({"probes": [exec("busy", &json!([]))]})).await;
    until_marker(&stage, "game", "it is seen", |marker| {
        marker["status"]["observedGeneration"] == 2
    })
    .await;
}

async fn given_a_pod_that_markers_choose_then_it_carries_its_probes(stage: Arc<Stage>) {
    let mut without = exec("none", &json!([{"state": "Succeeded", "labels": {"a": "b"}}]));
    without["podConditionType"] = json!("");
    let policies = json!([{"state": "Succeeded", "labels": {"idle": "true"}}]);
    create(&stage, "game", &json!([exec("idle", &policies), without])).await;
    until_marker(&stage, "game", "the manager knows it", |marker| {
        marker["status"].is_object()
    })
    .await;
    let made = pod("web").image("nginx:1").label("app", "game").build();
    let made = stage.pods.create(&PostParams::default(), &made).await.unwrap();
    let annotations = made.metadata.annotations.unwrap_or_default();
    assert_eq!(annotations["kruise.io/podprobemarker-list"], "game");
    let probes: Value = serde_json::from_str(&annotations["kruise.io/podprobe"]).unwrap();
    assert_eq!(
        probes,
        json!([{"name": "idle", "containerName": "main", "probe": {"exec": {"command": ["true"]}}, "podConditionType": "game.io/idle"}])
    );
    let other = pod("other").image("nginx:1").build();
    let other = stage.pods.create(&PostParams::default(), &other).await.unwrap();
    assert!(json!(other.metadata.annotations)["kruise.io/podprobe"].is_null());
}

async fn given_a_pod_on_a_virtual_node_then_its_conditions_mark_it_and_nothing_is_taken_away(stage: Arc<Stage>) {
    let name = format!("{}-virtual", stage.namespace());
    let nodes: Api<Node> = Api::all(stage.client());
    let made = node(&name).unschedulable().label("type", "virtual-kubelet").build();
    nodes.create(&PostParams::default(), &made).await.unwrap();
    let policies = json!([
        {"state": "Succeeded", "labels": {"idle": "true"}}, {"state": "Failed", "labels": {"busy": "true"}},
    ]);
    create(&stage, "game", &json!([exec("idle", &policies)])).await;
    let made = pod("web").image("nginx:1").label("app", "game").on_node(&name).build();
    stage.pods.create(&PostParams::default(), &made).await.unwrap();
    let labels = |pod: &Pod| json!(pod.metadata.labels);
    for (status, label) in [("True", "idle"), ("False", "busy")] {
        let conditions = json!([{"type": "Initialized", "status": "True"}, {"type": "game.io/idle", "status": status}]);
        stage.patch_pod_status("web", json!({ "conditions": conditions })).await;
        stage
            .until_pod("web", "it is marked", |pod| labels(pod)[label] == "true")
            .await;
    }
    assert_eq!(labels(&stage.pods.get("web").await.unwrap())["idle"], "true");
    until_marker(&stage, "game", "it counts", |marker| {
        marker["status"]["matchedPods"] == 1
    })
    .await;
    nodes.delete(&name, &DeleteParams::default()).await.unwrap();
}

async fn given_a_pod_of_ours_that_asks_then_its_liveness_probe_is_set_aside(stage: Arc<Stage>) {
    let with_probe = |name: &str, owner: &Value| {
        pod(name)
            .image("nginx:1")
            .annotation("apps.kruise.io/using-enhanced-liveness", "true")
            .set(
                "/spec/containers/0/livenessProbe",
                json!({"exec": {"command": ["true"]}}),
            )
            .owned_by(owner)
            .build()
    };
    let (ours, theirs) = (cloneset("web").uid("0").json(), deployment("web").uid("1").json());
    let made = with_probe("ours", &ours);
    let made = stage.pods.create(&PostParams::default(), &made).await.unwrap();
    assert!(made.spec.unwrap().containers[0].liveness_probe.is_none());
    let annotations = made.metadata.annotations.unwrap_or_default();
    let aside: Value = serde_json::from_str(&annotations["apps.kruise.io/container-probe-context"]).unwrap();
    assert_eq!(
        (&aside[0]["name"], &aside[0]["livenessProbe"]["exec"]["command"]),
        (&json!("main"), &json!(["true"]))
    );
    let made = with_probe("theirs", &theirs);
    let made = stage.pods.create(&PostParams::default(), &made).await.unwrap();
    assert!(made.spec.unwrap().containers[0].liveness_probe.is_some());
    assert!(json!(made.metadata.annotations)["apps.kruise.io/container-probe-context"].is_null());
}

async fn given_the_example_then_it_is_taken(stage: Arc<Stage>) {
    let text = include_str!("../../../../../docs/examples/pod-probe-marker.yaml");
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    assert_eq!(documents.len(), 2);
    for document in documents {
        let kind = document["kind"].as_str().unwrap().to_owned();
        let object = serde_json::from_value(document).unwrap();
        let (version, kind) = if kind == "PodProbeMarker" {
            ("v1alpha1", kind)
        } else {
            ("v1beta1", kind)
        };
        stage
            .objects(version, &kind)
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }
}
