//! What a StatefulSet's planner looks at.

use std::collections::BTreeSet;
use std::sync::Arc;

use kruise_api::gates::Gates;
use kruise_api::meta::PartialObject;
use kruise_api::names::pattern;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use kruise_api::statefulset::v1beta1::StatefulSet;
use kruise_api::storage::{PersistentVolumeClaim, StorageClass};
use serde_json::Value;

use super::ordinals::{Ordinals, of_pod_name, pod_name};
use crate::plan::{Env, Observation, Outcome, Plan};
use crate::rehearsal::{self, Parts, Rehearsed};

/// Pods that are made in one round. More than a set usually has; it bounds what a mistyped number of replicas costs.
pub(super) const NEW_PODS_PER_ROUND: usize = 2000;

/// A StatefulSet and what belongs to it, all seen at the same time, and only when the cache shows all of our own writes.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The set.
    pub set: Arc<StatefulSet>,
    /// Pods with an owner reference to the set, ended and terminating ones too.
    pub pods: Vec<Arc<Pod>>,
    /// Pods named like the set's that nobody controls.
    pub orphans: Vec<Arc<Pod>>,
    /// The API server itself says that the set is there and not on its way out. Nothing is adopted before: the garbage collector would take it along
    /// with a set that is already gone.
    pub is_confirmed: bool,
    /// Pods with an owner reference to the set that cannot be read, but for their metadata. An older version of one may be among the others.
    pub unreadable: Vec<Arc<PartialObject>>,
    /// [Wanted names](Names::pods) that Pods of somebody else have.
    pub names_taken: BTreeSet<String>,
    /// Claims of the [wanted names](Names::claims), whoever made them.
    pub claims: Vec<Arc<PersistentVolumeClaim>>,
    /// Storage classes. Only looked at where claims grow with their templates.
    pub classes: Vec<Arc<StorageClass>>,
    /// ControllerRevisions of the namespace that the set controls, those that nobody controls, and those named like its own.
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// ImagePullJobs that the set controls.
    pub pull_jobs: Vec<Arc<PartialObject>>,
    /// Nodes of terminating Pods that are gone or do not answer.
    pub lost_nodes: BTreeSet<String>,
    /// What came of the last plan for this set.
    pub last: Outcome,
}

impl Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        super::plan(self, env)
    }
}

impl Rehearsed for Observed {
    type Workload = StatefulSet;

    fn parts(&mut self) -> Parts<'_, StatefulSet> {
        Parts {
            workload: &mut self.set,
            pods: &mut self.pods,
            revisions: &mut self.revisions,
            last: &mut self.last,
        }
    }

    fn place_of(pod: &Pod) -> Option<String> {
        Some(pod.metadata.name.to_string())
    }

    fn put(&mut self, kind: &str, object: &Value) -> bool {
        match kind {
            "PersistentVolumeClaim" => rehearsal::put(&mut self.claims, object),
            "ImagePullJob" => rehearsal::put(&mut self.pull_jobs, object),
            _ => false,
        }
    }

    fn remove(&mut self, kind: &str, name: &str) -> bool {
        match kind {
            "PersistentVolumeClaim" => rehearsal::remove(&mut self.claims, name),
            "ImagePullJob" => rehearsal::remove(&mut self.pull_jobs, name),
            _ => false,
        }
    }
}

/// Names of what belongs to a set, whether it is there or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Of Pods that are missing.
    pub pods: Vec<String>,
    /// Of claims, of Pods that are there and of those that are missing.
    pub claims: Vec<String>,
}

impl Names {
    /// Returns the names of a set with these Pods; of a huge number of missing ones the first.
    pub fn of(set: &StatefulSet, pods: &[Arc<Pod>], gates: Gates) -> Self {
        let name = set.metadata.name.as_deref().unwrap_or_default();
        let there = pods.iter().filter_map(|pod| of_pod_name(&pod.metadata.name));
        let there = there.filter(|(of, _)| *of == name).map(|(_, ordinal)| ordinal);
        let there: BTreeSet<i32> = there.collect();
        let wanted = Ordinals::of(set, gates);
        let missing = wanted.iter().filter(|ordinal| !there.contains(ordinal));
        let missing: Vec<i32> = missing.take(NEW_PODS_PER_ROUND).collect();
        let templates = set.spec.volume_claim_templates.value();
        let templates = templates.as_array().into_iter().flatten();
        let templates = templates.filter_map(|template| template.pointer("/metadata/name").and_then(Value::as_str));
        let all = || there.iter().chain(&missing);
        let claims =
            templates.flat_map(|template| all().map(|ordinal| pattern::stateful_set_claim(template, name, *ordinal)));
        Self {
            claims: claims.collect(),
            pods: missing.iter().map(|ordinal| pod_name(name, *ordinal)).collect(),
        }
    }
}
