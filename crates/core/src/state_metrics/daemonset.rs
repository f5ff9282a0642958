//! DaemonSet.

use kruise_api::daemonset::RollingUpdate;
use kruise_api::daemonset::v1beta1::DaemonSet;
use kruise_api::shared::IntOrPercent;

use super::{Family, of, sampled};

sampled!(DaemonSet, FAMILIES);

const FAMILIES: &[Family<DaemonSet>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::samples(
        "spec_strategy_rollingupdate_max_surge",
        "Most nodes with a second Pod during an update; shares are of the nodes that should have one.",
        &[],
        |set, to| {
            let Some(rolling) = rolling(set) else { return };
            match &rolling.max_surge {
                Some(value) => to.share(value, nodes(set), IntOrPercent::ceil_of),
                None => to.number(0),
            }
        },
    ),
    Family::samples(
        "spec_strategy_rollingupdate_max_unavailable",
        "Most nodes without an available Pod during an update; shares are of the nodes that should have one.",
        &[],
        |set, to| {
            if let Some(value) = rolling(set).and_then(|rolling| rolling.max_unavailable.as_ref()) {
                to.share(value, nodes(set), IntOrPercent::ceil_of);
            }
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
        "1; the label is who replaces outdated Pods.",
        &["strategy_type"],
        |set, to| to.info("strategy_type", set.spec.update_strategy.type_.as_str()),
    ),
    Family::value("spec_paused", "1 while updates are paused.", |set| {
        Some(rolling(set).is_some_and(|rolling| rolling.paused).into())
    }),
    Family::value(
        "status_current_number_scheduled",
        "Nodes that have a Pod and should have one.",
        |set| of(set.status.as_ref(), |status| status.current_number_scheduled),
    ),
    Family::value(
        "status_desired_number_scheduled",
        "Nodes that should have a Pod.",
        |set| of(set.status.as_ref(), |status| status.desired_number_scheduled),
    ),
    Family::value("status_number_available", "Nodes whose Pod is available.", |set| {
        of(set.status.as_ref(), |status| status.number_available)
    }),
    Family::value(
        "status_number_misscheduled",
        "Nodes that have a Pod and should not.",
        |set| of(set.status.as_ref(), |status| status.number_misscheduled),
    ),
    Family::value("status_number_ready", "Nodes whose Pod is ready.", |set| {
        of(set.status.as_ref(), |status| status.number_ready)
    }),
    Family::value(
        "status_number_unavailable",
        "Nodes whose Pod is not available.",
        |set| of(set.status.as_ref(), |status| status.number_unavailable),
    ),
    Family::value(
        "status_updated_number_scheduled",
        "Nodes whose Pod is at the update revision.",
        |set| of(set.status.as_ref(), |status| status.updated_number_scheduled),
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

fn rolling(set: &DaemonSet) -> Option<&RollingUpdate> {
    set.spec.update_strategy.rolling_update.as_ref()
}

fn nodes(set: &DaemonSet) -> i32 {
    set.status.as_ref().map_or(0, |status| status.desired_number_scheduled)
}
