//! A CloneSet in the model cluster, for tests: observe, plan, apply, and let time pass.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_api::imagepulljob::v1beta1::ImagePullJob;
use kruise_api::kind::Kind as _;
use kruise_api::merge_patch::merge;
use kruise_api::meta::PartialObject;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::fixtures::{self, SET_UID};
use super::{Observed, plan};
use crate::plan::harness::{Cluster, name_of};
use crate::plan::{Env, IdSource, Outcome, Plan};

/// The cluster, and what the manager knows besides.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) env: Env,
    pub(super) last: Outcome,
    /// The generation of the set that the last outcome is about.
    generation: Value,
    rounds: u64,
}

impl World {
    /// A cluster with the set `web` and nothing else.
    pub(super) fn new(spec: &Value) -> Self {
        let mut cluster = Cluster::at(fixtures::start());
        cluster.put(CloneSet::RESOURCE, fixtures::set(spec));
        Self {
            cluster,
            env: fixtures::env(),
            last: Outcome::default(),
            generation: Value::Null,
            rounds: 0,
        }
    }

    pub(super) fn set(&self) -> &Value {
        self.cluster.get(CloneSet::RESOURCE, "web").unwrap()
    }

    /// Changes the spec of the set, as a user would.
    pub(super) fn edit_spec(&mut self, patch: &Value) {
        self.cluster.edit(CloneSet::RESOURCE, "web", |set| {
            merge(&mut set["spec"], patch);
            set["metadata"]["generation"] = json!(set["metadata"]["generation"].as_i64().unwrap() + 1);
        });
    }

    pub(super) fn image(&mut self, image: &str) {
        self.edit_spec(&json!({ "template": fixtures::template(image) }));
    }

    pub(super) fn observe(&self) -> Observed {
        let is_owned = |object: &&Value| {
            let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.into_iter().any(|owner| owner["uid"] == SET_UID)
        };
        let heads = |kind| -> Vec<Arc<PartialObject>> { self.cluster.all(kind).filter(is_owned).map(read).collect() };
        let pods: Vec<&Value> = self.cluster.all(Pod::RESOURCE).filter(is_owned).collect();
        let is_pods = |object: &&Value| {
            let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            let mut owners = owners.into_iter().map(|owner| &owner["uid"]);
            owners.any(|owner| pods.iter().any(|pod| pod["metadata"]["uid"] == *owner))
        };
        let claims = self.cluster.all(PersistentVolumeClaim::RESOURCE);
        let pods_claims = claims.filter(|claim| is_pods(claim) && !is_owned(claim));
        Observed {
            set: read(self.set()),
            pods: pods.iter().map(|pod| read(pod)).collect(),
            pods_claims: pods_claims.map(read).collect(),
            names_taken: self
                .cluster
                .all(Pod::RESOURCE)
                .filter(|pod| !is_owned(pod))
                .map(name_of)
                .collect(),
            claims: heads(PersistentVolumeClaim::RESOURCE),
            revisions: self.cluster.all(ControllerRevision::RESOURCE).map(read).collect(),
            pull_jobs: heads(ImagePullJob::RESOURCE),
            unreadable: Vec::new(),
            nodes: Vec::new(),
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
            self.generation = generation;
        }
        let plan = plan(&self.observe(), &env);
        self.last = self.cluster.apply(&plan, writes).after(&self.last, self.cluster.now);
        plan
    }

    pub(super) fn round(&mut self) -> Plan {
        self.round_of(usize::MAX)
    }

    /// Rounds until nothing is written any more, nodes doing their part in between. Returns the number of writes.
    pub(super) fn run(&mut self) -> usize {
        let before = self.cluster.writes;
        let mut quiet = 0;
        for _ in 0..500 {
            let plan = self.round();
            let changed = self.cluster.clone();
            // Long enough for grace periods, young claims and the like.
            self.cluster.pass(if quiet == 0 { 1 } else { 30 });
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

    pub(super) fn pod_names(&self) -> Vec<String> {
        self.cluster.all(Pod::RESOURCE).map(name_of).collect()
    }

    pub(super) fn images(&self) -> Vec<String> {
        let image = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
        let mut images: Vec<String> = self.cluster.all(Pod::RESOURCE).map(image).collect();
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

pub(super) fn read<T: DeserializeOwned>(object: &Value) -> Arc<T> {
    // Through text, because raw parts keep what was written.
    Arc::new(serde_json::from_str(&object.to_string()).unwrap())
}
