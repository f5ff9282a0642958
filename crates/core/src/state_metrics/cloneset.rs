//! CloneSet.

use kruise_api::cloneset::v1beta1::{CloneSet, RollingUpdate, UpdateStrategyType};
use kruise_api::shared::IntOrPercent;
use kruise_api::shared::in_place::PodUpdatePolicy;

use super::{Family, of, sampled, text_of};

sampled!(CloneSet, FAMILIES);

const FAMILIES: &[Family<CloneSet>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::value("spec_replicas", "Wanted Pods.", |set| Some(set.spec.replicas?.into())),
    Family::samples(
        "spec_strategy_rollingupdate_max_unavailable",
        "Most Pods that may be unavailable during an update; shares are of the wanted Pods.",
        &[],
        |set, to| match rolling(set).and_then(|rolling| rolling.max_unavailable.as_ref()) {
            Some(value) => to.share(value, set.spec.replicas.unwrap_or(1), IntOrPercent::floor_of),
            None => to.number(0),
        },
    ),
    Family::samples(
        "spec_strategy_rollingupdate_max_surge",
        "Most Pods above the wanted ones during an update.",
        &[],
        |set, to| match rolling(set).and_then(|rolling| rolling.max_surge.as_ref()) {
            Some(value) => to.share(value, set.spec.replicas.unwrap_or(1), IntOrPercent::ceil_of),
            None => to.number(0),
        },
    ),
    Family::samples(
        "spec_strategy_partition",
        "1; the label is the number or share of Pods that stay at the old revision.",
        &["partition"],
        |set, to| to.as_given("partition", rolling(set).and_then(|rolling| rolling.partition.as_ref())),
    ),
    Family::samples(
        "spec_strategy_type",
        "1 for how Pods are updated. All are 0 when users delete Pods themselves.",
        &["strategy_type"],
        |set, to| {
            let policy = match set.spec.update_strategy.type_ {
                UpdateStrategyType::OnDelete => "",
                _ => rolling(set).map_or("", |rolling| rolling.pod_update_policy.as_str()),
            };
            let known = [
                PodUpdatePolicy::ReCreate,
                PodUpdatePolicy::InPlaceIfPossible,
                PodUpdatePolicy::InPlaceOnly,
            ];
            to.one_of("strategy_type", &known.each_ref().map(PodUpdatePolicy::as_str), policy);
        },
    ),
    Family::value("spec_paused", "1 while updates are paused.", |set| {
        Some(rolling(set).is_some_and(|rolling| rolling.paused).into())
    }),
    Family::value("status_replicas", "Pods there are.", |set| {
        of(set.status.as_ref(), |status| status.replicas)
    }),
    Family::value("status_replicas_ready", "Pods that are ready.", |set| {
        of(set.status.as_ref(), |status| status.ready_replicas)
    }),
    Family::value("status_replicas_available", "Pods that are available.", |set| {
        of(set.status.as_ref(), |status| status.available_replicas)
    }),
    Family::value(
        "status_replicas_unavailable",
        "Wanted Pods less available ones; below 0 while there are more than wanted.",
        |set| Some(i64::from(set.spec.replicas?) - of(set.status.as_ref(), |status| status.available_replicas)?),
    ),
    Family::value("status_replicas_updated", "Pods at the update revision.", |set| {
        of(set.status.as_ref(), |status| status.updated_replicas)
    }),
    Family::value(
        "status_replicas_updated_ready",
        "Pods at the update revision that are ready.",
        |set| of(set.status.as_ref(), |status| status.updated_ready_replicas),
    ),
    Family::value(
        "status_replicas_updated_available",
        "Pods at the update revision that are available.",
        |set| of(set.status.as_ref(), |status| status.updated_available_replicas),
    ),
    Family::value(
        "status_replicas_expected_updated",
        "Pods that are to be at the update revision: all but the partition.",
        |set| of(set.status.as_ref(), |status| status.expected_updated_replicas),
    ),
    Family::samples(
        "status_current_revision",
        "1; the label is the revision that the last finished update reached.",
        &["revision"],
        |set, to| {
            to.info(
                "revision",
                text_of(set.status.as_ref(), |status| &status.current_revision),
            );
        },
    ),
    Family::samples(
        "status_update_revision",
        "1; the label is the revision that the spec asks for.",
        &["revision"],
        |set, to| {
            to.info(
                "revision",
                text_of(set.status.as_ref(), |status| &status.update_revision),
            );
        },
    ),
    Family::value(
        "status_observed_generation",
        "Generation that the status is about.",
        |set| of(set.status.as_ref(), |status| status.observed_generation),
    ),
    Family::samples(
        "status_condition",
        "Whether a condition holds.",
        &["condition", "status"],
        |set, to| {
            for condition in set.status.iter().flat_map(|status| &status.conditions) {
                to.condition(&condition.type_, &condition.status);
            }
        },
    ),
];

fn rolling(set: &CloneSet) -> Option<&RollingUpdate> {
    set.spec.update_strategy.rolling_update.as_ref()
}
