//! What the objects that steps read are found by. Whoever watches them declares these indexes.

use kruise_api::{
    names::label, persistentpodstate::v1beta1::PersistentPodState, podprobemarker::v1alpha1::PodProbeMarker,
    revision::ControllerRevision, sidecarset::v1beta1::SidecarSet, workloadspread::v1beta1::WorkloadSpread,
};
use kruise_core::persistentpodstate::{target_key, workload_of};
use kruise_core::sidecarset::select;
use kruise_runtime::cache::Index;

/// SidecarSets by what their Pods have in common: a label, and the namespace where they name one. [`select::lookup_keys`] has the keys of a Pod.
pub const SETS_BY_POD: Index<SidecarSet> = Index::new("pod", select::index_keys);

/// ControllerRevisions by the SidecarSet they belong to.
pub const REVISIONS_BY_SIDECAR_SET: Index<ControllerRevision> = Index::new("sidecarSet", |revision, key| {
    if let Some(set) = revision.metadata.label(label::SIDECAR_SET_NAME) {
        key(set);
    }
});

/// PersistentPodStates by the workload that they are about, see [`target_key`].
pub const STATES_BY_TARGET: Index<PersistentPodState> = Index::new("target", |state, key| {
    let namespace = state.metadata.namespace.as_deref().unwrap_or_default();
    key(&target_key(namespace, &workload_of(&state.spec.target_ref)));
});

/// PodProbeMarkers by their namespace.
pub const MARKERS_BY_NAMESPACE: Index<PodProbeMarker> = Index::new("namespace", |marker, key| {
    key(marker.metadata.namespace.as_deref().unwrap_or_default());
});

/// WorkloadSpreads by namespace.
pub const SPREADS_BY_NAMESPACE: Index<WorkloadSpread> = Index::new("namespace", |spread, key| {
    key(spread.metadata.namespace.as_deref().unwrap_or_default());
});
