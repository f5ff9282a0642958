//! What happens to a Pod that is updated in place.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::builders::{Fixture as _, PodBuilder};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{Scenario, Stage, condition, image, is, revision, scenarios, state, to_image, uids, web_in_place};
use crate::cluster::scenario::pod_history::PodsByName;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_another_image_then_the_container_restarts_and_the_pod_is_not_ready_meanwhile,
        given_another_annotation_then_it_appears_and_nothing_restarts,
        given_a_grace_period_then_the_image_changes_at_its_end,
        given_another_change_during_the_grace_period_then_both_are_made_in_turn,
        given_priorities_then_the_higher_container_is_updated_and_ready_first,
        given_a_label_that_two_containers_read_then_both_are_updated_together,
        given_another_tag_of_the_same_image_then_the_update_completes,
        given_an_order_by_label_then_pods_without_it_are_updated_first,
        given_weights_then_the_heaviest_pod_is_updated_first,
    ]
}

fn restarts(pod: &Pod) -> i64 {
    json!(pod.status)["containerStatuses"][0]["restartCount"]
        .as_i64()
        .unwrap_or_default()
}

fn in_place_state(pod: &Pod) -> Value {
    let text = pod.annotations().get("apps.kruise.io/inplace-update-state");
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// The only Pod of each state.
fn only(states: &[PodsByName]) -> impl Iterator<Item = &Pod> {
    states.iter().flat_map(|pods| pods.values())
}

async fn given_another_image_then_the_container_restarts_and_the_pod_is_not_ready_meanwhile(stage: Arc<Stage>) {
    let before = stage.settled(web_in_place(1)).await;
    let history = stage.pod_history("web").await;
    stage.patch("web", to_image("nginx:2")).await;
    let status = stage.status("web", json!({"updatedAvailableReplicas": 1})).await;
    let states = history.end().await;
    let after = stage.pods("web").await;
    assert_eq!(uids(&after), uids(&before));
    let pod = after.values().next().unwrap();
    assert_eq!(
        (restarts(pod), revision(pod)),
        (1, status["updateRevision"].as_str().unwrap())
    );
    assert_eq!(
        in_place_state(pod)["containerBatchesRecord"][0]["containers"],
        json!(["main"])
    );
    // Not ready before anything changes, and until it has changed.
    let gate = |pod: &Pod| condition(pod, "InPlaceUpdateReady");
    let first = only(&states)
        .find(|pod| gate(pod)["status"] == "False")
        .expect("it was not ready");
    assert_eq!(
        (image(first), gate(first)["reason"].as_str()),
        ("nginx:1", Some("StartInPlaceUpdate"))
    );
    assert!(!is(first, "Ready"));
    let changed: Vec<&Pod> = only(&states)
        .filter(|pod| image(pod) == "nginx:2" && restarts(pod) == 0)
        .collect();
    assert!(!changed.is_empty());
    for pod in changed {
        assert_eq!((gate(pod)["status"].as_str(), state(pod)), (Some("False"), "Updating"));
    }
}

async fn given_another_annotation_then_it_appears_and_nothing_restarts(stage: Arc<Stage>) {
    let before = stage.settled(web_in_place(2)).await;
    let annotated = json!({"spec": {"template": {"metadata": {"annotations": {"example.com/a": "1"}}}}});
    stage.patch("web", annotated).await;
    stage.status("web", json!({"updatedAvailableReplicas": 2})).await;
    let after = stage.pods("web").await;
    assert_eq!(uids(&after), uids(&before));
    for pod in after.values() {
        assert_eq!((pod.annotations()["example.com/a"].as_str(), restarts(pod)), ("1", 0));
        let batches = in_place_state(pod)["containerBatchesRecord"].clone();
        assert_eq!(
            (batches.as_array().unwrap().len(), &batches[0]["containers"]),
            (1, &json!([]))
        );
    }
    // And it goes again.
    let plain = json!({"spec": {"template": {"metadata": {"annotations": {"example.com/a": null}}}}});
    stage.patch("web", plain).await;
    stage.status("web", json!({"updatedAvailableReplicas": 2})).await;
    let after = stage.pods("web").await;
    assert!(
        after
            .values()
            .all(|pod| !pod.annotations().contains_key("example.com/a"))
    );
}

const GRACE: &str = "apps.kruise.io/inplace-update-grace";

async fn given_a_grace_period_then_the_image_changes_at_its_end(stage: Arc<Stage>) {
    let grace = json!({"gracePeriodSeconds": 2});
    let set = web_in_place(1).set("/spec/updateStrategy/rollingUpdate/inPlaceUpdateStrategy", grace);
    let before = stage.settled(set).await;
    let history = stage.pod_history("web").await;
    stage.patch("web", to_image("nginx:2")).await;
    let name = before.keys().next().unwrap();
    let waiting = stage
        .until_pod(name, "the grace begins", |pod| pod.annotations().contains_key(GRACE))
        .await;
    assert_eq!(
        (image(&waiting), is(&waiting, "Ready"), state(&waiting)),
        ("nginx:1", false, "Updating")
    );
    stage.why("web", "inGrace").await;
    stage
        .status("web", json!({"updatedReplicas": 1, "updatedAvailableReplicas": 1}))
        .await;
    for pod in only(&history.end().await) {
        assert!(!pod.annotations().contains_key(GRACE) || image(pod) == "nginx:1");
    }
    let after = stage.pods("web").await.into_values().next().unwrap();
    let state = in_place_state(&after);
    let [begun, changed] = [
        &state["updateTimestamp"],
        &state["containerBatchesRecord"][0]["timestamp"],
    ]
    .map(|time| time.as_str().unwrap().parse::<jiff::Timestamp>().unwrap());
    assert!(changed.duration_since(begun).as_secs() >= 2, "{state}");
}

async fn given_another_change_during_the_grace_period_then_both_are_made_in_turn(stage: Arc<Stage>) {
    let grace = json!({"gracePeriodSeconds": 2});
    let set = web_in_place(1).set("/spec/updateStrategy/rollingUpdate/inPlaceUpdateStrategy", grace);
    let before = stage.settled(set).await;
    let history = stage.pod_history("web").await;
    stage.patch("web", to_image("nginx:2")).await;
    let name = before.keys().next().unwrap();
    stage
        .until_pod(name, "the grace begins", |pod| pod.annotations().contains_key(GRACE))
        .await;
    stage.patch("web", to_image("nginx:3")).await;
    stage
        .status("web", json!({"updatedReplicas": 1, "updatedAvailableReplicas": 1}))
        .await;
    let states = history.end().await;
    let mut images: Vec<&str> = only(&states).map(image).collect();
    images.dedup();
    assert_eq!(images, ["nginx:1", "nginx:2", "nginx:3"]);
}

/// A second container, and priorities: `main` 10, `side` 0.
fn two_containers(pod: PodBuilder) -> PodBuilder {
    pod.container("side", "side:1")
        .set(
            "/spec/containers/0/env",
            json!([{"name": "KRUISE_CONTAINER_PRIORITY", "value": "10"}]),
        )
        .script("ready-delay.main", "1s")
}

async fn given_priorities_then_the_higher_container_is_updated_and_ready_first(stage: Arc<Stage>) {
    let before = stage.settled(web_in_place(1).pod(two_containers)).await;
    let history = stage.pod_history("web").await;
    let env = json!([{"name": "KRUISE_CONTAINER_PRIORITY", "value": "10"}]);
    let both = json!([{"name": "main", "image": "nginx:2", "env": env}, {"name": "side", "image": "side:2"}]);
    stage
        .patch("web", json!({"spec": {"template": {"spec": {"containers": both}}}}))
        .await;
    stage.status("web", json!({"updatedAvailableReplicas": 1})).await;
    let after = stage.pods("web").await;
    assert_eq!(uids(&after), uids(&before));
    let batches = in_place_state(after.values().next().unwrap())["containerBatchesRecord"].clone();
    assert_eq!(
        [&batches[0]["containers"], &batches[1]["containers"]],
        [&json!(["main"]), &json!(["side"])]
    );
    let states = history.end().await;
    let side = |pod: &Pod| json!(pod.spec)["containers"][1]["image"].clone();
    assert!(only(&states).any(|pod| image(pod) == "nginx:2" && side(pod) == "side:1"));
    let first = only(&states).find(|pod| side(pod) == "side:2").unwrap();
    let main = json!(first.status)["containerStatuses"][0].clone();
    assert_eq!((&main["image"], &main["ready"]), (&json!("nginx:2"), &json!(true)));
}

/// The node's agent has to say when such an update is complete; here only its beginning is seen.
async fn given_a_label_that_two_containers_read_then_both_are_updated_together(stage: Arc<Stage>) {
    let read = json!({"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['v']"}}});
    let priority = json!({"name": "KRUISE_CONTAINER_PRIORITY", "value": "10"});
    let set = web_in_place(1).pod(|pod| {
        pod.label("v", "1")
            .container("side", "side:1")
            .set("/spec/containers/0/env", json!([priority, read]))
            .set("/spec/containers/1/env", json!([read]))
    });
    stage.settled(set).await;
    stage
        .patch(
            "web",
            json!({"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}),
        )
        .await;
    let pods = stage
        .until("web", "the label changes", |pods| {
            pods.values().all(|pod| pod.labels()["v"] == "2")
        })
        .await;
    let state = in_place_state(pods.values().next().unwrap());
    assert_eq!(
        state["containerBatchesRecord"][0]["containers"],
        json!(["main", "side"])
    );
    assert_eq!(state["updateEnvFromMetadata"], true);
    stage.why("web", "waitingForContainers").await;
}

async fn given_another_tag_of_the_same_image_then_the_update_completes(stage: Arc<Stage>) {
    let set = web_in_place(1).pod(|pod| pod.script("image-id", "nginx@sha256:aa"));
    let before = stage.settled(set).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage.status("web", json!({"updatedAvailableReplicas": 1})).await;
    let after = stage.pods("web").await;
    assert_eq!(uids(&after), uids(&before));
    let id = |pod: &Pod| json!(pod.status)["containerStatuses"][0]["imageID"].clone();
    let (old, new) = (before.values().next().unwrap(), after.values().next().unwrap());
    assert_eq!((id(old), image(new)), (id(new), "nginx:2"));
}

/// Updates one Pod of four, which the strategy chooses; its name.
async fn first_updated(stage: &Stage, strategy: Value) -> String {
    // Pods are seen in the order of their changes: who counts the fourth knows the labels of the others.
    stage.patch("web", json!({"spec": {"replicas": 4}})).await;
    stage.status("web", json!({"availableReplicas": 4})).await;
    let rolling = json!({"updateStrategy": {"rollingUpdate": {"partition": 3, "priorityStrategy": strategy}}});
    stage.patch("web", json!({"spec": rolling})).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .status("web", json!({"updatedReplicas": 1, "availableReplicas": 4}))
        .await;
    let pods = stage.pods("web").await;
    let mut updated = pods.into_iter().filter(|(_, pod)| image(pod) == "nginx:2");
    updated.next().unwrap().0
}

async fn given_an_order_by_label_then_pods_without_it_are_updated_first(stage: Arc<Stage>) {
    let set = web_in_place(3).pod(|pod| pod.label("a", "5"));
    let names: Vec<String> = stage.settled(set).await.into_keys().collect();
    stage.label_pod(&names[1], "a", None).await;
    stage.label_pod(&names[2], "a", Some("7")).await;
    let first = first_updated(&stage, json!({"orderPriority": [{"orderedKey": "a"}]})).await;
    assert_eq!(first, names[1]);
}

async fn given_weights_then_the_heaviest_pod_is_updated_first(stage: Arc<Stage>) {
    let names: Vec<String> = stage.settled(web_in_place(3)).await.into_keys().collect();
    stage.label_pod(&names[0], "a", Some("light")).await;
    stage.label_pod(&names[1], "a", Some("heavy")).await;
    let weight = |weight: u32, label: &str| json!({"weight": weight, "matchSelector": {"matchLabels": {"a": label}}});
    let weights = json!({"weightPriority": [weight(10, "light"), weight(90, "heavy")]});
    assert_eq!(first_updated(&stage, weights).await, names[1]);
}
