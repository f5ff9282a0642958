//! The stores of a process by the type of their objects, for whoever reads them without being a controller.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::store::Store;
use super::sync::SyncState;

/// Stores by the type of their objects. Clones share the stores.
#[derive(Clone, Default)]
pub struct Stores(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Stores {
    /// Adds a store.
    pub fn insert<K: Send + Sync + 'static>(&mut self, store: Store<K>) {
        self.0.insert(TypeId::of::<K>(), Arc::new(store));
    }

    /// Returns the store of these objects, however far it has come.
    pub fn get<K: Send + Sync + 'static>(&self) -> Option<Store<K>> {
        self.0.get(&TypeId::of::<K>())?.downcast_ref::<Store<K>>().cloned()
    }

    /// Returns the store of these objects once its first list is complete: before that, what is not in it may be there all the same.
    pub fn synced<K: Send + Sync + 'static>(&self) -> Option<Store<K>> {
        self.get().filter(|store| store.state() == SyncState::Synced)
    }

    /// Returns the name of the kind while its first list is not complete. A kind that nobody watches, or that the API server does not serve, is not waited for.
    pub fn pending<K: Send + Sync + 'static>(&self) -> Option<String> {
        let store = self.get::<K>()?;
        (store.state() == SyncState::Pending).then(|| store.resource().to_string())
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stores({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};

    use super::super::{Change, Kind};
    use super::*;

    #[test]
    fn given_a_store_then_it_is_found_by_its_type_and_synced_after_its_first_list() {
        let mut stores = Stores::default();
        let pods = Store::<Pod>::new(Kind::of());
        stores.insert(pods.clone());
        assert!(stores.get::<ConfigMap>().is_none());
        assert_eq!(stores.pending::<ConfigMap>(), None);
        assert!(stores.get::<Pod>().is_some() && stores.synced::<Pod>().is_none());
        assert_eq!(stores.pending::<Pod>().as_deref(), Some("pods"));
        pods.feed(Change::ListBegins);
        pods.feed(Change::ListEnds);
        assert!(stores.synced::<Pod>().is_some());
        assert_eq!(stores.pending::<Pod>(), None);
    }
}
