//! What controllers remember of annotations that they wrote to Pods and that the cache does not keep.

use crate::apply::Applied;
use kruise_api::pod::Pod;
use kruise_core::{plan::Plan, shared::probe_marks::Written};
use kruise_runtime::resource::ObjectKey;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};

/// What was written to Pods last, by the object that it was written for.
#[derive(Default)]
pub(super) struct PodMarks(Mutex<HashMap<ObjectKey, Written>>);

impl PodMarks {
    /// What was written to these Pods; that of others is forgotten.
    pub(super) fn of<'a>(&self, key: &ObjectKey, pods: impl Iterator<Item = &'a Pod>) -> Written {
        let mut all = self.0.lock();
        let Some(written) = all.get_mut(key) else {
            return Written::default();
        };
        let there: BTreeSet<String> = pods.map(|pod| pod.metadata.uid.to_string()).collect();
        written.retain(|uid| there.contains(uid));
        written.clone()
    }

    pub(super) fn applied(&self, key: &ObjectKey, plan: &Plan, applied: &Applied) {
        let mut all = self.0.lock();
        let written = all.entry(key.clone()).or_default();
        written.remember(plan, &applied.outcome.failures);
        if written.is_empty() {
            all.remove(key);
        }
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }
}
