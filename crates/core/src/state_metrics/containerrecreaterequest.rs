//! ContainerRecreateRequest. The request itself is only told as pending, recreating or completed: it completes whether it succeeds or fails, and
//! the counts of containers tell which.

use kruise_api::containerrecreaterequest::RecreatePhase;
use kruise_api::containerrecreaterequest::v1beta1::ContainerRecreateRequest;

use super::{Family, count, sampled};

sampled!(ContainerRecreateRequest, FAMILIES);

const FAMILIES: &[Family<ContainerRecreateRequest>] = &[
    Family::ANNOTATIONS,
    Family::LABELS,
    Family::CREATED,
    Family::value("containers_pending", "Containers that wait.", |request| {
        containers(request, &RecreatePhase::Pending)
    }),
    Family::value(
        "containers_recreating",
        "Containers that are being recreated.",
        |request| containers(request, &RecreatePhase::Recreating),
    ),
    Family::value("containers_succeeded", "Containers that were recreated.", |request| {
        containers(request, &RecreatePhase::Succeeded)
    }),
    Family::value(
        "containers_failed",
        "Containers that could not be recreated.",
        |request| containers(request, &RecreatePhase::Failed),
    ),
    Family::value("pending", "1 while the request waits.", |request| {
        is_in(request, &RecreatePhase::Pending)
    }),
    Family::value("recreating", "1 while containers are recreated.", |request| {
        is_in(request, &RecreatePhase::Recreating)
    }),
    Family::value("completed", "1 when the request is done.", |request| {
        is_in(request, &RecreatePhase::Completed)
    }),
];

fn containers(request: &ContainerRecreateRequest, phase: &RecreatePhase) -> Option<i64> {
    let states = request
        .status
        .iter()
        .flat_map(|status| &status.container_recreate_states);
    count(states.filter(|state| state.phase == *phase).count())
}

#[expect(clippy::unnecessary_wraps, reason = "families read what may be absent")]
fn is_in(request: &ContainerRecreateRequest, phase: &RecreatePhase) -> Option<i64> {
    Some(
        request
            .status
            .as_ref()
            .is_some_and(|status| status.phase == *phase)
            .into(),
    )
}
