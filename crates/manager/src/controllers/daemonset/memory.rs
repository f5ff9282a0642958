//! What is remembered of sets and no object tells.

use jiff::Timestamp;
use kruise_api::daemonset::v1beta1::DaemonSet;
use kruise_core::{
    daemonset::{failed_pods::FailedPods, node_requirements},
    shared::node_eligibility::NodeRequirements,
};
use kruise_runtime::resource::ObjectKey;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

/// What is remembered, by set.
#[derive(Default)]
pub(super) struct Memory(Mutex<HashMap<ObjectKey, Remembered>>);

#[derive(Default)]
struct Remembered {
    /// What Pods ask of their nodes, with the UID and the generation of the set that asks.
    requirements: Option<(Identity, Option<Arc<NodeRequirements>>)>,
    /// Pods that failed, with the UID and the generation of their set.
    failed: Option<(Identity, FailedPods)>,
}

type Identity = (String, i64);

impl Memory {
    pub(super) fn requirements(&self, key: &ObjectKey, set: &DaemonSet) -> Option<Arc<NodeRequirements>> {
        let identity = (
            set.uid().unwrap_or_default(),
            set.metadata.generation.unwrap_or_default(),
        );
        let mut all = self.0.lock();
        let remembered = all.entry(key.clone()).or_default();
        if let Some((known, requirements)) = &remembered.requirements
            && *known == identity
        {
            return requirements.clone();
        }
        let requirements = node_requirements(set).ok().map(Arc::new);
        remembered.requirements = Some((identity, requirements.clone()));
        requirements
    }

    pub(super) fn failed_pods(&self, key: &ObjectKey, uid: &str, generation: i64) -> FailedPods {
        let all = self.0.lock();
        let failed = all.get(key).and_then(|remembered| remembered.failed.as_ref());
        let about = failed.filter(|((about, at), _)| about == uid && *at == generation);
        about.map(|(_, failed)| failed.clone()).unwrap_or_default()
    }

    /// A failed Pod of this node is deleted.
    pub(super) fn failed(&self, key: &ObjectKey, uid: &str, generation: i64, node: &str, now: Timestamp) {
        let mut failed = self.failed_pods(key, uid, generation);
        failed.deleted(node, now);
        let identity = (uid.to_owned(), generation);
        self.0.lock().entry(key.clone()).or_default().failed = Some((identity, failed));
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }
}
