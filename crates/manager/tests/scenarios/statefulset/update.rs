//! Rolling updates, recreated and in place.

use std::sync::Arc;

use kruise_testkit::builders::Fixture as _;
use kube::ResourceExt as _;
use serde_json::json;

use super::{Scenario, Stage, image, in_place, ordinals_with, parallel, rolling, scenarios, to_image, web};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_partition_then_the_highest_are_updated_and_zero_finishes,
        given_reserved_ordinals_then_the_partition_counts_pods,
        given_an_image_only_change_then_pods_keep_their_uid,
        given_another_change_then_pods_are_recreated_from_the_top,
        given_a_paused_rollout_then_no_further_pod_begins,
        given_priorities_then_pods_with_weight_come_first,
        given_a_specified_delete_then_the_pod_comes_back_with_its_ordinal_and_revision,
        given_many_templates_then_old_revisions_are_limited_and_a_rollback_reuses_one,
        given_ordered_ready_then_pods_are_updated_from_the_top_one_after_another,
        given_a_pod_that_is_not_available_then_it_counts_and_is_replaced_first_class,
        given_an_update_in_place_then_the_pod_is_not_ready_meanwhile_and_its_container_restarts,
        given_in_place_if_possible_and_another_environment_then_pods_are_recreated,
        given_a_pause_in_the_middle_then_what_has_begun_is_finished,
    ]
}

async fn given_a_partition_then_the_highest_are_updated_and_zero_finishes(stage: Arc<Stage>) {
    stage.settled(parallel(5)).await;
    stage.patch("web", rolling("partition", 2)).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .status(
            "web",
            json!({"updatedReplicas": 3, "currentReplicas": 2, "availableReplicas": 5}),
        )
        .await;
    assert_eq!(ordinals_with(&stage.pods("web").await, "nginx:2"), [2, 3, 4]);
    stage.patch("web", rolling("partition", 0)).await;
    let status = stage
        .status("web", json!({"updatedReplicas": 5, "availableReplicas": 5}))
        .await;
    let update = status["updateRevision"].clone();
    stage.status("web", json!({"currentRevision": update})).await;
}

async fn given_reserved_ordinals_then_the_partition_counts_pods(stage: Arc<Stage>) {
    let set = parallel(4)
        .set("/spec/reserveOrdinals", json!([0]))
        .set("/spec/updateStrategy/rollingUpdate/partition", 2);
    stage.settled(set).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .status("web", json!({"updatedReplicas": 2, "availableReplicas": 4}))
        .await;
    assert_eq!(ordinals_with(&stage.pods("web").await, "nginx:2"), [3, 4]);
}

async fn given_an_image_only_change_then_pods_keep_their_uid(stage: Arc<Stage>) {
    let before = stage.settled(in_place(3)).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .status("web", json!({"updatedReplicas": 3, "updatedAvailableReplicas": 3}))
        .await;
    let after = stage.pods("web").await;
    for (name, pod) in &after {
        assert_eq!((pod.uid(), image(pod)), (before[name].uid(), "nginx:2"));
    }
    stage.event("web", "SuccessfulUpdatePodInPlace", "web-2").await;
}

async fn given_another_change_then_pods_are_recreated_from_the_top(stage: Arc<Stage>) {
    let before = stage.settled(web(2)).await;
    let container = json!({"name": "main", "image": "nginx:1", "env": [{"name": "A", "value": "b"}]});
    stage
        .patch(
            "web",
            json!({"spec": {"template": {"spec": {"containers": [container]}}}}),
        )
        .await;
    stage
        .until("web", "the top one is new", |pods| {
            pods.get("web-1").is_some_and(|pod| pod.uid() != before["web-1"].uid())
        })
        .await;
    stage
        .status("web", json!({"updatedReplicas": 2, "availableReplicas": 2}))
        .await;
    let after = stage.pods("web").await;
    assert!(after.iter().all(|(name, pod)| pod.uid() != before[name].uid()));
}

async fn given_a_paused_rollout_then_no_further_pod_begins(stage: Arc<Stage>) {
    stage.settled(parallel(2)).await;
    stage.patch("web", rolling("paused", true)).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage.why("web", "paused").await;
    assert!(stage.pods("web").await.values().all(|pod| image(pod) != "nginx:2"));
    stage.patch("web", rolling("paused", false)).await;
    stage
        .status("web", json!({"updatedReplicas": 2, "availableReplicas": 2}))
        .await;
}

async fn given_priorities_then_pods_with_weight_come_first(stage: Arc<Stage>) {
    let weights = json!([{"weight": 50, "matchSelector": {"matchLabels": {"zone": "a"}}}]);
    let rules = json!({"partition": 2, "unorderedUpdate": {"priorityStrategy": {"weightPriority": weights}}});
    stage
        .settled(parallel(3).set("/spec/updateStrategy/rollingUpdate", rules))
        .await;
    stage.label_pod("web-0", "zone", Some("a")).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .status("web", json!({"updatedReplicas": 1, "availableReplicas": 3}))
        .await;
    assert_eq!(ordinals_with(&stage.pods("web").await, "nginx:2"), [0]);
}

async fn given_a_specified_delete_then_the_pod_comes_back_with_its_ordinal_and_revision(stage: Arc<Stage>) {
    let before = stage
        .settled(parallel(3).set("/spec/updateStrategy/rollingUpdate/partition", 3))
        .await;
    stage
        .label_pod("web-1", "apps.kruise.io/specified-delete", Some("true"))
        .await;
    let old = before["web-1"].uid();
    let after = stage
        .until("web", "it is back", |pods| {
            pods.get("web-1").is_some_and(|pod| pod.uid() != old)
        })
        .await;
    let revision = "controller-revision-hash";
    assert_eq!(after["web-1"].labels()[revision], before["web-1"].labels()[revision]);
}

async fn given_many_templates_then_old_revisions_are_limited_and_a_rollback_reuses_one(stage: Arc<Stage>) {
    stage.settled(in_place(1).set("/spec/revisionHistoryLimit", 2)).await;
    for number in 2..7 {
        stage.patch("web", to_image(&format!("nginx:{number}"))).await;
        stage
            .status("web", json!({"updatedReplicas": 1, "availableReplicas": 1}))
            .await;
    }
    kruise_testkit::eventually::eventually(super::PATIENCE, "old revisions go", || async {
        let count = stage.revisions().await.len();
        (count == 3)
            .then_some(())
            .ok_or_else(|| kruise_testkit::eventually::NotYet::new(count.to_string()))
    })
    .await;
    let names = |all: &[k8s_openapi::api::apps::v1::ControllerRevision]| -> std::collections::BTreeSet<String> {
        all.iter().map(kube::ResourceExt::name_any).collect()
    };
    let before = names(&stage.revisions().await);
    stage.patch("web", to_image("nginx:5")).await;
    stage
        .status("web", json!({"updatedReplicas": 1, "availableReplicas": 1}))
        .await;
    assert_eq!(names(&stage.revisions().await), before);
}

async fn given_ordered_ready_then_pods_are_updated_from_the_top_one_after_another(stage: Arc<Stage>) {
    let before = stage.settled(web(5).image("nginx:1")).await;
    stage.patch("web", rolling("partition", 5)).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .status("web", json!({"updatedReplicas": 0, "currentReplicas": 5}))
        .await;
    stage.why("web", "partition").await;
    let after = stage.pods("web").await;
    assert!(after.iter().all(|(name, pod)| pod.uid() == before[name].uid()));
    let history = stage.pod_history("web").await;
    stage.patch("web", rolling("partition", 2)).await;
    stage
        .status("web", json!({"updatedReplicas": 3, "availableReplicas": 5}))
        .await;
    let mut updated: Vec<Vec<i32>> = history
        .end()
        .await
        .iter()
        .map(|pods| ordinals_with(pods, "nginx:2"))
        .collect();
    updated.dedup();
    assert_eq!(updated, [vec![], vec![4], vec![3, 4], vec![2, 3, 4]]);
}

async fn given_a_pod_that_is_not_available_then_it_counts_and_is_replaced_first_class(stage: Arc<Stage>) {
    let rules = json!({"maxUnavailable": 2, "partition": 1});
    let set = parallel(4).set("/spec/updateStrategy/rollingUpdate", rules);
    stage.settled(set.image("nginx:1")).await;
    for pod in ["web-0", "web-1"] {
        stage.script_pod(pod, "never-ready", Some("true")).await;
    }
    stage.status("web", json!({"readyReplicas": 2})).await;
    stage.patch("web", to_image("nginx:2")).await;
    // Two are unavailable already: no healthy Pod may go, and those are not next.
    let why = stage.why("web", "updateBudget").await;
    assert_eq!((&why["allowed"], &why["unavailable"]), (&json!(2), &json!(2)), "{why}");
    assert!(ordinals_with(&stage.pods("web").await, "nginx:2").is_empty());
    let history = stage.pod_history("web").await;
    stage.script_pod("web-0", "never-ready", None).await;
    stage
        .status("web", json!({"updatedReplicas": 3, "availableReplicas": 4}))
        .await;
    // One at a time of those that were healthy, until the one that was not has been replaced.
    for pods in history.end().await {
        let healthy = pods.values().filter(|pod| super::is_ready(pod)).count();
        assert!(healthy >= 2, "{:?}", pods.keys());
    }
    assert_eq!(ordinals_with(&stage.pods("web").await, "nginx:2"), [1, 2, 3]);
}

async fn given_an_update_in_place_then_the_pod_is_not_ready_meanwhile_and_its_container_restarts(stage: Arc<Stage>) {
    stage.settled(in_place(1).image("nginx:1")).await;
    let history = stage.pod_history("web").await;
    stage.patch("web", to_image("nginx:2")).await;
    stage.status("web", json!({"updatedAvailableReplicas": 1})).await;
    let mut states: Vec<(String, String)> = Vec::new();
    for pods in history.end().await {
        let pod = &pods["web-0"];
        let status = json!(pod.status);
        let conditions = status["conditions"].as_array().unwrap();
        let gate = conditions
            .iter()
            .find(|condition| condition["type"] == "InPlaceUpdateReady");
        let gate = gate.and_then(|gate| gate["status"].as_str()).unwrap_or_default();
        states.push((gate.to_owned(), image(pod).to_owned()));
    }
    states.dedup();
    let state = |gate: &str, image: &str| (gate.to_owned(), image.to_owned());
    let expected = [
        state("True", "nginx:1"),
        state("False", "nginx:1"),
        state("False", "nginx:2"),
        state("True", "nginx:2"),
    ];
    assert_eq!(states, expected);
    let status = json!(stage.pods("web").await["web-0"].status);
    assert_eq!(status["containerStatuses"][0]["restartCount"], 1);
}

async fn given_in_place_if_possible_and_another_environment_then_pods_are_recreated(stage: Arc<Stage>) {
    let before = stage.settled(in_place(2)).await;
    let container = json!({"name": "main", "image": "nginx:1", "env": [{"name": "A", "value": "b"}]});
    let change = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    stage.patch("web", change).await;
    stage
        .status("web", json!({"updatedReplicas": 2, "availableReplicas": 2}))
        .await;
    let after = stage.pods("web").await;
    assert!(after.iter().all(|(name, pod)| pod.uid() != before[name].uid()));
}

async fn given_a_pause_in_the_middle_then_what_has_begun_is_finished(stage: Arc<Stage>) {
    let set = in_place(3).image("nginx:1").pod(|pod| pod.script("pull-delay", "2s"));
    let before = stage.settled(set).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .until_pod("web-2", "it has begun", |pod| image(pod) == "nginx:2")
        .await;
    stage.patch("web", rolling("paused", true)).await;
    stage.why("web", "paused").await;
    // What began before the pause was seen goes on; nothing begins after that.
    let begun = ordinals_with(&stage.pods("web").await, "nginx:2");
    stage
        .status(
            "web",
            json!({"updatedAvailableReplicas": begun.len(), "availableReplicas": 3}),
        )
        .await;
    assert_eq!(ordinals_with(&stage.pods("web").await, "nginx:2"), begun);
    assert!(begun.len() < 3, "{begun:?}");
    stage.patch("web", rolling("paused", false)).await;
    stage.status("web", json!({"updatedAvailableReplicas": 3})).await;
    let after = stage.pods("web").await;
    assert!(after.iter().all(|(name, pod)| pod.uid() == before[name].uid()));
}
