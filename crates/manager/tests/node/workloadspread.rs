//! WorkloadSpreads on real nodes: Pods run where their subset is, come back there, and go elsewhere where they find no room.

use std::collections::BTreeMap;

use kube::api::EvictParams;

use crate::*;

/// A subset on one node.
fn on_node(name: &str, node: &str, more: &Value) -> Value {
    let term = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
    let mut subset = json!({"name": name, "requiredNodeSelector": term});
    kruise_api::merge_patch::merge(&mut subset, more);
    subset
}

fn spreads(stage: &Stage) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "WorkloadSpread");
    let client = stage.pods.clone().into_client();
    Api::namespaced_with(client, stage.namespace.name(), &ApiResource::from_gvk(&kind))
}

/// Spreads the set `web`, and returns when the manager has looked at it.
async fn spread(stage: &Stage, subsets: &[Value], strategy: &Value) {
    let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"});
    let object = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "WorkloadSpread", "metadata": {"name": "spread"},
        "spec": {"targetRef": target, "subsets": subsets, "scheduleStrategy": strategy},
    });
    let object = serde_json::from_value(object).unwrap();
    let spreads = spreads(stage);
    spreads.create(&PostParams::default(), &object).await.unwrap();
    eventually(PATIENCE, "the spread is looked at", || async {
        let status = spreads.get("spread").await?.data["status"].clone();
        let is_seen = status["subsetStatuses"].is_array();
        is_seen.then_some(()).ok_or_else(|| NotYet::new(format!("{status:#}")))
    })
    .await;
}

/// Waits until the Pods are ready, and there are so many of each subset on each node.
async fn spread_like(stage: &Stage, expected: &[(&str, &str, usize)]) -> Vec<Pod> {
    let expected: BTreeMap<_, _> = expected
        .iter()
        .map(|(subset, node, count)| (((*subset).to_owned(), (*node).to_owned()), *count))
        .collect();
    eventually(PATIENCE, "Pods run where they should", || async {
        let pods = stage.all("web").await;
        let mut found = BTreeMap::new();
        for pod in &pods {
            let matched = pod.annotations().get("apps.kruise.io/matched-workloadspread");
            let matched: Value = matched
                .map(|text| serde_json::from_str(text).unwrap())
                .unwrap_or_default();
            let subset = matched["subset"].as_str().unwrap_or_default().to_owned();
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            *found.entry((subset, node.unwrap_or_default())).or_default() += 1;
        }
        let is_well = |pod: &Pod| condition(pod, "Ready") == Some("True") && pod.metadata.deletion_timestamp.is_none();
        if found == expected && pods.iter().all(is_well) {
            Ok(pods)
        } else {
            Err(NotYet::new(format!("{found:?}")))
        }
    })
    .await
}

#[test]
fn given_subsets_on_nodes_then_pods_run_there_come_back_there_and_the_last_go_first() {
    run_test(DEADLINE, async {
        let stage = Stage::new("spread-nodes").await;
        stage
            .create(in_place("web", &[container("main", None)]).replicas(0))
            .await;
        let subsets = [
            on_node("first", "node1", &json!({"maxReplicas": 2})),
            on_node("second", "node2", &json!({})),
        ];
        spread(&stage, &subsets, &json!({})).await;
        stage.change("web", |spec| spec["replicas"] = json!(4)).await;
        let both = [("first", "node1", 2), ("second", "node2", 2)];
        let pods = spread_like(&stage, &both).await;
        let on_first = |pod: &&Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some("node1");
        let evicted = pods.iter().find(on_first).unwrap().name_any();
        stage.pods.evict(&evicted, &EvictParams::default()).await.unwrap();
        eventually(PATIENCE, "the evicted Pod is gone", || async {
            let pod = stage.pods.get_opt(&evicted).await?;
            pod.is_none().then_some(()).ok_or_else(|| NotYet::new("not yet"))
        })
        .await;
        spread_like(&stage, &both).await;
        let before: BTreeMap<_, _> = stage
            .all("web")
            .await
            .iter()
            .map(|pod| (pod.name_any(), identity(pod)))
            .collect();
        stage.change("web", to_newer(&[0])).await;
        stage.done("web").await;
        let after = spread_like(&stage, &both).await;
        for pod in &after {
            assert_eq!(identity(pod), before[&pod.name_any()]);
        }
        stage.change("web", |spec| spec["replicas"] = json!(2)).await;
        spread_like(&stage, &[("first", "node1", 2)]).await;
    });
}

#[test]
fn given_a_subset_without_room_then_its_pods_are_made_again_in_the_next() {
    run_test(DEADLINE, async {
        let stage = Stage::new("spread-room").await;
        stage
            .create(in_place("web", &[container("main", None)]).replicas(0))
            .await;
        // No node has that much.
        let huge = json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1000"}}}]}});
        let subsets = [
            on_node("first", "node1", &json!({"patch": huge})),
            on_node("second", "node2", &json!({})),
        ];
        let strategy = json!({"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 5}});
        spread(&stage, &subsets, &strategy).await;
        stage.change("web", |spec| spec["replicas"] = json!(2)).await;
        spread_like(&stage, &[("second", "node2", 2)]).await;
        let status = spreads(&stage).get("spread").await.unwrap().data["status"].clone();
        let condition = &status["subsetStatuses"][0]["conditions"][0];
        assert_eq!(
            (&condition["type"], &condition["status"], &condition["reason"]),
            (&json!("Schedulable"), &json!("False"), &json!("PodUnschedulable")),
            "{status:#}"
        );
    });
}
