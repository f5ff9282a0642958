//! How PodProbeMarkers and NodePodProbes are watched, and what they are found by.

use super::watched::Watched;
use crate::Settings;
use kruise_admission::MARKERS_BY_NAMESPACE;
use kruise_api::{nodepodprobe::CachedNodePodProbe, podprobemarker::v1alpha1::PodProbeMarker};
use kruise_core::nodepodprobe::markers_named;
use kruise_runtime::cache::{Index, Kind};

/// NodePodProbes by `namespace/name` of each marker that they name.
pub const NODE_PROBES_BY_MARKER: Index<CachedNodePodProbe> = Index::new("marker", |list, key| {
    for (namespace, name) in markers_named(list) {
        key(&format!("{namespace}/{name}"));
    }
});

impl Watched for PodProbeMarker {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&MARKERS_BY_NAMESPACE)
    }
}

impl Watched for CachedNodePodProbe {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&NODE_PROBES_BY_MARKER)
    }
}
