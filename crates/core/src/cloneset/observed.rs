//! What a CloneSet's planner looks at.

use std::sync::Arc;

use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_api::meta::Head;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;

use crate::plan::Outcome;

/// A CloneSet and what belongs to it, all seen at the same time, and only when the cache shows all of our own writes.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The set.
    pub set: Arc<CloneSet>,
    /// Pods with an owner reference to the set, ended and terminating ones too.
    pub pods: Vec<Arc<Pod>>,
    /// Claims (`PersistentVolumeClaim`) with an owner reference to the set.
    pub claims: Vec<Arc<Head>>,
    /// ControllerRevisions of the namespace that the set controls, and those that nobody controls.
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// ImagePullJobs that the set controls.
    pub pull_jobs: Vec<Arc<Head>>,
    /// The nodes of the Pods. Only their labels are read, and only when the set [spreads its
    /// Pods](super::spreads_pods).
    pub nodes: Vec<Arc<Head>>,
    /// What came of the last plan for this set.
    pub last: Outcome,
}
