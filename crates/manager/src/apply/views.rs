//! Where the writes of a controller become visible.

use std::collections::HashMap;
use std::sync::Arc;

use kruise_api::resource::Resource;
use kruise_runtime::cache::{Position, Store, Version};
use kruise_runtime::expectations;

/// A store by the kind that it shows. A kind that is not watched is not waited for.
#[derive(Default)]
pub(crate) struct Views(HashMap<&'static Resource, View>);

impl Views {
    /// Writes of the store's kind are waited for until it shows them.
    pub(crate) fn add<K: Send + Sync + 'static>(&mut self, store: &Store<K>) {
        self.0.insert(store.resource(), View(Arc::new(store.clone())));
    }

    pub(super) fn of(&self, resource: &'static Resource) -> Option<&View> {
        self.0.get(resource)
    }
}

/// A view of any store.
#[derive(Clone)]
pub(super) struct View(Arc<dyn expectations::View>);

impl expectations::View for View {
    fn resource(&self) -> &'static Resource {
        self.0.resource()
    }

    fn position(&self) -> Position {
        self.0.position()
    }

    fn seen(&self, namespace: &str, name: &str) -> Option<Version> {
        self.0.seen(namespace, name)
    }
}
