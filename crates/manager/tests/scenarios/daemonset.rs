//! DaemonSets, by theme. Each scenario has nodes of its own, since it taints, labels and removes them.

mod admission;
mod nodes;
mod ownership;
mod update;

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{Node, Pod};
use kruise_testkit::{
    builders::{Fixture as _, Workload, daemonset},
    sim::{SimOptions, SimulatedNodes},
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::cluster::scenario::{Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    [admission::all(), nodes::all(), ownership::all(), update::all()]
        .into_iter()
        .flatten()
        .collect()
}

const ROLLING: &str = "/spec/updateStrategy/rollingUpdate";

/// A stage with nodes that nobody else uses.
struct Field {
    stage: Arc<Stage>,
    nodes: SimulatedNodes,
}

impl Field {
    async fn with(stage: Arc<Stage>, count: usize) -> Self {
        let options = SimOptions {
            count,
            name_prefix: stage.namespace().to_owned(),
            labels: [("field".to_owned(), stage.namespace().to_owned())].into(),
            namespace: Some(stage.namespace().to_owned()),
            ..SimOptions::default()
        };
        let nodes = SimulatedNodes::start(stage.client(), options).await.unwrap();
        Self { stage, nodes }
    }

    /// The set `agent`, for these nodes.
    fn agent(&self) -> Workload {
        let here = ("field".to_owned(), self.stage.namespace().to_owned());
        daemonset("agent").image("agent:1").pod(|pod| pod.node_selector(here))
    }

    fn in_place(&self) -> Workload {
        let rules = json!({"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 1});
        self.agent().set(ROLLING, rules)
    }

    /// Creates the set and waits until every node has an available Pod.
    async fn settled(&self, set: Workload) -> BTreeMap<String, Pod> {
        let count = self.nodes.names().len();
        self.stage.create(set).await;
        self.available(count).await;
        self.stage.pods("agent").await
    }

    async fn available(&self, count: usize) {
        let all = json!({"desiredNumberScheduled": count, "currentNumberScheduled": count, "numberAvailable": count});
        self.stage.status("agent", all).await;
    }

    async fn updated(&self, count: usize) {
        let count = json!({"updatedNumberScheduled": count, "numberAvailable": count, "currentNumberScheduled": count});
        self.stage.status("agent", count).await;
    }

    async fn patch_node(&self, number: usize, patch: Value) {
        let nodes: Api<Node> = Api::all(self.stage.client());
        let name = self.nodes.names().swap_remove(number);
        let patched = nodes.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.unwrap();
    }

    /// Images of living Pods by the number of their node: `0=agent:1 1=agent:2`.
    fn shown(&self, pods: &BTreeMap<String, Pod>) -> String {
        let names = self.nodes.names();
        let mut shown: Vec<String> = pods
            .values()
            .map(|pod| {
                let number = names.iter().position(|name| *name == node(pod));
                let number = number.map_or("?".to_owned(), |number| number.to_string());
                format!("{number}={}", image(pod))
            })
            .collect();
        shown.sort();
        shown.join(" ").replace("agent:", "")
    }

    /// Waits until the living Pods are these.
    async fn until(&self, what: &str) -> BTreeMap<String, Pod> {
        self.stage.until("agent", what, |pods| self.shown(pods) == what).await
    }

    async fn end(self) {
        self.nodes.stop().await.unwrap();
    }
}

fn image(pod: &Pod) -> &str {
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice());
    let first = containers.unwrap_or_default().first();
    first.and_then(|first| first.image.as_deref()).unwrap_or_default()
}

/// The node of a Pod, or the one that its affinity names.
fn node(pod: &Pod) -> String {
    let spec = json!(pod.spec);
    let required = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let pinned = spec.pointer(&format!("{required}/nodeSelectorTerms/0/matchFields/0/values/0"));
    let name = spec["nodeName"].as_str().or_else(|| pinned.and_then(Value::as_str));
    name.unwrap_or_default().to_owned()
}

fn uids(pods: &BTreeMap<String, Pod>) -> Vec<String> {
    let mut uids: Vec<String> = pods.values().filter_map(ResourceExt::uid).collect();
    uids.sort();
    uids
}

fn to_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

fn rolling(rules: &Value) -> Value {
    json!({"spec": {"updateStrategy": {"rollingUpdate": rules}}})
}
