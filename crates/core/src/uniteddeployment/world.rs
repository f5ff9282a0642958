//! A model of a cluster with one UnitedDeployment and the controllers of its workloads, for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kruise_api::kind::Kind as _;
use kruise_api::names::label;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use kruise_api::uniteddeployment::v1beta1::UnitedDeployment;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::child::Child;
use super::{Observed, WorkloadKind, plan};
use crate::plan::harness::{Cluster, name_of};
use crate::plan::{Env, IdSource, Outcome, Plan};
use crate::shared::fixture::at;

pub(super) fn read<T: DeserializeOwned>(json: &Value) -> Arc<T> {
    Arc::new(serde_json::from_value(json.clone()).unwrap())
}

/// A cluster with the UnitedDeployment `web`.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) last: Outcome,
    /// Subsets in which Pods find no node.
    pub(super) full: BTreeSet<String>,
    seed: u64,
}

/// A template of this kind with one container.
pub(super) fn template(kind: WorkloadKind, image: &str) -> Value {
    let labels = json!({"app": "web"});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}});
    let spec = json!({"selector": {"matchLabels": labels}, "template": pod});
    json!({(kind.field()): {"metadata": {"labels": labels}, "spec": spec}})
}

/// A spec with these subsets.
pub(super) fn spec(kind: WorkloadKind, replicas: i32, subsets: &Value) -> Value {
    json!({
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template(kind, "nginx:1"),
        "topology": {"subsets": subsets},
    })
}

impl World {
    pub(super) fn with(spec: &Value) -> Self {
        let mut cluster = Cluster::at(at("10:00:00"));
        cluster.put(
            UnitedDeployment::RESOURCE,
            json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u-web", "generation": 1}, "spec": spec}),
        );
        Self {
            cluster,
            last: Outcome::default(),
            full: BTreeSet::new(),
            seed: 0,
        }
    }

    /// Changes the spec, as a user would.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Value)) {
        self.last = Outcome::default();
        self.cluster.edit(UnitedDeployment::RESOURCE, "web", |united| {
            change(&mut united["spec"]);
            let generation = united["metadata"]["generation"].as_i64().unwrap();
            united["metadata"]["generation"] = json!(generation + 1);
        });
    }

    pub(super) fn set_image(&mut self, kind: WorkloadKind, image: &str) {
        self.change(|spec| {
            spec["template"][kind.field()]["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        });
    }

    pub(super) fn united(&self) -> &Value {
        self.cluster.get(UnitedDeployment::RESOURCE, "web").unwrap()
    }

    pub(super) fn status(&self) -> &Value {
        &self.united()["status"]
    }

    pub(super) fn all(&self, kind: WorkloadKind) -> Vec<Value> {
        self.cluster.all(kind.resource()).cloned().collect()
    }

    /// The workloads of a kind by subset; there is one for each.
    pub(super) fn children(&self, kind: WorkloadKind) -> BTreeMap<String, Value> {
        let mut children = BTreeMap::new();
        for child in self.cluster.all(kind.resource()) {
            let subset = child["metadata"]["labels"][label::SUBSET_NAME].as_str().unwrap();
            assert!(
                children.insert(subset.to_owned(), child.clone()).is_none(),
                "{subset} twice"
            );
        }
        children
    }

    /// Replicas by subset.
    pub(super) fn replicas(&self, kind: WorkloadKind) -> Vec<i64> {
        let children = self.children(kind);
        children
            .values()
            .map(|child| child["spec"]["replicas"].as_i64().unwrap())
            .collect()
    }

    pub(super) fn pods_of(&self, child: &Value) -> Vec<Value> {
        let is_its = |pod: &&Value| pod["metadata"]["ownerReferences"][0]["uid"] == child["metadata"]["uid"];
        self.cluster.all(Pod::RESOURCE).filter(is_its).cloned().collect()
    }

    pub(super) fn pods_in(&self, subset: &str) -> Vec<Value> {
        let is_in = |pod: &&Value| pod["metadata"]["labels"][label::SUBSET_NAME] == subset;
        self.cluster.all(Pod::RESOURCE).filter(is_in).cloned().collect()
    }

    pub(super) fn observed(&self) -> Observed {
        let mut children = Vec::new();
        for kind in WorkloadKind::ALL {
            let all = self.cluster.all(kind.resource());
            children.extend(all.map(|child| Child {
                kind,
                object: read(child),
            }));
        }
        let of = |child: &Child| {
            let uid = child.object.metadata.uid.to_string();
            let is_its = |pod: &&Value| pod["metadata"]["ownerReferences"][0]["uid"] == json!(uid);
            let pods = self.cluster.all(Pod::RESOURCE).filter(is_its).map(read).collect();
            (uid.clone(), pods)
        };
        Observed {
            united: read(self.united()),
            pods: children.iter().map(of).collect(),
            children,
            revisions: self.cluster.all(ControllerRevision::RESOURCE).map(read).collect(),
            is_confirmed: true,
            last: self.last.clone(),
        }
    }

    pub(super) fn env(&self) -> Env {
        Env {
            ids: IdSource::seeded(self.seed),
            ..Env::at(self.cluster.now)
        }
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.observed(), &self.env())
    }

    /// Plans and applies, at most so many writes. Returns the plan.
    pub(super) fn round(&mut self, budget: usize) -> Plan {
        self.seed += 1;
        let plan = self.plan();
        let outcome = self.cluster.apply(&plan, budget);
        self.last = outcome.after(&self.last, self.cluster.now);
        plan
    }

    /// Lets everybody do what there is to do, until nobody has anything left.
    pub(super) fn rest(&mut self) {
        for _ in 0..40 {
            self.settle();
            self.collect();
            if self.round(usize::MAX).is_idle() {
                self.settle();
                if self.plan().is_idle() {
                    return;
                }
            }
        }
        let shown = serde_json::to_string_pretty(&self.plan()).unwrap();
        panic!("there is always something to write: {shown}");
    }

    /// What is owned by nobody who is there goes.
    fn collect(&mut self) {
        let uids: BTreeSet<String> = WorkloadKind::ALL
            .iter()
            .flat_map(|kind| self.cluster.all(kind.resource()))
            .map(|child| child["metadata"]["uid"].as_str().unwrap().to_owned())
            .collect();
        let is_lost = |pod: &&Value| {
            let owner = pod["metadata"]["ownerReferences"][0]["uid"]
                .as_str()
                .unwrap_or_default();
            !uids.contains(owner)
        };
        let lost: Vec<String> = self.cluster.all(Pod::RESOURCE).filter(is_lost).map(name_of).collect();
        for name in lost {
            self.cluster.objects.remove(&(Pod::RESOURCE, name));
        }
    }

    /// Lets the controllers of the workloads, the scheduler and kubelets do all they have to do.
    pub(super) fn settle(&mut self) {
        for kind in WorkloadKind::ALL {
            for child in self.all(kind) {
                self.run(kind, &child);
            }
        }
    }

    fn run(&mut self, kind: WorkloadKind, child: &Value) {
        let gone: Vec<String> = self
            .pods_of(child)
            .iter()
            .filter(|pod| pod["metadata"].get("deletionTimestamp").is_some())
            .map(name_of)
            .collect();
        for name in gone {
            self.cluster.objects.remove(&(Pod::RESOURCE, name));
        }
        let replicas = usize::try_from(child["spec"]["replicas"].as_i64().unwrap()).unwrap();
        let partition = child.pointer("/spec/updateStrategy/rollingUpdate/partition");
        let partition = usize::try_from(partition.and_then(Value::as_i64).unwrap_or_default()).unwrap();
        let is_ready = |pod: &Value| pod["status"]["phase"] == "Running";
        let mut pods = self.pods_of(child);
        // Those that do not run go first, and then the highest.
        pods.sort_by_key(|pod| (!is_ready(pod), ordinal(pod)));
        while pods.len() > replicas {
            let pod = pods.pop().unwrap();
            self.cluster.objects.remove(&(Pod::RESOURCE, name_of(&pod)));
        }
        for number in 0.. {
            if pods.len() >= replicas {
                break;
            }
            let name = format!("{}-{number}", name_of(child));
            if pods.iter().any(|pod| name_of(pod) == name) {
                continue;
            }
            let pod = new_pod(&name, child, &self.cluster.now.to_string());
            self.cluster.put(Pod::RESOURCE, pod.clone());
            pods.push(pod);
        }
        pods.sort_by_key(ordinal);
        let wanted = &child["spec"]["template"];
        for (place, pod) in pods.iter().enumerate() {
            let is_old = pod["metadata"]["labels"][label::SUBSET_REVISION]
                != wanted["metadata"]["labels"][label::SUBSET_REVISION]
                || pod["spec"]["containers"][0]["image"] != wanted["spec"]["containers"][0]["image"];
            let keeps = kind != WorkloadKind::Deployment && place < partition;
            if is_old && !keeps {
                self.cluster.edit(Pod::RESOURCE, &name_of(pod), |pod| {
                    pod["spec"] = wanted["spec"].clone();
                    for (key, value) in wanted["metadata"]["labels"].as_object().unwrap() {
                        pod["metadata"]["labels"][key] = value.clone();
                    }
                });
            }
        }
        self.run_pods(child);
        let pods = self.pods_of(child);
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        let status = json!({"replicas": pods.len(), "readyReplicas": ready});
        self.cluster
            .edit(kind.resource(), &name_of(child), |child| child["status"] = status);
    }

    fn run_pods(&mut self, child: &Value) {
        let subset = child["metadata"]["labels"][label::SUBSET_NAME]
            .as_str()
            .unwrap_or_default();
        let is_full = self.full.contains(subset);
        let now = self.cluster.now.to_string();
        for pod in self.pods_of(child) {
            if pod["status"]["phase"] == "Running" {
                continue;
            }
            self.cluster.edit(Pod::RESOURCE, &name_of(&pod), |pod| {
                pod["status"] = if is_full {
                    let scheduled = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
                    json!({"phase": "Pending", "conditions": [scheduled]})
                } else {
                    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
                    json!({"phase": "Running", "conditions": [ready]})
                };
                if !is_full {
                    pod["spec"]["nodeName"] = json!("n1");
                }
            });
        }
    }
}

fn ordinal(pod: &Value) -> usize {
    let name = name_of(pod);
    name.rsplit_once('-').unwrap().1.parse().unwrap()
}

fn new_pod(name: &str, child: &Value, now: &str) -> Value {
    let template = &child["spec"]["template"];
    let owner = json!({"apiVersion": "x/v1", "kind": "X", "name": name_of(child), "uid": child["metadata"]["uid"], "controller": true});
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "labels": template["metadata"]["labels"], "ownerReferences": [owner],
            "creationTimestamp": now,
        },
        "spec": template["spec"],
        "status": {"phase": "Pending"},
    })
}
