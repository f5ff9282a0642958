//! What steps can see of the cluster.

use super::persistent_states::PersistentPodStates;
use super::probes::ProbeMarkers;
use super::related_budget::Budgets;
use super::sidecars::SidecarSets;
use super::workload_spread::WorkloadSpreads;
use crate::admission::ObjectRef;
use crate::shared::workload::WorkloadRef;
use kruise_api::configuration::CustomWorkload;
use kruise_api::namespace::Namespace;
use kruise_api::persistentpodstate::v1beta1::PersistentPodState;
use kruise_api::podprobemarker::v1alpha1::PodProbeMarker;
use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget;
use kruise_api::revision::ControllerRevision;
use kruise_api::sidecarset::v1beta1::SidecarSet;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The cluster, for reading: what each step wants to know.
pub trait View: SidecarSets + Budgets + PersistentPodStates + ProbeMarkers + WorkloadSpreads + Sync {}

impl<V: SidecarSets + Budgets + PersistentPodStates + ProbeMarkers + WorkloadSpreads + Sync> View for V {}

/// What is not known yet and has to be read from the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub ObjectRef);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A cluster without any objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct Empty;

impl SidecarSets for Empty {
    fn candidates(&self, _: &str, _: &BTreeMap<&str, &str>) -> Result<Vec<Arc<SidecarSet>>, Missing> {
        Ok(Vec::new())
    }

    fn namespace(&self, _: &str) -> Result<Option<Arc<Namespace>>, Missing> {
        Ok(None)
    }

    fn revision(&self, _: &str) -> Result<Option<Arc<ControllerRevision>>, Missing> {
        Ok(None)
    }

    fn revisions_of(&self, _: &str) -> Result<Vec<Arc<ControllerRevision>>, Missing> {
        Ok(Vec::new())
    }
}

impl Budgets for Empty {
    fn budgets(&self, _: &str) -> Vec<Arc<PodUnavailableBudget>> {
        Vec::new()
    }

    fn workload_of(&self, _: &str, owner: WorkloadRef) -> WorkloadRef {
        owner
    }
}

impl PersistentPodStates for Empty {
    fn states_of(&self, _: &str, _: &WorkloadRef) -> Result<Vec<Arc<PersistentPodState>>, Missing> {
        Ok(Vec::new())
    }

    fn listed_workloads(&self) -> Result<Result<Vec<CustomWorkload>, String>, Missing> {
        Ok(Ok(Vec::new()))
    }
}

impl ProbeMarkers for Empty {
    fn probe_markers(&self, _: &str) -> Result<Vec<Arc<PodProbeMarker>>, Missing> {
        Ok(Vec::new())
    }
}

impl WorkloadSpreads for Empty {}
