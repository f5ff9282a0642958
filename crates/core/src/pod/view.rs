//! What steps can see of the cluster.

use super::persistent_states::PersistentPodStates;
use super::probes::ProbeMarkers;
use super::related_budget::Budgets;
use super::sidecars::SidecarSets;
use super::workload_spread::WorkloadSpreads;
use crate::admission::ObjectRef;
use std::fmt;

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

impl SidecarSets for Empty {}

impl Budgets for Empty {}

impl PersistentPodStates for Empty {}

impl ProbeMarkers for Empty {}

impl WorkloadSpreads for Empty {}
