//! Rollouts: what is replaced, what stays, and how far it goes.

use std::{collections::BTreeSet, sync::Arc};

use kruise_testkit::builders::Fixture as _;
use serde_json::{Value, json};

use super::{Scenario, Stage, image, is, names, revision, rolling, scenarios, to_image, uids, web, web_in_place};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_bad_image_and_one_that_may_be_unavailable_then_one_pod_is_lost_and_no_more,
        given_surge_then_no_pod_goes_before_its_successor_is_available,
        given_a_pause_then_nothing_is_updated_but_scaling_works,
        given_on_delete_then_pods_are_replaced_when_somebody_deletes_them,
        given_in_place_only_and_a_change_that_is_not_possible_then_it_says_so_and_touches_nothing,
        given_in_place_only_through_v1alpha1_then_such_a_change_is_refused,
        given_names_of_others_through_v1alpha1_then_they_are_refused,
        given_numbers_that_mean_nothing_then_they_are_refused,
        given_another_image_of_an_init_container_then_pods_are_made_anew,
    ]
}

fn env(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [
        {"name": "main", "image": image, "env": [{"name": "A", "value": "1"}]}
    ]}}}})
}

async fn given_a_bad_image_and_one_that_may_be_unavailable_then_one_pod_is_lost_and_no_more(stage: Arc<Stage>) {
    let set = web(5).set("/spec/updateStrategy/rollingUpdate/maxUnavailable", 1);
    let set = set.pod(|pod| pod.script("pull-error", "nginx:bad"));
    let before = names(&stage.settled(set).await);
    stage.patch("web", to_image("nginx:bad")).await;
    let stuck = json!({"replicas": 5, "updatedReplicas": 1, "readyReplicas": 4, "updatedReadyReplicas": 0});
    stage.status("web", stuck).await;
    let why = stage.why("web", "updateBudget").await;
    assert_eq!((&why["allowed"], &why["waiting"]), (&json!(1), &json!(4)));
    assert_eq!(names(&stage.pods("web").await).intersection(&before).count(), 4);
    stage
        .event(
            "web",
            "SuccessfulUpdatePodReCreate",
            "specified-delete for update(revision web-",
        )
        .await;

    // A good image gets it going: the broken Pod goes first.
    stage.patch("web", to_image("nginx:good")).await;
    let done = json!({"replicas": 5, "updatedAvailableReplicas": 5});
    stage.status("web", done).await;
}

async fn given_surge_then_no_pod_goes_before_its_successor_is_available(stage: Arc<Stage>) {
    let strategy = json!({"maxUnavailable": 0, "maxSurge": 1});
    let set = web(3).set("/spec/updateStrategy/rollingUpdate", strategy);
    let before = stage.settled(set).await;
    let history = stage.pod_history("web").await;
    stage.patch("web", to_image("nginx:2")).await;
    let done = json!({"replicas": 3, "updatedAvailableReplicas": 3});
    stage.status("web", done).await;
    let after = stage.pods("web").await;
    assert!(uids(&before).is_disjoint(&uids(&after)));
    let states = history.end().await;
    for pods in &states {
        let available = pods.values().filter(|pod| is(pod, "Ready")).count();
        assert!((3..=4).contains(&pods.len()) && available >= 3, "{:?}", names(pods));
    }
    assert!(states.iter().any(|pods| pods.len() == 4));
}

async fn given_a_pause_then_nothing_is_updated_but_scaling_works(stage: Arc<Stage>) {
    let set = web_in_place(4).set("/spec/updateStrategy/rollingUpdate/maxUnavailable", 1);
    // The first Pod is on its way when the pause begins.
    let set = set.pod(|pod| pod.script("ready-delay", "1s"));
    stage.settled(set).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .until("web", "one is updated", |pods| {
            pods.values().any(|pod| image(pod) == "nginx:2")
        })
        .await;
    stage.patch("web", rolling("paused", true)).await;
    stage.why("web", "paused").await;
    stage
        .status("web", json!({"replicas": 4, "availableReplicas": 4}))
        .await;
    let updated: BTreeSet<String> = at_image(&stage, "nginx:2").await;
    assert!(updated.len() < 4, "{updated:?}");
    // Surge comes to nothing while paused.
    stage.patch("web", rolling("maxSurge", 2)).await;
    stage.patch("web", json!({"spec": {"replicas": 5}})).await;
    stage
        .status("web", json!({"replicas": 5, "availableReplicas": 5}))
        .await;
    assert_eq!(at_image(&stage, "nginx:1").await.len(), 4 - updated.len());
    stage.patch("web", rolling("paused", false)).await;
    stage
        .status("web", json!({"replicas": 5, "updatedAvailableReplicas": 5}))
        .await;
}

async fn at_image(stage: &Stage, wanted: &str) -> BTreeSet<String> {
    let pods = stage.pods("web").await.into_iter();
    pods.filter(|(_, pod)| image(pod) == wanted)
        .map(|(name, _)| name)
        .collect()
}

async fn given_on_delete_then_pods_are_replaced_when_somebody_deletes_them(stage: Arc<Stage>) {
    let before = stage
        .settled(web(2).set("/spec/updateStrategy", json!({"type": "OnDelete"})))
        .await;
    stage.patch("web", to_image("nginx:2")).await;
    stage.status("web", json!({"replicas": 2, "updatedReplicas": 0})).await;
    assert_eq!(stage.why("web", "onDelete").await["outdated"], 2);
    assert_eq!(uids(&stage.pods("web").await), uids(&before));
    let chosen = before.keys().next().unwrap();
    stage.delete_pod(chosen).await;
    let status = stage
        .status(
            "web",
            json!({"replicas": 2, "updatedReplicas": 1, "availableReplicas": 2}),
        )
        .await;
    let new = stage
        .pods("web")
        .await
        .into_iter()
        .find(|(name, _)| !before.contains_key(name))
        .unwrap()
        .1;
    assert_eq!(
        (image(&new), revision(&new)),
        ("nginx:2", status["updateRevision"].as_str().unwrap())
    );
}

async fn given_in_place_only_and_a_change_that_is_not_possible_then_it_says_so_and_touches_nothing(stage: Arc<Stage>) {
    let only = "/spec/updateStrategy/rollingUpdate/podUpdatePolicy";
    let before = stage.settled(web(2).set(only, "InPlaceOnly")).await;
    stage.patch("web", env("nginx:1")).await;
    let status = stage.condition("web", "FailedUpdate", "True").await;
    assert!(status["message"].as_str().unwrap().contains("env"), "{status}");
    stage.why("web", "notInPlace").await;
    stage
        .status(
            "web",
            json!({"replicas": 2, "updatedReplicas": 0, "availableReplicas": 2}),
        )
        .await;
    assert_eq!(uids(&stage.pods("web").await), uids(&before));
    // What is possible is done.
    stage.patch("web", json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2", "env": null}]}}}})).await;
    stage
        .status("web", json!({"replicas": 2, "updatedAvailableReplicas": 2}))
        .await;
    assert_eq!(uids(&stage.pods("web").await), uids(&before));
}

async fn given_in_place_only_through_v1alpha1_then_such_a_change_is_refused(stage: Arc<Stage>) {
    let only = "/spec/updateStrategy/rollingUpdate/podUpdatePolicy";
    stage.settled(web(1).set(only, "InPlaceOnly")).await;
    let refusal = stage
        .patch_v1alpha1("web", env("nginx:1"))
        .await
        .unwrap_err()
        .to_string();
    assert!(refusal.contains("only allowed to update"), "{refusal}");
}

async fn given_names_of_others_through_v1alpha1_then_they_are_refused(stage: Arc<Stage>) {
    stage.settled(web(1)).await;
    let other = stage
        .settled(kruise_testkit::builders::cloneset("other").replicas(1))
        .await;
    for name in [other.keys().next().unwrap().as_str(), "never-was"] {
        let named = json!({"spec": {"scaleStrategy": {"podsToDelete": [name]}}});
        let refusal = stage.patch_v1alpha1("web", named).await.unwrap_err().to_string();
        assert!(refusal.contains("podsToDelete") && refusal.contains(name), "{refusal}");
    }
}

async fn given_numbers_that_mean_nothing_then_they_are_refused(stage: Arc<Stage>) {
    for (field, value) in [
        ("maxUnavailable", json!("5")),
        ("partition", json!("5")),
        ("maxSurge", json!("many")),
    ] {
        let set = web(1).set(&format!("/spec/updateStrategy/rollingUpdate/{field}"), value);
        let refusal = stage.try_create(set).await.unwrap_err().to_string();
        assert!(
            refusal.contains(&format!("spec.updateStrategy.rollingUpdate.{field}")),
            "{refusal}"
        );
    }
}

async fn given_another_image_of_an_init_container_then_pods_are_made_anew(stage: Arc<Stage>) {
    let init = |set: kruise_testkit::builders::Workload| set.pod(|pod| pod.init_container("first", "busybox:1"));
    let before = stage.settled(init(web_in_place(2))).await;
    let change = json!({"spec": {"template": {"spec": {"initContainers": [{"name": "first", "image": "busybox:2"}]}}}});
    stage.patch("web", change.clone()).await;
    stage
        .status("web", json!({"replicas": 2, "updatedAvailableReplicas": 2}))
        .await;
    assert!(uids(&before).is_disjoint(&uids(&stage.pods("web").await)));
}
