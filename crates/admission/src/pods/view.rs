//! What steps see: the cache where it is complete, and what was read from the API server for this Pod.

mod spreads;

use super::{MARKERS_BY_NAMESPACE, REVISIONS_BY_SIDECAR_SET, SETS_BY_POD, STATES_BY_TARGET};
use crate::{Context, look_up::Freshness};
use kruise_api::{
    configuration::CustomWorkload, kind::Kind as _, namespace::Namespace,
    persistentpodstate::v1beta1::PersistentPodState, podprobemarker::v1alpha1::PodProbeMarker,
    podunavailablebudget::v1beta1::PodUnavailableBudget, revision::ControllerRevision, sidecarset::v1beta1::SidecarSet,
};
use kruise_core::admission::{Needs, ObjectRef};
use kruise_core::persistentpodstate::{kinds, target_key, workload_of};
use kruise_core::pod::{Budgets, Missing, PersistentPodStates, Placement, ProbeMarkers, SidecarSets};
use kruise_core::shared::workload::WorkloadRef;
use kruise_core::sidecarset::select;
use kruise_runtime::cache::{Store, SyncState};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The cache, and above it what was read because the cache did not have it.
pub(super) struct CacheView<'a> {
    context: &'a Context,
    /// Where the Pod is created.
    namespace: &'a str,
    read: BTreeMap<ObjectRef, Option<Value>>,
    placed: Option<Placement>,
}

impl<'a> CacheView<'a> {
    pub(super) fn new(context: &'a Context, namespace: &'a str) -> Self {
        Self {
            context,
            namespace,
            read: BTreeMap::new(),
            placed: None,
        }
    }

    /// Reads something from the API server.
    pub(super) async fn read(&mut self, object: ObjectRef) -> Result<(), String> {
        let needs = Needs {
            objects: BTreeSet::from([object.clone()]),
            ..Needs::default()
        };
        let mut found = self
            .context
            .lookup
            .look_up(self.namespace, needs, Freshness::Live)
            .await;
        let value = found.lookups.objects.remove(&object);
        self.read.insert(object, value.unwrap_or(Ok(None))?);
        Ok(())
    }

    /// Those of these objects that were not read yet.
    pub(super) fn unread(&self, objects: Vec<ObjectRef>) -> Vec<ObjectRef> {
        let mut objects = objects;
        objects.retain(|object| !self.read.contains_key(object));
        objects
    }

    /// Something that was read, if it was there; nothing when it was not read.
    #[allow(clippy::option_option)]
    fn one<K: DeserializeOwned>(&self, object: &ObjectRef) -> Option<Option<Arc<K>>> {
        let read = self.read.get(object)?;
        Some(read.as_ref().and_then(typed).map(Arc::new))
    }

    fn list<K: DeserializeOwned>(&self, object: &ObjectRef) -> Option<Vec<Arc<K>>> {
        let read = self.read.get(object)?;
        let items = read.as_ref().and_then(|list| list.get("items")?.as_array());
        let items = items.into_iter().flatten();
        Some(items.filter_map(|item| typed(item).map(Arc::new)).collect())
    }

    /// The store of a kind, if all is in it that there is. A kind that nobody watches is not known to this process, and counts as one without objects.
    fn store<K: Send + Sync + 'static>(&self) -> Result<Option<Store<K>>, ()> {
        let Some(store) = self.context.stores.get::<K>() else {
            return Ok(None);
        };
        match store.state() {
            SyncState::Synced => Ok(Some(store)),
            SyncState::Missing => Ok(None),
            SyncState::Pending => Err(()),
        }
    }
}

/// An object that cannot be read is passed over, as the cache does.
fn typed<K: DeserializeOwned>(value: &Value) -> Option<K> {
    kruise_api::read::from_value(value).ok()
}

impl SidecarSets for CacheView<'_> {
    fn candidates(&self, namespace: &str, labels: &BTreeMap<&str, &str>) -> Result<Vec<Arc<SidecarSet>>, Missing> {
        let mut sets = if let Some(listed) = self.list(&ObjectRef::SidecarSets) {
            listed
        } else {
            let store = self.store::<SidecarSet>();
            let Some(store) = store.map_err(|()| Missing(ObjectRef::SidecarSets))? else {
                return Ok(Vec::new());
            };
            let mut sets = Vec::new();
            let pairs = labels.iter().map(|(key, value)| (*key, *value));
            select::lookup_keys(namespace, pairs, |key| sets.extend(store.by(&SETS_BY_POD, key)));
            sets
        };
        for object in self.read.keys() {
            if let ObjectRef::SidecarSet(name) = object {
                sets.retain(|set| set.metadata.name.as_deref() != Some(name));
                sets.extend(self.one(object).flatten());
            }
        }
        Ok(sets)
    }

    fn namespace(&self, name: &str) -> Result<Option<Arc<Namespace>>, Missing> {
        let object = ObjectRef::Namespace(name.to_owned());
        if let Some(read) = self.one(&object) {
            return Ok(read);
        }
        // One that was just made may not be in the cache yet.
        let cached = self
            .store::<Namespace>()
            .ok()
            .flatten()
            .and_then(|store| store.get("", name));
        cached.map(Some).ok_or(Missing(object))
    }

    fn revision(&self, name: &str) -> Result<Option<Arc<ControllerRevision>>, Missing> {
        let object = ObjectRef::Revision(name.to_owned());
        if let Some(read) = self.one(&object) {
            return Ok(read);
        }
        let store = self.store::<ControllerRevision>().ok().flatten();
        let cached = store.and_then(|store| store.get(&self.context.namespace, name));
        cached.map(Some).ok_or(Missing(object))
    }

    fn revisions_of(&self, set: &str) -> Result<Vec<Arc<ControllerRevision>>, Missing> {
        let object = ObjectRef::RevisionsOfSidecarSet(set.to_owned());
        if let Some(read) = self.list(&object) {
            return Ok(read);
        }
        let store = self
            .store::<ControllerRevision>()
            .ok()
            .flatten()
            .ok_or(Missing(object))?;
        let namespace = &*self.context.namespace;
        Ok(store.select(&REVISIONS_BY_SIDECAR_SET, set, |revision| {
            &*revision.metadata.namespace == namespace
        }))
    }
}

impl Budgets for CacheView<'_> {
    fn budgets(&self, namespace: &str) -> Vec<Arc<PodUnavailableBudget>> {
        let budgets = self.context.budgets.as_ref();
        budgets.map_or_else(Vec::new, |budgets| budgets.of_namespace(namespace))
    }

    fn workload_of(&self, namespace: &str, owner: WorkloadRef) -> WorkloadRef {
        match &self.context.budgets {
            Some(budgets) => budgets.workload_of(namespace, owner),
            None => owner,
        }
    }
}

impl PersistentPodStates for CacheView<'_> {
    fn states_of(&self, namespace: &str, workload: &WorkloadRef) -> Result<Vec<Arc<PersistentPodState>>, Missing> {
        let all = ObjectRef::AllOf(PersistentPodState::RESOURCE);
        if let Some(mut listed) = self.list::<PersistentPodState>(&all) {
            listed.retain(|state| {
                state.metadata.namespace.as_deref() == Some(namespace)
                    && workload_of(&state.spec.target_ref).is_same(workload)
            });
            return Ok(listed);
        }
        let store = self.store::<PersistentPodState>().map_err(|()| Missing(all))?;
        let key = target_key(namespace, workload);
        Ok(store.map(|store| store.by(&STATES_BY_TARGET, &key)).unwrap_or_default())
    }

    fn listed_workloads(&self) -> Result<Result<Vec<CustomWorkload>, String>, Missing> {
        let object = ObjectRef::Configuration;
        let map = self.read.get(&object).ok_or(Missing(object))?;
        Ok(kinds::white_list(map.as_ref()))
    }
}

impl ProbeMarkers for CacheView<'_> {
    fn probe_markers(&self, namespace: &str) -> Result<Vec<Arc<PodProbeMarker>>, Missing> {
        let object = ObjectRef::AllOf(PodProbeMarker::RESOURCE);
        if let Some(read) = self.list(&object) {
            return Ok(read);
        }
        let store = self.store::<PodProbeMarker>().map_err(|()| Missing(object))?;
        Ok(store.map_or_else(Vec::new, |store| store.by(&MARKERS_BY_NAMESPACE, namespace)))
    }
}
