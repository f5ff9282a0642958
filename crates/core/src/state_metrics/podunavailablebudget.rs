//! PodUnavailableBudget.

use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget;

use super::{Family, count, of, sampled};

sampled!(PodUnavailableBudget, FAMILIES);

const FAMILIES: &[Family<PodUnavailableBudget>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::samples(
        "spec_max_unavailable",
        "1; the label is the number or share of Pods that may be unavailable.",
        &["max_unavailable"],
        |budget, to| to.as_given("max_unavailable", budget.spec.max_unavailable.as_ref()),
    ),
    Family::samples(
        "spec_min_available",
        "1; the label is the number or share of Pods that have to be available.",
        &["min_available"],
        |budget, to| to.as_given("min_available", budget.spec.min_available.as_ref()),
    ),
    Family::value(
        "status_unavailable_allowed",
        "Pods that may still be disturbed.",
        |budget| of(budget.status.as_ref(), |status| status.unavailable_allowed),
    ),
    Family::value("status_current_available", "Pods that are available.", |budget| {
        of(budget.status.as_ref(), |status| status.current_available)
    }),
    Family::value(
        "status_desired_available",
        "Pods that have to be available.",
        |budget| of(budget.status.as_ref(), |status| status.desired_available),
    ),
    Family::value("status_total_replicas", "Pods that the budget is about.", |budget| {
        of(budget.status.as_ref(), |status| status.total_replicas)
    }),
    Family::value(
        "status_disrupted_pods",
        "Pods whose deletion or eviction was granted and is not seen yet.",
        |budget| count(budget.status.as_ref().map_or(0, |status| status.disrupted_pods.len())),
    ),
    Family::value(
        "status_unavailable_pods",
        "Pods whose update was granted and is not seen yet.",
        |budget| count(budget.status.as_ref().map_or(0, |status| status.unavailable_pods.len())),
    ),
    Family::value(
        "status_observed_generation",
        "Generation that the status is about.",
        |budget| of(budget.status.as_ref(), |status| status.observed_generation),
    ),
];
