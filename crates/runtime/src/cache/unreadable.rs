//! Objects whose newest version cannot be read: what is known of them, so that nobody takes them for absent.

use std::collections::BTreeMap;
use std::sync::Arc;

use kruise_api::meta::PartialObject;

use super::kind::Named;
use crate::resource::ObjectKey;

#[derive(Default)]
pub(super) struct Unreadable(BTreeMap<ObjectKey, Entry>);

struct Entry {
    partial: Arc<PartialObject>,
    /// The list in which the object was seen last.
    list: u32,
}

impl Unreadable {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, name: Named<'_>) -> Option<&Arc<PartialObject>> {
        // There are hardly ever any.
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&key(name)).map(|entry| &entry.partial)
    }

    /// Those of a namespace, by name.
    pub(super) fn within(&self, namespace: &str) -> Vec<Arc<PartialObject>> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let from = self.0.range(ObjectKey::new(namespace, "")..);
        let same = from.take_while(|(key, _)| &*key.namespace == namespace);
        same.map(|(_, entry)| entry.partial.clone()).collect()
    }

    pub(super) fn put(&mut self, partial: PartialObject, list: u32) {
        let partial = Arc::new(partial);
        self.0.insert(key((&partial.metadata).into()), Entry { partial, list });
    }

    pub(super) fn remove(&mut self, name: Named<'_>) {
        if !self.0.is_empty() {
            self.0.remove(&key(name));
        }
    }

    /// Forgets what was not seen in this list.
    pub(super) fn sweep(&mut self, list: u32) {
        self.0.retain(|_, entry| entry.list == list);
    }
}

fn key(name: Named<'_>) -> ObjectKey {
    ObjectKey::new(name.namespace, name.name)
}
