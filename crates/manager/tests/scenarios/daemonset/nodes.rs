//! Which nodes have a Pod.

use super::*;
use kube::api::{DeleteParams, PostParams};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_three_nodes_then_each_has_a_pod_that_names_it_and_tolerates_trouble,
        given_taints_that_come_later_then_pods_stay_or_go,
        given_a_cordoned_node_then_it_gets_a_pod,
        given_a_node_selector_that_excludes_a_node_then_its_pod_goes,
        given_nodes_that_come_and_go_then_pods_follow,
        given_partitioned_scaling_then_pods_come_step_by_step,
        given_a_pod_that_fails_then_its_node_waits_and_events_tell_it,
        given_burst_replicas_then_pods_come_in_rounds,
        given_two_pods_on_a_node_then_the_newer_goes,
        given_two_sets_with_one_host_port_then_the_schedulers_reason_is_told,
        given_a_pending_pod_when_its_node_goes_then_it_goes_too,
        given_a_node_that_is_made_again_under_its_name_then_it_has_one_pod,
    ]
}

async fn given_three_nodes_then_each_has_a_pod_that_names_it_and_tolerates_trouble(stage: Arc<Stage>) {
    let field = Field::with(stage, 3).await;
    let pods = field.settled(field.agent()).await;
    assert_eq!(field.shown(&pods), "0=1 1=1 2=1");
    let status = field
        .stage
        .status("agent", json!({"updatedNumberScheduled": 3, "numberReady": 3}))
        .await;
    for pod in pods.values() {
        let spec = json!(pod.spec);
        assert!(spec["tolerations"].as_array().unwrap().len() >= 6, "{spec:#}");
        assert_eq!(
            pod.labels()["controller-revision-hash"],
            status["updateRevision"].as_str().unwrap()
        );
        assert!(!pod.labels().contains_key("lifecycle.apps.kruise.io/state"));
    }
    field
        .stage
        .event("agent", "SuccessfulCreate", "Created pod: agent-")
        .await;
    field.end().await;
}

async fn given_taints_that_come_later_then_pods_stay_or_go(stage: Arc<Stage>) {
    let field = Field::with(stage, 3).await;
    field.settled(field.agent()).await;
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "full", "effect": effect}]}});
    field.patch_node(1, taint("NoSchedule")).await;
    let kept = json!({"desiredNumberScheduled": 2, "numberMisscheduled": 1});
    field.stage.status("agent", kept).await;
    assert_eq!(field.stage.pods("agent").await.len(), 3);
    field.stage.why("agent", "nodesOnlyKeepPods").await;
    field.patch_node(1, taint("NoExecute")).await;
    field.until("0=1 2=1").await;
    field
        .stage
        .status("agent", json!({"desiredNumberScheduled": 2, "numberMisscheduled": 0}))
        .await;
    field.patch_node(1, json!({"spec": {"taints": null}})).await;
    field.available(3).await;
    field.end().await;
}

async fn given_a_cordoned_node_then_it_gets_a_pod(stage: Arc<Stage>) {
    let field = Field::with(stage, 2).await;
    field.patch_node(0, json!({"spec": {"unschedulable": true}})).await;
    field.settled(field.agent()).await;
    field.end().await;
}

async fn given_a_node_selector_that_excludes_a_node_then_its_pod_goes(stage: Arc<Stage>) {
    let field = Field::with(stage, 2).await;
    field
        .patch_node(0, json!({"metadata": {"labels": {"disk": "ssd"}}}))
        .await;
    field.settled(field.agent()).await;
    let only = json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}});
    field.stage.patch("agent", only).await;
    field.until("0=1").await;
    field.stage.why("agent", "nodesNotEligible").await;
    field.end().await;
}

async fn given_nodes_that_come_and_go_then_pods_follow(stage: Arc<Stage>) {
    let field = Field::with(stage, 1).await;
    field.settled(field.agent()).await;
    let added = field.nodes.add(1).await.unwrap();
    field.available(2).await;
    field.nodes.remove(&added[0]).await.unwrap();
    field.available(1).await;
    field.end().await;
}

async fn given_partitioned_scaling_then_pods_come_step_by_step(stage: Arc<Stage>) {
    let field = Field::with(stage, 3).await;
    let set = field
        .agent()
        .set(ROLLING, json!({"maxUnavailable": 1, "partition": "67%"}))
        .set("/spec/scaleStrategy/partitionedScaling", true);
    field.stage.create(set).await;
    let one = json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 1, "numberAvailable": 1});
    field.stage.status("agent", one).await;
    field.stage.why("agent", "creationPartitioned").await;
    assert_eq!(field.shown(&field.stage.pods("agent").await), "0=1");
    field.stage.patch("agent", rolling(&json!({"partition": 1}))).await;
    field.until("0=1 1=1").await;
    field.stage.patch("agent", rolling(&json!({"partition": 0}))).await;
    field.available(3).await;
    field.end().await;
}

async fn given_a_pod_that_fails_then_its_node_waits_and_events_tell_it(stage: Arc<Stage>) {
    let field = Field::with(stage, 1).await;
    let set = field
        .agent()
        .pod(|pod| pod.script("phase", "Failed").script("phase-reason", "OutOfcpu"));
    field.stage.create(set).await;
    field
        .stage
        .event("agent", "FailedDaemonPod", "Found failed daemon pod")
        .await;
    field.stage.why("agent", "failedPodsBackOff").await;
    // Another template is tried at once.
    let healed = json!({"spec": {"template": {"metadata": {"annotations": {
        "sim.kruise.test/phase": null, "sim.kruise.test/phase-reason": null,
    }}}}});
    field.stage.patch("agent", healed).await;
    field.available(1).await;
    field.end().await;
}

async fn given_burst_replicas_then_pods_come_in_rounds(stage: Arc<Stage>) {
    let field = Field::with(stage, 5).await;
    field.stage.create(field.agent().set("/spec/burstReplicas", 0)).await;
    field.stage.status("agent", json!({"desiredNumberScheduled": 5})).await;
    let why = field.stage.why("agent", "burstLimited").await;
    assert_eq!(why["limit"], 0, "{why:#}");
    assert!(field.stage.pods("agent").await.is_empty());
    field.stage.patch("agent", json!({"spec": {"burstReplicas": 2}})).await;
    field.available(5).await;
    field.end().await;
}

async fn given_two_pods_on_a_node_then_the_newer_goes(stage: Arc<Stage>) {
    let field = Field::with(stage, 1).await;
    let pods = field.settled(field.agent()).await;
    let (name, first) = pods.into_iter().next().unwrap();
    let mut second = json!(first);
    let metadata = &first.metadata;
    second["metadata"] = json!({
        "name": "agent-second", "namespace": metadata.namespace, "labels": metadata.labels,
        "ownerReferences": metadata.owner_references,
    });
    second["status"] = Value::Null;
    let second: Pod = serde_json::from_value(second).unwrap();
    field.stage.pods.create(&PostParams::default(), &second).await.unwrap();
    field.stage.gone("agent-second").await;
    assert!(field.stage.pods("agent").await.contains_key(&name));
    field.end().await;
}

/// The set `agent` has its Pods, those of `other` find no place.
async fn two_sets_for_one_port(field: &Field) {
    let ports = json!([{"containerPort": 80, "hostPort": 8080}]);
    let port = "/spec/template/spec/containers/0/ports";
    field.settled(field.agent().set(port, &ports)).await;
    let other = field
        .agent()
        .set(port, &ports)
        .set("/metadata/name", "other")
        .set("/spec/selector/matchLabels/app", "other")
        .set("/spec/template/metadata/labels/app", "other");
    field.stage.create(other).await;
}

async fn given_two_sets_with_one_host_port_then_the_schedulers_reason_is_told(stage: Arc<Stage>) {
    let field = Field::with(stage, 1).await;
    two_sets_for_one_port(&field).await;
    let why = field.stage.why("other", "notPlaced").await;
    assert!(why["message"].as_str().unwrap().contains("port"), "{why:#}");
    field.end().await;
}

async fn given_a_pending_pod_when_its_node_goes_then_it_goes_too(stage: Arc<Stage>) {
    let field = Field::with(stage, 2).await;
    two_sets_for_one_port(&field).await;
    let nowhere = |pods: &BTreeMap<String, Pod>| {
        let pending = pods.values().all(|pod| json!(pod.spec)["nodeName"].is_null());
        pods.len() == 2 && pending
    };
    field.stage.until("other", "its Pods find no place", nowhere).await;
    field.nodes.remove(&field.nodes.names()[1]).await.unwrap();
    let one = |pods: &BTreeMap<String, Pod>| pods.len() == 1;
    let left = field.stage.until("other", "one is left", one).await;
    let left = left.values().next().unwrap();
    assert_eq!(node(left), field.nodes.names()[0]);
    field.end().await;
}

async fn given_a_node_that_is_made_again_under_its_name_then_it_has_one_pod(stage: Arc<Stage>) {
    let field = Field::with(stage, 1).await;
    field.settled(field.agent()).await;
    let nodes: Api<Node> = Api::all(field.stage.client());
    let name = field.nodes.names().remove(0);
    let old = nodes.get(&name).await.unwrap();
    nodes.delete(&name, &DeleteParams::default()).await.unwrap();
    let again = json!({"metadata": {"name": name, "labels": old.labels()}});
    let again = serde_json::from_value(again).unwrap();
    nodes.create(&PostParams::default(), &again).await.unwrap();
    let status = Patch::Merge(json!({"status": old.status}));
    nodes
        .patch_status(&name, &PatchParams::default(), &status)
        .await
        .unwrap();
    // A later change is worked on: whatever came of the old node is over.
    let change = json!({"spec": {"revisionHistoryLimit": 3}});
    field.stage.patch("agent", change).await;
    field.available(1).await;
    let one = |pods: &BTreeMap<String, Pod>| pods.len() == 1;
    field.stage.until("agent", "it has one Pod", one).await;
    field.end().await;
}
