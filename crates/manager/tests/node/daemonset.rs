//! DaemonSets on real kubelets: a Pod on each of the three nodes, updated in place and with a surge.

use std::collections::BTreeMap;

use kruise_testkit::builders::daemonset;

use crate::{pod_history::PodHistory, *};

const NODES: [&str; 3] = ["node1", "node2", "node3"];

fn agent(rules: &Value) -> Workload {
    daemonset("agent")
        .set("/spec/template/spec/containers", [container("main", None)])
        .set("/spec/template/spec/volumes", json!([{"name": "told", "emptyDir": {}}]))
        .set("/spec/updateStrategy/rollingUpdate", rules)
}

impl Stage {
    /// The Pods by node, when each node has one of the latest template that is available.
    async fn on_nodes(&self) -> BTreeMap<String, Pod> {
        eventually(PATIENCE, "each node has its Pod", || async {
            let live = self.sets.get("agent").await?;
            let status = &live.data["status"];
            let is_seen = status["observedGeneration"].as_i64() == live.metadata.generation;
            let counts = ["updatedNumberScheduled", "numberAvailable", "currentNumberScheduled"];
            let is_done = counts.into_iter().all(|field| status[field] == NODES.len());
            let pods = self.all("agent").await;
            if is_seen && is_done && pods.len() == NODES.len() {
                Ok(())
            } else {
                Err(NotYet::new(format!("{} Pods, {status:#}", pods.len())))
            }
        })
        .await;
        let pods = self.all("agent").await.into_iter();
        let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let pods: BTreeMap<String, Pod> = pods.map(|pod| (node(&pod).unwrap(), pod)).collect();
        assert_eq!(pods.keys().collect::<Vec<_>>(), NODES);
        pods
    }
}

#[test]
fn given_a_daemonset_then_each_node_has_a_pod_that_is_updated_in_place() {
    run_test(DEADLINE, async {
        let stage = Stage::of("DaemonSet", "ads-in-place").await;
        let rules = json!({"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 2});
        stage.create(agent(&rules)).await;
        let before = stage.on_nodes().await;
        stage.change("agent", to_newer(&[0])).await;
        let after = stage.on_nodes().await;
        for (node, pod) in &after {
            assert_eq!(identity(pod), identity(&before[node]));
            assert_eq!(status(pod, "main").restart_count, 1);
            let told = stage.told(pod, "main");
            assert_eq!(told, ["main library/busybox:1.35", "main library/busybox:1.36"]);
        }
    });
}

#[test]
fn given_a_surge_then_no_node_is_ever_without_a_ready_pod() {
    run_test(DEADLINE, async {
        let stage = Stage::of("DaemonSet", "ads-surge").await;
        stage.create(agent(&json!({"maxSurge": 1}))).await;
        let before = stage.on_nodes().await;
        let history = PodHistory::begin(stage.pods.clone(), "agent").await;
        stage.change("agent", to_newer(&[0])).await;
        let after = stage.on_nodes().await;
        assert!(after.iter().all(|(node, pod)| pod.uid() != before[node].uid()));
        for pods in history.end().await {
            let ready = pods.values().filter(|pod| condition(pod, "Ready") == Some("True"));
            let mut nodes: Vec<_> = ready
                .filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref())
                .collect();
            nodes.sort_unstable();
            nodes.dedup();
            assert_eq!(nodes, NODES);
            assert!(pods.len() <= NODES.len() + 1, "{:?}", pods.keys());
        }
    });
}
