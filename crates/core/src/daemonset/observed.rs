//! What a DaemonSet's planner looks at.

use std::sync::Arc;

use kruise_api::daemonset::v1beta1::DaemonSet;
use kruise_api::meta::PartialObject;
use kruise_api::node::Node;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use serde_json::Value;

use super::failed_pods::FailedPods;
use super::nodes::target_node;
use crate::plan::{Env, Observation, Outcome, Plan};
use crate::rehearsal::{self, Parts, Rehearsed};

/// A DaemonSet and what belongs to it, all seen at the same time, and only when the cache shows all of our own writes.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The set.
    pub set: Arc<DaemonSet>,
    /// Pods with an owner reference to the set, ended and terminating ones too.
    pub pods: Vec<Arc<Pod>>,
    /// Pods of the namespace that nobody manages and that the selector chooses. Empty unless the API server has just said that the set is there and stays.
    pub orphans: Vec<Arc<Pod>>,
    /// Pods with an owner reference to the set that cannot be read, but for their metadata.
    pub unreadable: Vec<Arc<PartialObject>>,
    /// ControllerRevisions of the namespace that the set controls, those that nobody controls, and those named like its own.
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// ImagePullJobs that the set controls.
    pub pull_jobs: Vec<Arc<PartialObject>>,
    /// All nodes.
    pub nodes: Vec<Arc<Node>>,
    /// Nodes on which Pods failed, and when to try again.
    pub failed_pods: FailedPods,
    /// What came of the last plan for this set.
    pub last: Outcome,
}

impl Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        super::plan(self, env)
    }
}

impl Rehearsed for Observed {
    type Workload = DaemonSet;

    fn parts(&mut self) -> Parts<'_, DaemonSet> {
        Parts {
            workload: &mut self.set,
            pods: &mut self.pods,
            revisions: &mut self.revisions,
            last: &mut self.last,
        }
    }

    fn place_of(pod: &Pod) -> Option<String> {
        target_node(pod).map(|node| format!("on {node}"))
    }

    fn put(&mut self, kind: &str, object: &Value) -> bool {
        match kind {
            "ImagePullJob" => rehearsal::put(&mut self.pull_jobs, object),
            _ => false,
        }
    }

    fn remove(&mut self, kind: &str, name: &str) -> bool {
        match kind {
            "ImagePullJob" => rehearsal::remove(&mut self.pull_jobs, name),
            _ => false,
        }
    }
}
