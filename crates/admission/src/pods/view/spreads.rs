//! What the step of WorkloadSpreads sees.

use super::{CacheView, typed};
use crate::pods::SPREADS_BY_NAMESPACE;
use crate::spreads::listed;
use kruise_api::configuration::CustomWorkload;
use kruise_api::kind::Kind as _;
use kruise_api::meta::{OwnerReference, PartialObject};
use kruise_api::workloadspread::v1beta1::WorkloadSpread;
use kruise_core::admission::ObjectRef;
use kruise_core::pod::{Above, Missing, Placement, WorkloadSpreads};
use kruise_core::shared::workload::WorkloadRef;
use kruise_core::workloadspread::{ledger::Ask, version::VersionedKinds};
use std::sync::Arc;

impl CacheView<'_> {
    /// Asks a spread for a subset.
    pub(in crate::pods) async fn place(&mut self, ask: &Ask) -> Result<(), String> {
        let spreads = self
            .context
            .spreads
            .as_ref()
            .ok_or("nobody keeps WorkloadSpreads here")?;
        let placed = spreads.place(ask, &*self.context.lookup).await;
        self.placed = Some(placed.map_err(|error| format!("WorkloadSpread {}: {error}", ask.spread))?);
        Ok(())
    }
}

impl WorkloadSpreads for CacheView<'_> {
    fn spreads(&self, namespace: &str) -> Result<Vec<Arc<WorkloadSpread>>, Missing> {
        if self.context.spreads.is_none() {
            return Ok(Vec::new());
        }
        let all = ObjectRef::AllOf(WorkloadSpread::RESOURCE);
        if let Some(listed) = self.list(&all) {
            return Ok(listed);
        }
        let store = self.store::<WorkloadSpread>().map_err(|()| Missing(all))?;
        Ok(store
            .map(|store| store.by(&SPREADS_BY_NAMESPACE, namespace))
            .unwrap_or_default())
    }

    fn custom_workloads(&self) -> Result<Arc<[CustomWorkload]>, Missing> {
        if let Some(known) = self.context.spreads.as_ref().and_then(crate::Spreads::custom) {
            return Ok(known);
        }
        let read = self.read.get(&ObjectRef::Configuration);
        let map = read.ok_or(Missing(ObjectRef::Configuration))?;
        // A list that cannot be read names nothing.
        Ok(listed(map.as_ref()).unwrap_or_default())
    }

    fn above(&self, namespace: &str, workload: &WorkloadRef) -> Result<Above, Missing> {
        let managed = |meta: &PartialObject| match meta.metadata.controller() {
            Some(owner) => Above::Workload(WorkloadRef::from(owner as &OwnerReference)),
            None => Above::Nothing,
        };
        let object = ObjectRef::Workload(workload.clone());
        if let Some(read) = self.read.get(&object) {
            let read: Option<PartialObject> = read.as_ref().and_then(typed);
            return Ok(read.as_ref().map_or(Above::Gone, managed));
        }
        let spreads = self
            .context
            .spreads
            .as_ref()
            .filter(|_| workload.is_of("apps", "ReplicaSet"));
        let cached = spreads.and_then(|spreads| spreads.replica_set(namespace, &workload.name));
        // What the cache lacks may have been made a moment ago.
        cached.as_deref().map(managed).ok_or(Missing(object))
    }

    fn versioned_kinds(&self) -> VersionedKinds {
        let spreads = self.context.spreads.as_ref();
        spreads.map(|spreads| spreads.versioned().clone()).unwrap_or_default()
    }

    fn placed(&self) -> Option<&Placement> {
        self.placed.as_ref()
    }
}
