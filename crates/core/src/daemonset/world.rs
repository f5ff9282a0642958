//! A DaemonSet in the model cluster, for tests: observe, plan, apply, and let time pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use kruise_api::daemonset::v1beta1::DaemonSet;
use kruise_api::imagepulljob::v1beta1::ImagePullJob;
use kruise_api::kind::Kind as _;
use kruise_api::merge_patch::merge;
use kruise_api::node::Node;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::failed_pods::{self, FailedPods};
use super::fixtures::{self, SET_UID, node};
use super::{Observed, plan, target_node};
use crate::plan::harness::{Cluster, name_of};
use crate::plan::{Env, IdSource, Outcome, Plan, Target};

/// The cluster, and what the manager knows besides.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) env: Env,
    pub(super) last: Outcome,
    pub(super) failed_pods: FailedPods,
    /// The generation of the set that the last outcome and the failed Pods are about.
    generation: Value,
    rounds: u64,
}

impl World {
    /// A cluster with the set `agent` and these nodes.
    pub(super) fn new(spec: &Value, nodes: &[&str]) -> Self {
        let mut cluster = Cluster::at(fixtures::start());
        cluster.put(DaemonSet::RESOURCE, fixtures::set(spec));
        for name in nodes {
            cluster.put(Node::RESOURCE, node(name));
        }
        Self {
            cluster,
            env: fixtures::env(),
            last: Outcome::default(),
            failed_pods: FailedPods::default(),
            generation: Value::Null,
            rounds: 0,
        }
    }

    /// The same, after everything has come to rest.
    pub(super) fn settled(spec: &Value, nodes: &[&str]) -> Self {
        let mut world = Self::new(spec, nodes);
        world.run();
        world
    }

    pub(super) fn set(&self) -> &Value {
        self.cluster.get(DaemonSet::RESOURCE, "agent").unwrap()
    }

    /// Changes the spec of the set, as a user would.
    pub(super) fn edit_spec(&mut self, patch: &Value) {
        self.cluster.edit(DaemonSet::RESOURCE, "agent", |set| {
            merge(&mut set["spec"], patch);
            set["metadata"]["generation"] = json!(set["metadata"]["generation"].as_i64().unwrap() + 1);
        });
    }

    pub(super) fn image(&mut self, image: &str) {
        self.edit_spec(&json!({ "template": fixtures::template(image) }));
    }

    pub(super) fn edit_node(&mut self, name: &str, patch: &Value) {
        self.cluster.edit(Node::RESOURCE, name, |node| merge(node, patch));
    }

    /// Removes a node. Pods that were on it are collected.
    pub(super) fn remove_node(&mut self, name: &str) {
        self.cluster.delete(Node::RESOURCE, name);
        self.cluster
            .objects
            .retain(|(kind, _), object| *kind != Pod::RESOURCE || object["spec"]["nodeName"] != name);
    }

    pub(super) fn observe(&self) -> Observed {
        let is_owned = |object: &&Value| {
            let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.into_iter().any(|owner| owner["uid"] == SET_UID)
        };
        let is_orphan = |object: &&Value| {
            object["metadata"]["ownerReferences"]
                .as_array()
                .is_none_or(Vec::is_empty)
        };
        let pods = || self.cluster.all(Pod::RESOURCE);
        Observed {
            set: read(self.set()),
            pods: pods().filter(is_owned).map(read).collect(),
            orphans: pods().filter(is_orphan).map(read).collect(),
            revisions: self.cluster.all(ControllerRevision::RESOURCE).map(read).collect(),
            pull_jobs: self
                .cluster
                .all(ImagePullJob::RESOURCE)
                .filter(is_owned)
                .map(read)
                .collect(),
            nodes: self.cluster.all(Node::RESOURCE).map(read).collect(),
            unreadable: Vec::new(),
            failed_pods: self.failed_pods.clone(),
            last: self.last.clone(),
        }
    }

    /// The surroundings of the next round.
    pub(super) fn next_env(&mut self) -> Env {
        self.rounds += 1;
        Env {
            now: self.cluster.now,
            ids: IdSource::seeded(self.rounds),
            ..self.env.clone()
        }
    }

    /// One round, of which at most so many writes happen.
    pub(super) fn round_of(&mut self, writes: usize) -> Plan {
        let env = self.next_env();
        let generation = self.set()["metadata"]["generation"].clone();
        if self.generation != generation {
            self.last = Outcome::default();
            self.failed_pods = FailedPods::default();
            self.generation = generation;
        }
        let observed = self.observe();
        let plan = plan(&observed, &env);
        for Target { name, .. } in failed_pods::deletions(&plan) {
            let pod = observed.pods.iter().find(|pod| *pod.metadata.name == **name).unwrap();
            self.failed_pods.deleted(target_node(pod).unwrap(), self.cluster.now);
        }
        self.last = self.cluster.apply(&plan, writes).after(&self.last, self.cluster.now);
        plan
    }

    pub(super) fn round(&mut self) -> Plan {
        self.round_of(usize::MAX)
    }

    /// A round, and then nodes do their part.
    pub(super) fn step(&mut self) -> Plan {
        let plan = self.round();
        self.cluster.pass(1);
        self.ready_pods();
        self.cluster.settle();
        plan
    }

    /// What another controller of ours does: Pods without the gate for updates in place get their first condition from it.
    fn ready_pods(&mut self) {
        let names: Vec<String> = self.cluster.all(Pod::RESOURCE).map(name_of).collect();
        for name in names {
            self.cluster.edit(Pod::RESOURCE, &name, |pod| {
                let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
                if !conditions.iter().any(|known| known["type"] == "KruisePodReady") {
                    let mut conditions = conditions;
                    conditions.push(json!({ "type": "KruisePodReady", "status": "True" }));
                    pod["status"]["conditions"] = json!(conditions);
                }
            });
        }
    }

    /// Rounds until nothing is written any more, nodes doing their part in between. Returns the number of writes.
    pub(super) fn run(&mut self) -> usize {
        let before = self.cluster.writes;
        let mut quiet = 0;
        for _ in 0..500 {
            let plan = self.round();
            let changed = self.cluster.clone();
            // Long enough for a while of being ready.
            self.cluster.pass(if quiet == 0 { 1 } else { 30 });
            self.ready_pods();
            self.cluster.settle();
            quiet = if plan.is_idle() && changed.objects == self.cluster.objects {
                quiet + 1
            } else {
                0
            };
            if quiet > 3 {
                return self.cluster.writes - before;
            }
        }
        panic!("no end: {:#?}", self.round());
    }

    pub(super) fn pods(&self) -> Vec<&Value> {
        self.cluster.all(Pod::RESOURCE).collect()
    }

    pub(super) fn living(&self) -> Vec<&Value> {
        let living = |pod: &&Value| pod["metadata"].get("deletionTimestamp").is_none();
        self.cluster.all(Pod::RESOURCE).filter(living).collect()
    }

    /// Images of living Pods by node.
    pub(super) fn images(&self) -> BTreeMap<String, Vec<String>> {
        let mut images: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pod in self.living() {
            let read: Arc<Pod> = read(pod);
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
            let node = target_node(&read).unwrap_or_default().to_owned();
            images.entry(node).or_default().push(image);
        }
        for images in images.values_mut() {
            images.sort();
        }
        images
    }

    /// The same as text: `a=agent:1 b=agent:2`.
    pub(super) fn shown(&self) -> String {
        let images = self.images().into_iter();
        let shown: Vec<String> = images
            .map(|(node, images)| format!("{node}={}", images.join("+")))
            .collect();
        shown.join(" ").replace("agent:", "")
    }

    pub(super) fn uids(&self) -> Vec<String> {
        let uid = |pod: &&Value| pod["metadata"]["uid"].as_str().unwrap().to_owned();
        self.living().iter().map(uid).collect()
    }

    pub(super) fn status(&self, field: &str) -> Value {
        self.set()["status"][field].clone()
    }

    /// The name of the first living Pod for a node.
    pub(super) fn pod_on(&self, node: &str) -> String {
        let pods = self.living().into_iter();
        let on = |pod: &&Value| target_node(&read::<Pod>(pod)) == Some(node);
        name_of(pods.filter(on).min_by_key(|pod| name_of(pod)).unwrap())
    }

    pub(super) fn edit_pod(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        self.cluster.edit(Pod::RESOURCE, name, change);
    }
}

pub(super) fn read<T: DeserializeOwned>(object: &Value) -> Arc<T> {
    // Through text, because raw parts keep what was written.
    Arc::new(serde_json::from_str(&object.to_string()).unwrap())
}
