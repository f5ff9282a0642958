//! What a SidecarSet's planner looks at.

use std::collections::BTreeMap;
use std::sync::Arc;

use kruise_api::names::annotation;
use kruise_api::namespace::Namespace;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use kruise_api::sidecarset::v1beta1::SidecarSet;

use super::snapshot::full_name;
use crate::plan::{Env, Observation, Outcome, Plan};
use crate::rehearsal::{Parts, Rehearsed};

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

impl Rehearsed for Observed {
    type Workload = SidecarSet;

    fn parts(&mut self) -> Parts<'_, SidecarSet> {
        Parts {
            workload: &mut self.set,
            pods: &mut self.pods,
            revisions: &mut self.revisions,
            last: &mut self.last,
        }
    }

    /// Pods of a set are in many namespaces.
    fn name_of(pod: &Pod) -> String {
        full_name(pod)
    }

    fn is_update(before: &Pod, after: &Pod) -> bool {
        let record = |pod: &Pod| pod.metadata.annotation(annotation::SIDECAR_SET_HASH).map(str::to_owned);
        record(before) != record(after)
    }

    fn updated(&mut self) -> usize {
        let status = self.set.status.as_ref();
        usize::try_from(status.map_or(0, |status| status.updated_pods)).unwrap_or_default()
    }
}

impl Observed {
    /// Takes what the cache has for all annotations of Pods that were not read. What a set patches into them may come out otherwise; which Pods it updates, and
    /// when, does not depend on it.
    #[must_use]
    pub fn with_cached_annotations(mut self) -> Self {
        for pod in &self.pods {
            let known = pod.metadata.annotations.iter();
            let known = known.map(|(key, value)| (key.to_owned(), value.to_string()));
            self.annotations
                .entry(PodVersion::of(pod))
                .or_insert_with(|| known.collect());
        }
        self
    }
}
