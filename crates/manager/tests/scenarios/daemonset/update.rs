//! How Pods get to a new template.

use super::*;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_max_unavailable_then_nodes_are_replaced_one_at_a_time,
        given_half_may_be_unavailable_then_two_of_three_go_at_a_time,
        given_max_surge_then_the_new_pod_is_there_before_the_old_one_goes,
        given_max_surge_and_an_old_pod_that_is_not_ready_then_no_budget_is_needed,
        given_in_place_then_pods_are_kept_and_another_change_replaces_them,
        given_a_partition_then_the_last_node_is_updated_first,
        given_a_selector_then_only_its_nodes_are_updated,
        given_paused_then_only_deleted_pods_change,
        given_on_delete_then_pods_change_when_they_are_deleted,
        given_a_pre_delete_hook_then_the_pod_waits_for_it,
        given_a_history_limit_then_old_revisions_go,
    ]
}

/// Pods that are ready.
fn ready(pods: &BTreeMap<String, Pod>) -> usize {
    let is_ready = |pod: &&Pod| {
        let conditions = json!(pod.status)["conditions"].clone();
        let all = conditions.as_array().cloned().unwrap_or_default();
        all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    pods.values().filter(is_ready).count()
}

async fn replaced_at_a_time(stage: Arc<Stage>, unavailable: Value, at_a_time: usize) {
    let field = Field::with(stage, 3).await;
    let before = field
        .settled(field.agent().set(ROLLING, json!({"maxUnavailable": unavailable})))
        .await;
    let history = field.stage.pod_history("agent").await;
    field.stage.patch("agent", to_image("agent:2")).await;
    field.updated(3).await;
    for pods in history.end().await {
        let old_ready = ready(&pods);
        assert!(old_ready + at_a_time >= 3, "{}", field.shown(&pods));
    }
    let after = field.stage.pods("agent").await;
    assert_eq!(field.shown(&after), "0=2 1=2 2=2");
    assert!(uids(&after).iter().all(|uid| !uids(&before).contains(uid)));
    field.end().await;
}

async fn given_max_unavailable_then_nodes_are_replaced_one_at_a_time(stage: Arc<Stage>) {
    replaced_at_a_time(stage, json!(1), 1).await;
}

async fn given_half_may_be_unavailable_then_two_of_three_go_at_a_time(stage: Arc<Stage>) {
    replaced_at_a_time(stage, json!("50%"), 2).await;
}

async fn given_max_surge_then_the_new_pod_is_there_before_the_old_one_goes(stage: Arc<Stage>) {
    let field = Field::with(stage, 3).await;
    field.settled(field.agent().set(ROLLING, json!({"maxSurge": 1}))).await;
    let history = field.stage.pod_history("agent").await;
    let change = json!({"spec": {"minReadySeconds": 1}});
    field.stage.patch("agent", change).await;
    // Old Pods that are not available would need no budget.
    let available = json!({"observedGeneration": 2, "numberAvailable": 3});
    field.stage.status("agent", available).await;
    field.stage.patch("agent", to_image("agent:2")).await;
    field.updated(3).await;
    let mut most = 0;
    for pods in history.end().await {
        assert!(ready(&pods) >= 3, "{}", field.shown(&pods));
        most = most.max(pods.len());
    }
    assert_eq!(most, 4);
    field.end().await;
}

async fn given_max_surge_and_an_old_pod_that_is_not_ready_then_no_budget_is_needed(stage: Arc<Stage>) {
    let field = Field::with(stage, 3).await;
    let pods = field.settled(field.agent().set(ROLLING, json!({"maxSurge": 1}))).await;
    for name in pods.keys() {
        field.stage.script_pod(name, "never-ready", Some("true")).await;
    }
    field.stage.status("agent", json!({"numberReady": 0})).await;
    // None of the new ones becomes ready either, so that with a budget there would be one.
    let stuck = json!({"spec": {"template": {"metadata": {"annotations": {"sim.kruise.test/never-ready": "true"}},
        "spec": {"containers": [{"name": "main", "image": "agent:2"}]}}}});
    field.stage.patch("agent", stuck).await;
    field.until("0=2 1=2 2=2").await;
    field.end().await;
}

async fn given_in_place_then_pods_are_kept_and_another_change_replaces_them(stage: Arc<Stage>) {
    let field = Field::with(stage, 3).await;
    let before = field.settled(field.in_place()).await;
    field.stage.patch("agent", to_image("agent:2")).await;
    field.updated(3).await;
    let after = field.until("0=2 1=2 2=2").await;
    assert_eq!(uids(&after), uids(&before));
    field
        .stage
        .event("agent", "SuccessfulUpdatePodInPlace", "in-place")
        .await;
    let env = json!([{"name": "main", "image": "agent:2", "env": [{"name": "A", "value": "1"}]}]);
    let change = json!({"spec": {"template": {"spec": {"containers": env}}}});
    field.stage.patch("agent", change).await;
    field.updated(3).await;
    let after = field.stage.pods("agent").await;
    assert!(uids(&after).iter().all(|uid| !uids(&before).contains(uid)));
    field.end().await;
}

async fn given_a_partition_then_the_last_node_is_updated_first(stage: Arc<Stage>) {
    let field = Field::with(stage, 3).await;
    field
        .settled(field.in_place().set(&format!("{ROLLING}/partition"), 2))
        .await;
    field.stage.patch("agent", to_image("agent:2")).await;
    field.until("0=1 1=1 2=2").await;
    assert_eq!(field.stage.why("agent", "partition").await["keeps"], 2);
    field.stage.patch("agent", rolling(&json!({"partition": "34%"}))).await;
    field.until("0=1 1=2 2=2").await;
    field.stage.patch("agent", rolling(&json!({"partition": 0}))).await;
    field.updated(3).await;
    field.end().await;
}

async fn given_a_selector_then_only_its_nodes_are_updated(stage: Arc<Stage>) {
    let field = Field::with(stage, 3).await;
    let canary = json!({"metadata": {"labels": {"canary": "true"}}});
    field.patch_node(1, canary.clone()).await;
    let chosen = json!({"matchLabels": {"canary": "true"}});
    field
        .settled(field.in_place().set(&format!("{ROLLING}/selector"), chosen))
        .await;
    field.stage.patch("agent", to_image("agent:2")).await;
    field.until("0=1 1=2 2=1").await;
    field.stage.why("agent", "nodesNotSelected").await;
    // A label alone has the set go on.
    field.patch_node(0, canary).await;
    field.until("0=2 1=2 2=1").await;
    field.end().await;
}

async fn given_paused_then_only_deleted_pods_change(stage: Arc<Stage>) {
    let field = Field::with(stage, 2).await;
    let set = field.agent().set(ROLLING, json!({"maxUnavailable": 1, "paused": true}));
    only_deleted_pods_change(field, set, "paused").await;
}

async fn given_on_delete_then_pods_change_when_they_are_deleted(stage: Arc<Stage>) {
    let field = Field::with(stage, 2).await;
    let set = field.agent().set("/spec/updateStrategy", json!({"type": "OnDelete"}));
    only_deleted_pods_change(field, set, "onDelete").await;
}

async fn only_deleted_pods_change(field: Field, set: Workload, reason: &str) {
    let pods = field.settled(set).await;
    field.stage.patch("agent", to_image("agent:2")).await;
    field.stage.why("agent", reason).await;
    field
        .stage
        .status("agent", json!({"updatedNumberScheduled": 0, "numberAvailable": 2}))
        .await;
    let last = field.nodes.names().swap_remove(1);
    let (name, _) = pods.iter().find(|(_, pod)| node(pod) == last).unwrap();
    field.stage.delete_pod(name).await;
    field.until("0=1 1=2").await;
    field.end().await;
}

async fn given_a_pre_delete_hook_then_the_pod_waits_for_it(stage: Arc<Stage>) {
    let field = Field::with(stage, 2).await;
    let set = field
        .agent()
        .pod(|pod| pod.label("hook", "on"))
        .set("/spec/lifecycle/preDelete/labelsHandler/hook", "on");
    field.settled(set).await;
    field.stage.patch("agent", to_image("agent:2")).await;
    let state = |pod: &Pod| {
        pod.labels()
            .get("lifecycle.apps.kruise.io/state")
            .cloned()
            .unwrap_or_default()
    };
    for _ in 0..2 {
        let held =
            |pods: &BTreeMap<String, Pod>| pods.values().filter(|pod| state(pod) == "PreparingDelete").count() == 1;
        let pods = field.stage.until("agent", "one waits for its hook", held).await;
        field.stage.why("agent", "hookWaiting").await;
        let (name, _) = pods.iter().find(|(_, pod)| state(pod) == "PreparingDelete").unwrap();
        field.stage.label_pod(name, "hook", None).await;
        field.stage.gone(name).await;
    }
    field.updated(2).await;
    field.end().await;
}

async fn given_a_history_limit_then_old_revisions_go(stage: Arc<Stage>) {
    let field = Field::with(stage, 1).await;
    field
        .settled(field.in_place().set("/spec/revisionHistoryLimit", 1))
        .await;
    for image in ["agent:2", "agent:3", "agent:4"] {
        field.stage.patch("agent", to_image(image)).await;
        field.updated(1).await;
    }
    let left = || async {
        let revisions = field.stage.revisions().await;
        let numbers: Vec<i64> = revisions.iter().filter_map(|revision| revision.revision).collect();
        (numbers == [3, 4])
            .then_some(())
            .ok_or_else(|| kruise_testkit::eventually::NotYet::new(format!("{numbers:?}")))
    };
    let patience = crate::cluster::scenario::PATIENCE;
    kruise_testkit::eventually::eventually(patience, "two revisions are left", left).await;
    field.end().await;
}
