//! A StatefulSet in the model cluster, for tests: observe, plan, apply, and let time pass.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kruise_api::imagepulljob::v1beta1::ImagePullJob;
use kruise_api::kind::Kind as _;
use kruise_api::merge_patch::merge;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use kruise_api::statefulset::v1beta1::StatefulSet;
use serde_json::{Value, json};

use super::fixtures::{self, SET_UID, read};
use super::ordinals::of_pod_name;
use super::{Names, Observed, plan};
use crate::plan::harness::{Cluster, name_of};
use crate::plan::{Env, Outcome, Plan};

/// The cluster, and what the manager knows besides.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) env: Env,
    pub(super) last: Outcome,
    /// The generation of the set that the last outcome is about.
    generation: Value,
}

impl World {
    /// A cluster with the set `web`, and nothing else.
    pub(super) fn new(spec: &Value) -> Self {
        let mut cluster = Cluster::at(fixtures::start());
        cluster.put(StatefulSet::RESOURCE, fixtures::set(spec));
        Self {
            cluster,
            env: fixtures::env(),
            last: Outcome::default(),
            generation: Value::Null,
        }
    }

    pub(super) fn set(&self) -> &Value {
        self.cluster.get(StatefulSet::RESOURCE, "web").unwrap()
    }

    /// Changes the spec of the set, as a user would.
    pub(super) fn edit_spec(&mut self, patch: &Value) {
        self.cluster.edit(StatefulSet::RESOURCE, "web", |set| {
            merge(&mut set["spec"], patch);
            set["metadata"]["generation"] = json!(set["metadata"]["generation"].as_i64().unwrap() + 1);
        });
    }

    pub(super) fn image(&mut self, image: &str) {
        self.edit_spec(&json!({ "template": fixtures::template(image) }));
    }

    pub(super) fn observe(&self) -> Observed {
        let owners = |object: &Value| {
            object["metadata"]["ownerReferences"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        };
        let is_owned = |object: &&Value| owners(object).iter().any(|owner| owner["uid"] == SET_UID);
        let is_orphan = |object: &&Value| owners(object).iter().all(|owner| owner["controller"] != true);
        let pods: Vec<_> = self.cluster.all(Pod::RESOURCE).filter(is_owned).map(read).collect();
        let set = read::<StatefulSet>(self.set());
        let names = Names::of(&set, &pods, self.env.gates);
        let is_ours = |object: &&Value| of_pod_name(&name_of(object)).is_some_and(|(set, _)| set == "web");
        let orphans: Vec<_> = self
            .cluster
            .all(Pod::RESOURCE)
            .filter(is_orphan)
            .filter(is_ours)
            .map(read)
            .collect();
        let is_taken = |name: &String| {
            let is_theirs = |pod: &Value| !is_owned(&pod) && !is_orphan(&pod);
            self.cluster.get(Pod::RESOURCE, name).is_some_and(is_theirs)
        };
        let claims = names.claims.iter();
        Observed {
            names_taken: names.pods.iter().filter(|name| is_taken(name)).cloned().collect(),
            claims: claims
                .filter_map(|name| self.cluster.get(PersistentVolumeClaim::RESOURCE, name))
                .map(read)
                .collect(),
            classes: vec![read(
                &json!({ "metadata": { "name": "fast" }, "allowVolumeExpansion": true }),
            )],
            revisions: self.cluster.all(ControllerRevision::RESOURCE).map(read).collect(),
            pull_jobs: self
                .cluster
                .all(ImagePullJob::RESOURCE)
                .filter(is_owned)
                .map(read)
                .collect(),
            is_confirmed: true,
            last: self.last.clone(),
            orphans,
            pods,
            set,
            ..Observed::default()
        }
    }

    pub(super) fn env_now(&self) -> Env {
        Env {
            now: self.cluster.now,
            ..self.env.clone()
        }
    }

    /// One round, of which at most so many writes happen.
    pub(super) fn round_of(&mut self, writes: usize) -> Plan {
        let generation = self.set()["metadata"]["generation"].clone();
        if self.generation != generation {
            self.last = Outcome::default();
            self.generation = generation;
        }
        let plan = plan(&self.observe(), &self.env_now());
        self.last = self.cluster.apply(&plan, writes).after(&self.last, self.cluster.now);
        plan
    }

    pub(super) fn round(&mut self) -> Plan {
        self.round_of(usize::MAX)
    }

    /// Nodes, storage, the garbage collector, and whoever looks after hooks do their part.
    pub(super) fn settle(&mut self) {
        self.cluster.settle();
        self.let_go();
        let claims: Vec<String> = self.cluster.all(PersistentVolumeClaim::RESOURCE).map(name_of).collect();
        for name in claims {
            self.cluster.edit(PersistentVolumeClaim::RESOURCE, &name, |claim| {
                let capacity = claim["spec"]["resources"]["requests"].clone();
                claim["status"] = json!({ "phase": "Bound", "capacity": capacity });
            });
        }
    }

    /// Pods lose what holds them before an update or a deletion, and get it back after an update.
    fn let_go(&mut self) {
        for name in self.pod_names() {
            self.edit_pod(&name, |pod| {
                let labels = &mut pod["metadata"]["labels"];
                match labels["lifecycle.apps.kruise.io/state"].as_str() {
                    Some("PreparingUpdate" | "PreparingDelete") => {
                        drop(labels.as_object_mut().unwrap().remove("block"));
                    }
                    Some("Updated") => labels["block"] = json!("yes"),
                    _ => {}
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
            self.cluster.pass(if quiet == 0 { 1 } else { 30 });
            self.settle();
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

    pub(super) fn pod_names(&self) -> Vec<String> {
        self.cluster.all(Pod::RESOURCE).map(name_of).collect()
    }

    /// Image by ordinal.
    pub(super) fn images(&self) -> Vec<(i32, String)> {
        let one = |pod: &Value| {
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
            (of_pod_name(&name_of(pod)).unwrap().1, image)
        };
        let mut images: Vec<_> = self.cluster.all(Pod::RESOURCE).map(one).collect();
        images.sort();
        images
    }

    pub(super) fn status(&self, field: &str) -> Value {
        self.set()["status"][field].clone()
    }

    pub(super) fn edit_pod(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        self.cluster.edit(Pod::RESOURCE, name, change);
    }
}
