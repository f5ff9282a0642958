//! A SidecarSet in the model cluster, for tests: observe, plan, apply, and let time pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use kruise_api::kind::Kind as _;
use kruise_api::merge_patch::merge;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use kruise_api::sidecarset::v1beta1::SidecarSet;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::hash::Hashes;
use super::{Observed, plan};
use crate::plan::harness::Cluster;
use crate::plan::{Env, Outcome, Plan};

/// The cluster, and what the manager knows besides.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) last: Outcome,
}

/// A container as admission completes it.
pub(super) fn container(name: &str, image: &str) -> Value {
    json!({"name": name, "image": image, "podInjectPolicy": "BeforeAppContainer",
        "upgradeStrategy": {"upgradeType": "ColdUpgrade"}, "shareVolumePolicy": {"type": "disabled"}})
}

pub(super) fn hot(name: &str, image: &str) -> Value {
    let mut container = container(name, image);
    container["upgradeStrategy"] = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    container
}

impl World {
    /// A cluster with the set `log` and nothing else.
    pub(super) fn new(containers: &[Value], strategy: &Value) -> Self {
        let mut cluster = Cluster::at("2024-05-01T10:00:00Z".parse().unwrap());
        let spec =
            json!({"selector": {"matchLabels": {"app": "web"}}, "containers": containers, "updateStrategy": strategy});
        let mut set =
            json!({"metadata": {"name": "log", "uid": "set-1", "generation": 1, "annotations": {}}, "spec": spec});
        admit(&mut set);
        cluster.put(SidecarSet::RESOURCE, set);
        Self {
            cluster,
            last: Outcome::default(),
        }
    }

    pub(super) fn set(&self) -> &Value {
        self.cluster.get(SidecarSet::RESOURCE, "log").unwrap()
    }

    /// Changes the spec of the set, as a user would.
    pub(super) fn edit_spec(&mut self, patch: &Value) {
        self.cluster.edit(SidecarSet::RESOURCE, "log", |set| {
            merge(&mut set["spec"], patch);
            admit(set);
            set["metadata"]["generation"] = json!(set["metadata"]["generation"].as_i64().unwrap() + 1);
        });
    }

    /// Gives the first container of the set an image.
    pub(super) fn image(&mut self, image: &str) {
        let mut containers = self.set()["spec"]["containers"].clone();
        containers[0]["image"] = json!(image);
        self.edit_spec(&json!({ "containers": containers }));
    }

    /// A Pod with the containers of the set, as admission makes it.
    pub(super) fn pod(&mut self, name: &str) {
        let set = self.set().clone();
        let annotations = &set["metadata"]["annotations"];
        let mut containers = vec![json!({"name": "main", "image": "app:1"})];
        let mut own = json!({});
        let mut working = json!({});
        for declared in set["spec"]["containers"].as_array().unwrap() {
            let name = declared["name"].as_str().unwrap();
            if declared["upgradeStrategy"]["upgradeType"] == "HotUpgrade" {
                let empty = &declared["upgradeStrategy"]["hotUpgradeEmptyImage"];
                containers.push(json!({"name": format!("{name}-1"), "image": declared["image"]}));
                containers.push(json!({"name": format!("{name}-2"), "image": empty}));
                working[name] = json!(format!("{name}-1"));
                for (container, version, other) in [("1", "1", "0"), ("2", "0", "1")] {
                    own[format!("version.sidecarset.kruise.io/{name}-{container}")] = json!(version);
                    own[format!("versionalt.sidecarset.kruise.io/{name}-{container}")] = json!(other);
                }
            } else {
                containers.push(json!({"name": name, "image": declared["image"]}));
            }
        }
        let brought: Vec<Value> = set["spec"]["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|each| each["name"].clone())
            .collect();
        let record =
            |hash: &Value| json!({"log": {"hash": hash, "sidecarSetName": "log", "sidecarList": brought}}).to_string();
        own["kruise.io/sidecarset-hash"] = json!(record(&annotations["kruise.io/sidecarset-hash"]));
        own["kruise.io/sidecarset-hash-without-image"] =
            json!(record(&annotations["kruise.io/sidecarset-hash-without-image"]));
        own["kruise.io/sidecarset-injected-list"] = json!("log");
        if working != json!({}) {
            own["kruise.io/sidecarset-working-hotupgrade-container"] = json!(working.to_string());
        }
        self.cluster.put(
            Pod::RESOURCE,
            json!({
                "metadata": {"name": name, "namespace": "ns", "labels": {"app": "web"}, "annotations": own},
                "spec": {"containers": containers, "readinessGates": []},
                "status": {"phase": "Pending"},
            }),
        );
    }

    pub(super) fn observe(&self) -> Observed {
        let pods: Vec<Arc<Pod>> = self.cluster.all(Pod::RESOURCE).map(read).collect();
        Observed {
            set: read(self.set()),
            maybe_missing: pods.clone(),
            pods,
            canaries: Vec::new(),
            namespaces: BTreeMap::new(),
            system: "kruise-system".to_owned(),
            revisions: self.cluster.all(ControllerRevision::RESOURCE).map(read).collect(),
            annotations: BTreeMap::new(),
            last: self.last.clone(),
        }
    }

    pub(super) fn env(&self) -> Env {
        Env::at(self.cluster.now)
    }

    /// One round, of which at most so many writes happen.
    pub(super) fn round_of(&mut self, writes: usize) -> Plan {
        let plan = plan(&self.observe(), &self.env());
        self.last = self.cluster.apply(&plan, writes).after(&self.last, self.cluster.now);
        plan
    }

    pub(super) fn round(&mut self) -> Plan {
        self.round_of(usize::MAX)
    }

    /// Rounds with kubelets in between, until nothing is written any more.
    pub(super) fn settle(&mut self) {
        for _ in 0..200 {
            self.cluster.settle();
            self.cluster.pass(1);
            if self.round().is_idle() {
                return;
            }
        }
        panic!("it does not come to an end: {:#?}", plan(&self.observe(), &self.env()));
    }

    /// The images of a container, by Pod.
    pub(super) fn images(&self, container: &str) -> Vec<String> {
        let image = |pod: &Value| {
            let mut containers = pod["spec"]["containers"].as_array().unwrap().iter();
            containers.find(|known| known["name"] == container).unwrap()["image"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        self.cluster.all(Pod::RESOURCE).map(image).collect()
    }

    pub(super) fn annotation(&self, pod: &str, key: &str) -> String {
        let pod = self.cluster.get(Pod::RESOURCE, pod).unwrap();
        pod["metadata"]["annotations"][key]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub(super) fn status(&self, field: &str) -> Value {
        self.set()["status"][field].clone()
    }

    /// The condition of a Pod: status and message.
    pub(super) fn condition(&self, pod: &str) -> Option<(String, String)> {
        let pod = self.cluster.get(Pod::RESOURCE, pod).unwrap();
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let found = conditions.find(|condition| condition["type"] == "SidecarSetUpgradable")?;
        let text = |field: &str| found[field].as_str().unwrap().to_owned();
        Some((text("status"), text("message")))
    }
}

/// What admission writes.
fn admit(set: &mut Value) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let hashes = Hashes::of(&list(&set["spec"]["containers"]), &list(&set["spec"]["initContainers"]));
    set["metadata"]["annotations"]["kruise.io/sidecarset-hash"] = json!(hashes.hash);
    set["metadata"]["annotations"]["kruise.io/sidecarset-hash-without-image"] = json!(hashes.without_image);
}

pub(super) fn read<K: DeserializeOwned>(object: &Value) -> Arc<K> {
    Arc::new(serde_json::from_value(object.clone()).unwrap())
}
