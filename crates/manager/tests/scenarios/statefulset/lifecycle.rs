//! Hooks, grace periods and the time that a Pod has to be ready.

use std::sync::Arc;

use kruise_testkit::builders::Fixture as _;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{Scenario, Stage, image, in_place, is_ready, parallel, scenarios, state, to_image, true_since, web};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_pre_delete_hook_then_a_pod_waits_and_can_come_back,
        given_an_update_hook_then_a_pod_goes_through_its_states,
        given_a_rollback_while_a_pod_prepares_then_it_is_normal_again,
        given_a_grace_period_then_the_image_follows_it,
        given_min_ready_seconds_then_availability_lags,
        given_min_ready_seconds_then_the_next_update_waits_for_them,
        given_a_pre_delete_finalizer_then_the_pod_is_out_of_service_until_it_goes,
        given_ordered_ready_and_an_update_hook_then_pods_go_on_as_it_lets_them,
        given_ordered_ready_and_a_pre_delete_hook_then_pods_are_replaced_as_it_lets_them,
    ]
}

async fn given_a_pre_delete_hook_then_a_pod_waits_and_can_come_back(stage: Arc<Stage>) {
    let set = parallel(2)
        .set("/spec/lifecycle/preDelete/labelsHandler", json!({"block": "yes"}))
        .pod(|pod| pod.label("block", "yes"));
    let before = stage.settled(set).await;
    stage.patch("web", json!({"spec": {"replicas": 1}})).await;
    stage
        .until_pod("web-1", "it waits", |pod| state(pod) == "PreparingDelete")
        .await;
    stage.why("web", "hookWaiting").await;
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    let back = stage
        .until_pod("web-1", "it is back", |pod| state(pod) == "Normal")
        .await;
    assert_eq!(back.uid(), before["web-1"].uid());
    stage.patch("web", json!({"spec": {"replicas": 1}})).await;
    stage
        .until_pod("web-1", "it waits again", |pod| state(pod) == "PreparingDelete")
        .await;
    stage.label_pod("web-1", "block", None).await;
    stage.gone("web-1").await;
}

async fn given_an_update_hook_then_a_pod_goes_through_its_states(stage: Arc<Stage>) {
    let set = in_place(1)
        .set("/spec/lifecycle/inPlaceUpdate/labelsHandler", json!({"block": "yes"}))
        .pod(|pod| pod.label("block", "yes"));
    stage.settled(set).await;
    stage.patch("web", to_image("nginx:2")).await;
    let held = stage
        .until_pod("web-0", "it waits", |pod| state(pod) == "PreparingUpdate")
        .await;
    assert_ne!(image(&held), "nginx:2");
    stage.label_pod("web-0", "block", None).await;
    stage
        .until_pod("web-0", "it is updated", |pod| {
            state(pod) == "Updated" && image(pod) == "nginx:2"
        })
        .await;
    stage.label_pod("web-0", "block", Some("yes")).await;
    stage
        .until_pod("web-0", "it is normal", |pod| state(pod) == "Normal")
        .await;
    stage.status("web", json!({"updatedAvailableReplicas": 1})).await;
}

async fn given_a_rollback_while_a_pod_prepares_then_it_is_normal_again(stage: Arc<Stage>) {
    let set = in_place(1)
        .image("nginx:1")
        .set("/spec/lifecycle/inPlaceUpdate/labelsHandler", json!({"block": "yes"}))
        .pod(|pod| pod.label("block", "yes"));
    stage.settled(set).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .until_pod("web-0", "it waits", |pod| state(pod) == "PreparingUpdate")
        .await;
    stage.patch("web", to_image("nginx:1")).await;
    let back = stage
        .until_pod("web-0", "it is normal", |pod| state(pod) == "Normal")
        .await;
    assert_eq!(image(&back), "nginx:1");
}

async fn given_a_grace_period_then_the_image_follows_it(stage: Arc<Stage>) {
    let grace = "/spec/updateStrategy/rollingUpdate/inPlaceUpdateStrategy/gracePeriodSeconds";
    stage.settled(in_place(1).image("nginx:1").set(grace, 3)).await;
    stage.patch("web", to_image("nginx:2")).await;
    let key = "apps.kruise.io/inplace-update-grace";
    let held = stage
        .until_pod("web-0", "it is in grace", |pod| pod.annotations().contains_key(key))
        .await;
    assert_eq!(image(&held), "nginx:1");
    let conditions = json!(held.status)["conditions"].clone();
    let gate = conditions.as_array().unwrap().iter();
    let mut gate = gate.filter(|condition| condition["type"] == "InPlaceUpdateReady");
    let gate = gate.next().unwrap();
    assert_eq!(gate["status"], "False");
    let done = stage
        .until_pod("web-0", "the image has changed", |pod| image(pod) == "nginx:2")
        .await;
    assert!(!done.annotations().contains_key(key));
    stage.status("web", json!({"updatedAvailableReplicas": 1})).await;
    // The container was not touched before.
    let status = json!(stage.pods("web").await["web-0"].status);
    let time = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let out_of_service = time(&gate["lastTransitionTime"]);
    let started = time(&status["containerStatuses"][0]["state"]["running"]["startedAt"]);
    assert!(
        started.duration_since(out_of_service).as_secs() >= 3,
        "{out_of_service} {started}"
    );
}

async fn given_min_ready_seconds_then_availability_lags(stage: Arc<Stage>) {
    let set = parallel(1).set("/spec/updateStrategy/rollingUpdate/minReadySeconds", 5);
    stage.create(set).await;
    let status = stage.status("web", json!({"readyReplicas": 1})).await;
    assert_eq!(status["availableReplicas"].as_i64().unwrap_or(0), 0);
    stage.status("web", json!({"availableReplicas": 1})).await;
}

async fn given_min_ready_seconds_then_the_next_update_waits_for_them(stage: Arc<Stage>) {
    let seconds = 3;
    let set = in_place(2).set("/spec/updateStrategy/rollingUpdate/minReadySeconds", seconds);
    stage.settled(set).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage.status("web", json!({"updatedAvailableReplicas": 2})).await;
    let pods = stage.pods("web").await;
    let ready = true_since(&pods["web-1"], "Ready").unwrap();
    let begun: Value =
        serde_json::from_str(&pods["web-0"].annotations()["apps.kruise.io/inplace-update-state"]).unwrap();
    let begun: jiff::Timestamp = begun["updateTimestamp"].as_str().unwrap().parse().unwrap();
    let waited = begun.duration_since(ready).as_secs();
    assert!(waited >= seconds, "{ready} {begun}");
}

async fn given_a_pre_delete_finalizer_then_the_pod_is_out_of_service_until_it_goes(stage: Arc<Stage>) {
    let hook = json!({"finalizersHandler": ["example.com/unregister"], "markPodNotReady": true});
    let set = parallel(2)
        .set("/spec/lifecycle/preDelete", hook)
        .set("/spec/template/metadata/finalizers", json!(["example.com/unregister"]));
    stage.settled(set).await;
    stage.patch("web", json!({"spec": {"replicas": 1}})).await;
    let held = stage
        .until_pod("web-1", "it waits out of service", |pod| {
            state(pod) == "PreparingDelete" && !is_ready(pod)
        })
        .await;
    assert!(held.metadata.deletion_timestamp.is_none());
    stage
        .patch_pod("web-1", json!({"metadata": {"finalizers": null}}))
        .await;
    stage.gone("web-1").await;
    // So that nothing holds up the end.
    stage
        .patch_pod("web-0", json!({"metadata": {"finalizers": null}}))
        .await;
}

/// A Pod that waits for its hook is not available, and with `OrderedReady` everything waits for it.
async fn given_ordered_ready_and_an_update_hook_then_pods_go_on_as_it_lets_them(stage: Arc<Stage>) {
    let set = in_place(2)
        .image("nginx:1")
        .set("/spec/podManagementPolicy", "OrderedReady")
        .set("/spec/lifecycle/inPlaceUpdate/labelsHandler", json!({"block": "yes"}))
        .pod(|pod| pod.label("block", "yes"));
    let before = stage.settled(set).await;
    stage.patch("web", to_image("nginx:2")).await;
    for name in ["web-1", "web-0"] {
        stage
            .until_pod(name, "it waits", |pod| state(pod) == "PreparingUpdate")
            .await;
        stage.label_pod(name, "block", None).await;
        stage
            .until_pod(name, "it is updated", |pod| {
                state(pod) == "Updated" && image(pod) == "nginx:2"
            })
            .await;
        stage.label_pod(name, "block", Some("yes")).await;
    }
    stage.status("web", json!({"updatedAvailableReplicas": 2})).await;
    let after = stage.pods("web").await;
    assert!(after.iter().all(|(name, pod)| pod.uid() == before[name].uid()));
}

async fn given_ordered_ready_and_a_pre_delete_hook_then_pods_are_replaced_as_it_lets_them(stage: Arc<Stage>) {
    let set = web(2)
        .image("nginx:1")
        .set("/spec/lifecycle/preDelete/labelsHandler", json!({"block": "yes"}))
        .pod(|pod| pod.label("block", "yes"));
    stage.settled(set).await;
    stage.patch("web", to_image("nginx:2")).await;
    for name in ["web-1", "web-0"] {
        let held = stage
            .until_pod(name, "it waits", |pod| state(pod) == "PreparingDelete")
            .await;
        stage.why("web", "hookWaiting").await;
        stage.label_pod(name, "block", None).await;
        stage
            .until("web", "it is made anew", |pods| {
                pods.get(name)
                    .is_some_and(|pod| pod.uid() != held.uid() && image(pod) == "nginx:2")
            })
            .await;
    }
    stage
        .status("web", json!({"updatedReplicas": 2, "availableReplicas": 2}))
        .await;
}
