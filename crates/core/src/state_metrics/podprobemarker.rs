//! PodProbeMarker.

use kruise_api::podprobemarker::v1alpha1::PodProbeMarker;

use super::{Family, count, of, sampled};

sampled!(PodProbeMarker, FAMILIES);

const FAMILIES: &[Family<PodProbeMarker>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::value("spec_probes", "Probes of each Pod.", |marker| {
        count(marker.spec.probes.len())
    }),
    Family::value("status_matched", "Pods that are probed.", |marker| {
        of(marker.status.as_ref(), |status| status.matched_pods)
    }),
    Family::value(
        "status_observed_generation",
        "Generation that the status is about.",
        |marker| of(marker.status.as_ref(), |status| status.observed_generation),
    ),
];
