//! StatefulSet.
//!
//! Of a set that has no rolling update, as one with `OnDelete`, nothing is told about it. Ordinals are told one by one, the lowest thousand of them at most; a range that
//! cannot be read takes the others with it, as it does for the set.

use std::collections::BTreeSet;

use kruise_api::shared::IntOrPercent;
use kruise_api::statefulset::v1beta1::{ReservedOrdinals, StatefulSet};

use super::{Family, Samples, of, sampled, text_of};

sampled!(StatefulSet, FAMILIES);

/// Most ordinals of one set; a range may have billions.
const MOST_ORDINALS: usize = 1000;

const FAMILIES: &[Family<StatefulSet>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::value("replicas", "Wanted Pods; the same as spec_replicas.", |set| {
        Some(set.spec.replicas?.into())
    }),
    Family::value("spec_replicas", "Wanted Pods.", |set| Some(set.spec.replicas?.into())),
    Family::samples(
        "spec_strategy_rollingupdate_max_unavailable",
        "Most Pods that may be unavailable during an update; shares are of the wanted Pods.",
        &[],
        |set, to| {
            let rolling = set.spec.update_strategy.rolling_update.as_ref();
            if let Some(value) = rolling.and_then(|rolling| rolling.max_unavailable.as_ref()) {
                to.share(value, set.spec.replicas.unwrap_or(1), IntOrPercent::floor_of);
            }
        },
    ),
    Family::value("spec_paused", "1 while updates are paused.", |set| {
        let rolling = set.spec.update_strategy.rolling_update.as_ref();
        Some(rolling.is_some_and(|rolling| rolling.paused).into())
    }),
    Family::samples(
        "spec_reserveordinals",
        "A reserved ordinal, which has no Pod; also as a label.",
        &["ordinal"],
        reserved,
    ),
    Family::samples(
        "spec_strategy_type",
        "1; the label is who replaces outdated Pods.",
        &["strategy_type"],
        |set, to| to.info("strategy_type", set.spec.update_strategy.type_.as_str()),
    ),
    Family::value("status_replicas", "Pods there are.", |set| {
        of(set.status.as_ref(), |status| status.replicas)
    }),
    Family::value("status_replicas_ready", "Pods that are ready.", |set| {
        of(set.status.as_ref(), |status| status.ready_replicas)
    }),
    Family::value("status_replicas_available", "Pods that are available.", |set| {
        of(set.status.as_ref(), |status| status.available_replicas)
    }),
    Family::value("status_replicas_current", "Pods at the current revision.", |set| {
        of(set.status.as_ref(), |status| status.current_replicas)
    }),
    Family::value("status_replicas_updated", "Pods at the update revision.", |set| {
        of(set.status.as_ref(), |status| status.updated_replicas)
    }),
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

fn reserved(set: &StatefulSet, to: &mut Samples<'_>) {
    let ranges: Result<Vec<_>, _> = set.spec.reserve_ordinals.iter().map(ReservedOrdinals::range).collect();
    let Ok(ranges) = ranges else {
        return to.unreadable();
    };
    let lowest = ranges.into_iter().flat_map(|range| range.take(MOST_ORDINALS));
    let ordinals: BTreeSet<i32> = lowest.collect();
    for ordinal in ordinals.into_iter().take(MOST_ORDINALS) {
        to.labelled(&[("ordinal", &ordinal.to_string())], ordinal.into());
    }
}
