//! What a SidecarSet's planner looks at.

use std::collections::BTreeMap;
use std::sync::Arc;

use kruise_api::namespace::Namespace;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use kruise_api::sidecarset::v1beta1::SidecarSet;

use crate::plan::{Env, Observation, Outcome, Plan};

/// A SidecarSet and what belongs to it, all seen at the same time, and only when the cache shows all of our own writes.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The set.
    pub set: Arc<SidecarSet>,
    /// Pods that say that the set was injected into them, in any namespace and state.
    pub pods: Vec<Arc<Pod>>,
    /// Pods that may [lack](super::missing::lacks) the set's containers.
    pub maybe_missing: Vec<Arc<Pod>>,
    /// Canaries of the set.
    pub canaries: Vec<Arc<SidecarSet>>,
    /// The namespaces of these Pods, by name.
    pub namespaces: BTreeMap<String, Arc<Namespace>>,
    /// Namespace of the manager, where revisions are kept.
    pub system: String,
    /// Revisions that say they are the set's, those that are named like its own, and the one that its injection names.
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// All annotations of Pods that are to be updated, where the set [looks at them](super::annotations_to_read).
    pub annotations: BTreeMap<PodVersion, BTreeMap<String, String>>,
    /// What came of the last plan for this set.
    pub last: Outcome,
}

/// A Pod at one time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodVersion {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Version, as the server counts.
    pub version: u64,
}

impl PodVersion {
    /// A Pod as it is in the cache.
    pub fn of(pod: &Pod) -> Self {
        Self {
            namespace: pod.metadata.namespace.to_string(),
            name: pod.metadata.name.to_string(),
            version: pod.metadata.resource_version,
        }
    }
}

impl Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        super::plan(self, env)
    }
}
