//! How the Pods are divided among the subsets.

use std::sync::Arc;

use serde_json::json;

use super::{CLONE_SET, DEPLOYMENT, Scenario, Stage, create, divided, entry, scale, scenarios, settled, spec};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_nothing_specified_then_the_rest_goes_to_the_last,
        given_a_share_then_halves_are_rounded_up,
        given_all_specified_when_scaled_to_less_then_people_are_told_and_nothing_is_touched,
        given_limits_then_minima_come_first,
        given_an_autoscaler_then_it_finds_the_pods_and_scales_them,
    ]
}

async fn given_nothing_specified_then_the_rest_goes_to_the_last(stage: Arc<Stage>) {
    let abc = json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]);
    settled(&stage, &spec(CLONE_SET, 5, abc)).await;
    divided(&stage, CLONE_SET, &[("a", 1), ("b", 2), ("c", 2)]).await;
    stage
        .event("web", "SuccessfulUpdateSubset", "Create 3 Subset (CloneSet)")
        .await;
    stage.patch("web", json!({"spec": {"replicas": 6}})).await;
    divided(&stage, CLONE_SET, &[("a", 2), ("b", 2), ("c", 2)]).await;
    let status = stage.status("web", json!({"replicas": 6, "readyReplicas": 6})).await;
    assert_eq!(entry(&status, "a")["replicas"], 2);
}

async fn given_a_share_then_halves_are_rounded_up(stage: Arc<Stage>) {
    let subsets = json!([{"name": "a", "replicas": "20%"}, {"name": "b"}, {"name": "c"}]);
    create(&stage, &spec(CLONE_SET, 10, subsets)).await;
    divided(&stage, CLONE_SET, &[("a", 2), ("b", 4), ("c", 4)]).await;
    stage.patch("web", json!({"spec": {"replicas": 12}})).await;
    divided(&stage, CLONE_SET, &[("a", 2), ("b", 5), ("c", 5)]).await;
    stage.patch("web", json!({"spec": {"replicas": 13}})).await;
    divided(&stage, CLONE_SET, &[("a", 3), ("b", 5), ("c", 5)]).await;
}

async fn given_all_specified_when_scaled_to_less_then_people_are_told_and_nothing_is_touched(stage: Arc<Stage>) {
    let subsets = json!([{"name": "a", "replicas": 6}, {"name": "b", "replicas": 4}]);
    settled(&stage, &spec(DEPLOYMENT, 10, subsets)).await;
    scale(&stage, 8).await;
    stage
        .event("web", "Failed SpecifySubsetReplicas", "ask for 10 Pods")
        .await;
    let why = stage.why("web", "indivisible").await;
    assert!(why["message"].is_string());
    stage.status("web", json!({"replicas": 10, "readyReplicas": 10})).await;
    divided(&stage, DEPLOYMENT, &[("a", 6), ("b", 4)]).await;
}

async fn given_limits_then_minima_come_first(stage: Arc<Stage>) {
    let subsets = json!([{"name": "a", "minReplicas": 2, "maxReplicas": 4}, {"name": "b", "minReplicas": 2}]);
    create(&stage, &spec(CLONE_SET, 5, subsets)).await;
    for (total, a, b) in [(5, 3, 2), (3, 2, 1), (9, 4, 5)] {
        scale(&stage, total).await;
        divided(&stage, CLONE_SET, &[("a", a), ("b", b)]).await;
    }
}

async fn given_an_autoscaler_then_it_finds_the_pods_and_scales_them(stage: Arc<Stage>) {
    settled(&stage, &spec(CLONE_SET, 2, json!([{"name": "a"}, {"name": "b"}]))).await;
    let found = stage.subjects.get_scale("web").await.unwrap();
    let status = found.status.unwrap();
    assert_eq!((status.replicas, status.selector.as_deref()), (2, Some("app=web")));
    scale(&stage, 4).await;
    stage.status("web", json!({"replicas": 4, "readyReplicas": 4})).await;
    divided(&stage, CLONE_SET, &[("a", 2), ("b", 2)]).await;
}
