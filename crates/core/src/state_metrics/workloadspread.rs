//! WorkloadSpread.

use kruise_api::workloadspread::v1beta1::WorkloadSpread;

use super::{Family, of, sampled};

sampled!(WorkloadSpread, FAMILIES);

const FAMILIES: &[Family<WorkloadSpread>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::samples(
        "spec_strategy_type",
        "1; the label is how Pods are scheduled.",
        &["strategy_type"],
        |spread, to| to.info("strategy_type", spread.spec.schedule_strategy.type_.as_str()),
    ),
    Family::samples(
        "status_subset_replicas",
        "Pods of a subset; also as a label.",
        &["replicas", "subset"],
        |spread, to| {
            for subset in spread.status.iter().flat_map(|status| &status.subset_statuses) {
                let count = subset.replicas;
                to.labelled(
                    &[("replicas", &count.to_string()), ("subset", &subset.name)],
                    count.into(),
                );
            }
        },
    ),
    Family::samples(
        "status_subset_replicas_missing",
        "Pods that a subset lacks, -1 for one without a limit; also as a label.",
        &["missingreplicas", "subset"],
        |spread, to| {
            for subset in spread.status.iter().flat_map(|status| &status.subset_statuses) {
                let (count, name) = (subset.missing_replicas, &subset.name);
                to.labelled(&[("missingreplicas", &count.to_string()), ("subset", name)], count.into());
            }
        },
    ),
    Family::value(
        "status_observed_generation",
        "Generation that the status is about.",
        |spread| of(spread.status.as_ref(), |status| status.observed_generation),
    ),
];
