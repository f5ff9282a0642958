//! What a CloneSet's planner looks at.

use std::collections::BTreeSet;
use std::sync::Arc;

use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_api::meta::PartialObject;
use kruise_api::node::Node;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use serde_json::Value;

use crate::plan::{Env, Observation, Outcome, Plan};
use crate::rehearsal::{self, Parts, Rehearsed};

/// A CloneSet and what belongs to it, all seen at the same time, and only when the cache shows all of our own writes.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The set.
    pub set: Arc<CloneSet>,
    /// Pods with an owner reference to the set, ended and terminating ones too.
    pub pods: Vec<Arc<Pod>>,
    /// Pods with an owner reference to the set that cannot be read, but for their metadata. An older version of one may be among
    /// the others.
    pub unreadable: Vec<Arc<PartialObject>>,
    /// Claims (`PersistentVolumeClaim`) with an owner reference to the set.
    pub claims: Vec<Arc<PartialObject>>,
    /// Claims with an owner reference to one of these Pods, and none to the set.
    pub pods_claims: Vec<Arc<PartialObject>>,
    /// Names that Pods of the set with these claims would have, and that other Pods of the namespace have: Pods that were released, or
    /// somebody else's.
    pub names_taken: BTreeSet<String>,
    /// ControllerRevisions of the namespace that the set controls, those that nobody controls, and those named like its own.
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// ImagePullJobs that the set controls.
    pub pull_jobs: Vec<Arc<PartialObject>>,
    /// The nodes of the Pods. Only their labels are read, and only when the set [spreads its
    /// Pods](super::spreads_pods).
    pub nodes: Vec<Arc<Node>>,
    /// What came of the last plan for this set.
    pub last: Outcome,
}

impl Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        super::plan(self, env)
    }
}

impl Rehearsed for Observed {
    type Workload = CloneSet;

    fn parts(&mut self) -> Parts<'_, CloneSet> {
        Parts {
            workload: &mut self.set,
            pods: &mut self.pods,
            revisions: &mut self.revisions,
            last: &mut self.last,
        }
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
