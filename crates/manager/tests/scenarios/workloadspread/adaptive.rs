//! Subsets whose Pods find no node.

use super::{
    Arc, Patch, PatchParams, Scenario, Stage, Value, cloneset, counts, json, scenarios, spread, spread_by, spread_like,
    spreads, subset_of, until_status, zone,
};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_subset_without_nodes_then_its_pods_are_made_again_in_the_next_one,
        given_the_strategy_fixed_then_pods_wait,
    ]
}

async fn given_a_subset_without_nodes_then_its_pods_are_made_again_in_the_next_one(stage: Arc<Stage>) {
    stage.create(cloneset("web").replicas(0)).await;
    let subsets = json!([
        zone("a", "nowhere", json!({"maxReplicas": 2})),
        zone("b", "b", json!({}))
    ]);
    let strategy = json!({"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 3}});
    spread_by(&stage, "CloneSet", subsets, strategy).await;
    stage.patch("web", json!({"spec": {"replicas": 3}})).await;
    stage
        .until("web", "two wait in a", |pods| {
            counts(pods.values()).get("a") == Some(&2)
        })
        .await;
    let status = until_status(&stage, "a takes no Pods", |status| {
        status["subsetStatuses"][0]["conditions"][0]["status"] == "False"
    })
    .await;
    assert_eq!(
        status["subsetStatuses"][0]["conditions"][0]["reason"],
        "PodUnschedulable"
    );
    assert_eq!(status["subsetStatuses"][1]["conditions"][0]["reason"], "Sufficient");
    spread_like(&stage, &[("b", 3)]).await;
    stage.about("WorkloadSpread").why("spread", "subsetUnschedulable").await;
    // As if five minutes had passed.
    let past = "2024-05-01T10:00:00Z";
    let patch = json!({"status": {"subsetStatuses": [
        {"name": "a", "replicas": 0, "missingReplicas": 2, "conditions": [
            {"type": "Schedulable", "status": "False", "reason": "PodUnschedulable", "message": "", "lastTransitionTime": past}]},
        status["subsetStatuses"][1],
    ]}});
    let patched = spreads(&stage)
        .patch_status("spread", &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched.unwrap();
    stage.event("spread", "RecoverSchedulable", "a").await;
    until_status(&stage, "a takes Pods again", |status| {
        status["subsetStatuses"][0]["conditions"][0]["reason"] == "Sufficient"
    })
    .await;
}

async fn given_the_strategy_fixed_then_pods_wait(stage: Arc<Stage>) {
    stage.create(cloneset("web").replicas(0)).await;
    let subsets = json!([
        zone("a", "nowhere", json!({"maxReplicas": 1})),
        zone("b", "b", json!({}))
    ]);
    spread(&stage, "CloneSet", subsets).await;
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    let pods = spread_like(&stage, &[("a", 1), ("b", 1)]).await;
    let (waiting, _) = pods.iter().find(|(_, pod)| subset_of(pod) == "a").unwrap();
    stage
        .until_pod(waiting, "it finds no node", |pod| {
            let status = json!(pod.status);
            status["conditions"].to_string().contains("Unschedulable")
        })
        .await;
    let status = until_status(&stage, "both are counted", |status| {
        status["subsetStatuses"][0]["replicas"] == 1
    })
    .await;
    assert_eq!(status["subsetStatuses"][0]["conditions"], Value::Null);
}
