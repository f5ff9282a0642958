//! Pods that wait for somebody else: lifecycle hooks.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::builders::{Fixture as _, Workload};
use serde_json::{Value, json};

use super::{Scenario, Stage, condition, image, is, names, scenarios, state, to_image, uids, web, web_in_place};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_pod_that_prepares_its_deletion_and_is_needed_again_then_it_comes_back,
        given_a_finalizer_before_deletion_then_the_pod_goes_when_it_is_removed,
        given_a_stuck_pod_that_is_not_counted_then_its_successor_comes_at_once,
        given_a_label_before_an_update_then_the_pod_waits_before_and_after,
        given_a_rollback_while_a_pod_waits_then_nothing_is_changed,
        given_a_hook_that_makes_pods_not_ready_then_they_are_until_updated,
        given_two_who_hold_a_pod_not_ready_then_both_have_to_let_go,
        given_a_hook_before_the_beginning_then_a_pod_counts_when_it_is_complete,
        given_a_hook_that_nobody_serves_then_others_go_on_within_the_budget,
    ]
}

const HOOK: &str = "example.com/hook";

/// With a label that makes Pods wait at this hook.
fn hooked(set: Workload, hook: &str) -> Workload {
    set.set(
        &format!("/spec/lifecycle/{hook}"),
        json!({"labelsHandler": {HOOK: "true"}}),
    )
    .pod(|pod| pod.label(HOOK, "true"))
}

fn in_state<'a>(pods: impl IntoIterator<Item = &'a Pod>, wanted: &str) -> Vec<String> {
    let found = pods.into_iter().filter(|pod| state(pod) == wanted);
    found.map(kube::ResourceExt::name_any).collect()
}

async fn given_a_pod_that_prepares_its_deletion_and_is_needed_again_then_it_comes_back(stage: Arc<Stage>) {
    let before = stage.settled(hooked(web(3), "preDelete")).await;
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    let waiting = stage
        .status("web", json!({"replicas": 3, "availableReplicas": 2}))
        .await;
    assert_eq!(waiting["readyReplicas"], 3);
    let leaving = in_state(stage.pods("web").await.values(), "PreparingDelete");
    assert_eq!(leaving.len(), 1);
    assert_eq!(stage.why("web", "hookWaiting").await["hook"], "preDelete");

    stage.patch("web", json!({"spec": {"replicas": 3}})).await;
    stage
        .status("web", json!({"replicas": 3, "availableReplicas": 3}))
        .await;
    let after = stage.pods("web").await;
    assert_eq!(uids(&after), uids(&before));
    assert_eq!(in_state(after.values(), "Normal").len(), 3);
}

async fn given_a_finalizer_before_deletion_then_the_pod_goes_when_it_is_removed(stage: Arc<Stage>) {
    let hook = json!({"preDelete": {"finalizersHandler": [HOOK]}});
    let set = web(2).set("/spec/lifecycle", hook).pod(|pod| pod.finalizer(HOOK));
    stage.settled(set).await;
    stage.patch("web", json!({"spec": {"replicas": 1}})).await;
    let pods = stage
        .until("web", "one prepares", |pods| {
            !in_state(pods.values(), "PreparingDelete").is_empty()
        })
        .await;
    let leaving = in_state(pods.values(), "PreparingDelete").remove(0);
    stage
        .patch_pod(
            &leaving,
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [HOOK]}}),
        )
        .await;
    stage.gone(&leaving).await;
    stage
        .status("web", json!({"replicas": 1, "availableReplicas": 1}))
        .await;
    // Let go of the other, or the namespace stays.
    for name in stage.pods("web").await.into_keys() {
        stage
            .patch_pod(
                &name,
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [HOOK]}}),
            )
            .await;
    }
}

async fn given_a_stuck_pod_that_is_not_counted_then_its_successor_comes_at_once(stage: Arc<Stage>) {
    let set = hooked(web(2), "preDelete").set("/spec/scaleStrategy/excludePreparingDelete", true);
    let before = stage.settled(set).await;
    let chosen = before.keys().next().unwrap();
    stage
        .label_pod(chosen, "apps.kruise.io/specified-delete", Some("true"))
        .await;
    stage
        .status("web", json!({"replicas": 3, "availableReplicas": 2}))
        .await;
    let during = stage.pods("web").await;
    assert_eq!(in_state(during.values(), "PreparingDelete"), [chosen.as_str()]);
    stage.label_pod(chosen, HOOK, None).await;
    stage
        .status("web", json!({"replicas": 2, "availableReplicas": 2}))
        .await;
    assert!(!stage.pods("web").await.contains_key(chosen));
}

async fn given_a_label_before_an_update_then_the_pod_waits_before_and_after(stage: Arc<Stage>) {
    let before = stage.settled(hooked(web_in_place(1), "inPlaceUpdate")).await;
    let name = before.keys().next().unwrap();
    stage.patch("web", to_image("nginx:2")).await;
    let waiting = stage
        .until_pod(name, "it waits", |pod| state(pod) == "PreparingUpdate")
        .await;
    assert_eq!((image(&waiting), is(&waiting, "Ready")), ("nginx:1", true));
    stage
        .status(
            "web",
            json!({"replicas": 1, "updatedReplicas": 0, "availableReplicas": 0}),
        )
        .await;
    assert_eq!(stage.why("web", "hookWaiting").await["hook"], "preUpdate");

    stage.label_pod(name, HOOK, None).await;
    let updated = stage
        .until_pod(name, "it is updated", |pod| state(pod) == "Updated")
        .await;
    assert_eq!(image(&updated), "nginx:2");
    stage
        .status("web", json!({"updatedReadyReplicas": 1, "updatedAvailableReplicas": 0}))
        .await;
    assert_eq!(stage.why("web", "hookWaiting").await["hook"], "postUpdate");

    stage.label_pod(name, HOOK, Some("true")).await;
    stage.status("web", json!({"updatedAvailableReplicas": 1})).await;
    assert_eq!(in_state(stage.pods("web").await.values(), "Normal").len(), 1);

    // The next update waits again.
    stage.patch("web", to_image("nginx:3")).await;
    stage
        .until_pod(name, "it waits again", |pod| state(pod) == "PreparingUpdate")
        .await;
}

async fn given_a_rollback_while_a_pod_waits_then_nothing_is_changed(stage: Arc<Stage>) {
    let before = stage.settled(hooked(web_in_place(1), "inPlaceUpdate")).await;
    let name = before.keys().next().unwrap();
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .until_pod(name, "it waits", |pod| state(pod) == "PreparingUpdate")
        .await;
    let history = stage.pod_history("web").await;
    stage.patch("web", to_image("nginx:1")).await;
    stage
        .until_pod(name, "it is as before", |pod| state(pod) == "Normal")
        .await;
    stage.status("web", json!({"updatedAvailableReplicas": 1})).await;
    let states = history.end().await;
    assert!(
        states
            .iter()
            .flat_map(|pods| pods.values())
            .all(|pod| image(pod) == "nginx:1")
    );
    assert_eq!(uids(&stage.pods("web").await), uids(&before));
}

async fn given_a_hook_that_makes_pods_not_ready_then_they_are_until_updated(stage: Arc<Stage>) {
    let set = hooked(web_in_place(1), "inPlaceUpdate").set("/spec/lifecycle/inPlaceUpdate/markPodNotReady", true);
    let before = stage.settled(set).await;
    let name = before.keys().next().unwrap();
    stage.patch("web", to_image("nginx:2")).await;
    let waiting = stage
        .until_pod(name, "it waits and is not ready", |pod| {
            state(pod) == "PreparingUpdate" && !is(pod, "Ready")
        })
        .await;
    assert_eq!(condition(&waiting, "KruisePodReady")["status"], "False");
    assert_eq!(
        holders(&waiting),
        json!([{"userAgent": "Lifecycle", "key": "preUpdateHook"}])
    );

    stage.label_pod(name, HOOK, None).await;
    let updated = stage
        .until_pod(name, "it is updated and ready", |pod| {
            state(pod) == "Updated" && is(pod, "Ready")
        })
        .await;
    assert_eq!(condition(&updated, "KruisePodReady")["message"], "[]");
}

/// Who holds a Pod not ready.
fn holders(pod: &Pod) -> Value {
    let message = condition(pod, "KruisePodReady")["message"].clone();
    serde_json::from_str(message.as_str().unwrap_or_default()).unwrap_or_default()
}

/// The other is a request to recreate containers, as far as it can be seen in the Pod.
async fn given_two_who_hold_a_pod_not_ready_then_both_have_to_let_go(stage: Arc<Stage>) {
    let set = hooked(web_in_place(1), "inPlaceUpdate").set("/spec/lifecycle/inPlaceUpdate/markPodNotReady", true);
    let before = stage.settled(set).await;
    let name = before.keys().next().unwrap();
    let other = json!([{"userAgent": "ContainerRecreateRequest", "key": "ns/crr"}]);
    stage.patch_pod_status(name, ready_condition("False", &other)).await;
    stage.patch("web", to_image("nginx:2")).await;
    let both = stage
        .until_pod(name, "both hold it", |pod| {
            holders(pod).as_array().map(Vec::len) == Some(2)
        })
        .await;
    assert_eq!(holders(&both)[0], other[0]);

    stage.label_pod(name, HOOK, None).await;
    let one = stage.until_pod(name, "one let go", |pod| state(pod) == "Updated").await;
    assert_eq!(
        (condition(&one, "KruisePodReady")["status"].clone(), holders(&one)),
        (json!("False"), other)
    );
    stage.patch_pod_status(name, ready_condition("True", &json!([]))).await;
    stage.until_pod(name, "it is ready", |pod| is(pod, "Ready")).await;
}

fn ready_condition(status: &str, holders: &Value) -> Value {
    json!({"status": {"conditions": [{"type": "KruisePodReady", "status": status, "message": holders.to_string()}]}})
}

async fn given_a_hook_before_the_beginning_then_a_pod_counts_when_it_is_complete(stage: Arc<Stage>) {
    let hook = json!({"preNormal": {"labelsHandler": {HOOK: "true"}}});
    stage.create(web(1).set("/spec/lifecycle", hook)).await;
    stage
        .status(
            "web",
            json!({"replicas": 1, "readyReplicas": 1, "availableReplicas": 0}),
        )
        .await;
    let pods = stage.pods("web").await;
    assert_eq!(in_state(pods.values(), "PreparingNormal").len(), 1);
    assert_eq!(stage.why("web", "hookWaiting").await["hook"], "preNormal");
    stage.label_pod(pods.keys().next().unwrap(), HOOK, Some("true")).await;
    stage
        .status("web", json!({"replicas": 1, "availableReplicas": 1}))
        .await;
}

async fn given_a_hook_that_nobody_serves_then_others_go_on_within_the_budget(stage: Arc<Stage>) {
    let set = hooked(web_in_place(4), "inPlaceUpdate").set("/spec/updateStrategy/rollingUpdate/maxUnavailable", 2);
    let before = stage.settled(set).await;
    stage.patch("web", to_image("nginx:2")).await;
    let two_wait = || async {
        let pods = stage.until("web", "two have their turn", |pods| {
            in_state(pods.values(), "PreparingUpdate").len() == 2
        });
        in_state(pods.await.values(), "PreparingUpdate")
    };
    // Nobody serves one of the first; somebody serves all others. Which come first is the set's choice.
    let stuck = &two_wait().await[0];
    for _ in 1..before.len() {
        let waiting = two_wait().await;
        let name = waiting.iter().find(|name| *name != stuck).unwrap();
        stage.label_pod(name, HOOK, None).await;
        stage
            .until_pod(name, "it is updated", |pod| state(pod) == "Updated")
            .await;
        stage.label_pod(name, HOOK, Some("true")).await;
    }
    stage
        .status("web", json!({"replicas": 4, "updatedAvailableReplicas": 3}))
        .await;
    let why = stage.why("web", "hookWaiting").await;
    assert_eq!(why["pods"]["names"], json!([stuck]));
    let after = stage.pods("web").await;
    assert_eq!((names(&after), image(&after[stuck])), (names(&before), "nginx:1"));
    assert_eq!(state(&after[stuck]), "PreparingUpdate");
}
