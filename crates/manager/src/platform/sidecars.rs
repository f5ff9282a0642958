//! How SidecarSets, and what decides whether they apply to a Pod, are watched.

use super::{Platform, watched::Watched};
use crate::Settings;
use kruise_admission::SETS_BY_POD;
use kruise_api::{
    gates::Gate, namespace::Namespace, pod::Pod, podprobemarker::v1alpha1::PodProbeMarker,
    revision::ControllerRevision, sidecarset::v1beta1::SidecarSet, workloadspread::v1beta1::WorkloadSpread,
};
use kruise_core::sidecarset::{records, select};
use kruise_runtime::cache::{Index, Kind};

/// Pods by the SidecarSets that were injected into them.
pub const PODS_BY_SIDECAR_SET: Index<Pod> = Index::new("sidecarSet", |pod, key| records::injected(pod).for_each(key));

/// Canary SidecarSets by their base.
pub const SETS_BY_BASE: Index<SidecarSet> = Index::new("base", |set, key| {
    if let Some(base) = select::canary_of(set) {
        key(base);
    }
});

impl Watched for SidecarSet {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&SETS_BY_POD).index(&SETS_BY_BASE)
    }
}

impl Watched for Namespace {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of()
    }
}

impl Platform {
    /// Watches what the webhook of Pods reads, whichever controllers there are.
    pub fn watch_for_admission(&mut self) {
        if self.settings.gates.enabled(Gate::PodWebhook) {
            self.store::<SidecarSet>();
            self.store::<Namespace>();
            self.store::<ControllerRevision>();
            let carried = [Gate::EnablePodProbeMarkerOnServerless, Gate::PodProbeMarkerGate];
            if carried.into_iter().all(|gate| self.settings.gates.enabled(gate)) {
                self.store::<PodProbeMarker>();
            }
        }
        if self.settings.gates.enabled(Gate::WorkloadSpread) {
            self.store::<WorkloadSpread>();
        }
    }
}
