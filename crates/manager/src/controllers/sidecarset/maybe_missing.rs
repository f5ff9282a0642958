//! Which Pods may lack the containers of which set. It is looked at again before anything is said: here is only where to look.

use kruise_api::pod::Pod;
use kruise_runtime::resource::ObjectKey;
use parking_lot::Mutex;
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// Pods by set, and for which generation of the set all Pods were gone through.
#[derive(Default)]
pub(super) struct MaybeMissing {
    by_set: Mutex<HashMap<String, (i64, BTreeSet<ObjectKey>)>>,
    /// Held while Pods are gone through, so that nobody takes a half for the whole.
    walk: Mutex<()>,
}

impl MaybeMissing {
    /// Returns the Pods of a set. All are gone through when that was not done for this generation.
    pub(super) fn of(&self, set: &str, generation: i64, all: impl FnOnce() -> Vec<Arc<Pod>>) -> BTreeSet<ObjectKey> {
        let known = |by_set: &HashMap<String, (i64, BTreeSet<ObjectKey>)>| {
            let (about, pods) = by_set.get(set)?;
            (*about == generation).then(|| pods.clone())
        };
        let _walk = self.walk.lock();
        if let Some(pods) = known(&self.by_set.lock()) {
            return pods;
        }
        // A Pod that comes meanwhile is in the store already, or is added afterwards: its place has to be there before the walk begins.
        self.by_set.lock().insert(set.to_owned(), (generation, BTreeSet::new()));
        let found: Vec<ObjectKey> = all().iter().map(|pod| key(pod)).collect();
        let mut by_set = self.by_set.lock();
        let (_, pods) = by_set
            .entry(set.to_owned())
            .or_insert_with(|| (generation, BTreeSet::new()));
        pods.extend(found);
        pods.clone()
    }

    /// Adds a Pod.
    pub(super) fn insert(&self, set: &str, pod: &Pod) {
        if let Some((_, pods)) = self.by_set.lock().get_mut(set) {
            pods.insert(key(pod));
        }
    }

    /// Returns the sets that a Pod may lack.
    pub(super) fn sets_of(&self, pod: &Pod) -> Vec<String> {
        let by_set = self.by_set.lock();
        if by_set.values().all(|(_, pods)| pods.is_empty()) {
            return Vec::new();
        }
        let key = key(pod);
        let sets = by_set.iter().filter(|(_, (_, pods))| pods.contains(&key));
        sets.map(|(set, _)| set.clone()).collect()
    }

    /// Lets go of a Pod that is no more.
    pub(super) fn gone(&self, pod: &Pod) {
        let key = key(pod);
        for (_, pods) in self.by_set.lock().values_mut() {
            pods.remove(&key);
        }
    }

    /// Lets go of a set, or has all Pods gone through again.
    pub(super) fn forget(&self, set: &str) {
        self.by_set.lock().remove(set);
    }
}

fn key(pod: &Pod) -> ObjectKey {
    ObjectKey::new(&pod.metadata.namespace, &pod.metadata.name)
}
