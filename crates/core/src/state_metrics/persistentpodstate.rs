//! PersistentPodState.

use kruise_api::persistentpodstate::v1beta1::PersistentPodState;

use super::{Family, count, of, sampled};

sampled!(PersistentPodState, FAMILIES);

const FAMILIES: &[Family<PersistentPodState>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::value("status_pods", "Pods whose place is remembered.", |state| {
        count(state.status.as_ref().map_or(0, |status| status.pod_states.len()))
    }),
    Family::value(
        "status_observed_generation",
        "Generation that the status is about.",
        |state| of(state.status.as_ref(), |status| status.observed_generation),
    ),
];
