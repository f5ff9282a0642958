//! UnitedDeployment.

use kruise_api::uniteddeployment::SubsetStatus;
use kruise_api::uniteddeployment::v1beta1::UnitedDeployment;

use super::{Family, Samples, of, sampled, text_of};

sampled!(UnitedDeployment, FAMILIES);

const FAMILIES: &[Family<UnitedDeployment>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::value("spec_replicas", "Wanted Pods of all subsets.", |deployment| {
        Some(deployment.spec.replicas?.into())
    }),
    Family::samples(
        "spec_strategy_type",
        "1; the label is how Pods are divided among subsets.",
        &["strategy_type"],
        |deployment, to| {
            to.info(
                "strategy_type",
                deployment.spec.topology.schedule_strategy.type_.as_str(),
            );
        },
    ),
    Family::value("status_replicas", "Pods there are.", |deployment| {
        of(deployment.status.as_ref(), |status| status.replicas)
    }),
    Family::value("status_replicas_ready", "Pods that are ready.", |deployment| {
        of(deployment.status.as_ref(), |status| status.ready_replicas)
    }),
    Family::value(
        "status_replicas_updated",
        "Pods at the update revision.",
        |deployment| of(deployment.status.as_ref(), |status| status.updated_replicas),
    ),
    Family::value(
        "status_replicas_updated_ready",
        "Pods at the update revision that are ready.",
        |deployment| of(deployment.status.as_ref(), |status| status.updated_ready_replicas),
    ),
    Family::value(
        "status_reserved_pods",
        "Pods that another subset keeps for one that cannot take them.",
        |deployment| of(deployment.status.as_ref(), |status| status.reserved_pods),
    ),
    Family::samples(
        "status_subset_replicas",
        "Pods of a subset.",
        &["subset"],
        |deployment, to| each(deployment, to, |subset| subset.replicas),
    ),
    Family::samples(
        "status_subset_replicas_ready",
        "Pods of a subset that are ready.",
        &["subset"],
        |deployment, to| each(deployment, to, |subset| subset.ready_replicas),
    ),
    Family::samples(
        "status_subset_partition",
        "Pods of a subset that stay at the old revision.",
        &["subset"],
        |deployment, to| each(deployment, to, |subset| subset.partition),
    ),
    Family::samples(
        "status_current_revision",
        "1; the label is the revision that the last finished update reached.",
        &["revision"],
        |deployment, to| {
            to.info(
                "revision",
                text_of(deployment.status.as_ref(), |status| &status.current_revision),
            );
        },
    ),
    Family::samples(
        "status_update_revision",
        "1; the label is the revision that the spec asks for.",
        &["revision"],
        |deployment, to| {
            to.info(
                "revision",
                text_of(deployment.status.as_ref(), |status| &status.updated_revision),
            );
        },
    ),
    Family::value(
        "status_observed_generation",
        "Generation that the status is about.",
        |deployment| of(deployment.status.as_ref(), |status| status.observed_generation),
    ),
    Family::samples(
        "status_condition",
        "Whether a condition holds.",
        &["condition", "status"],
        |deployment, to| {
            for condition in deployment.status.iter().flat_map(|status| &status.conditions) {
                to.condition(&condition.type_, &condition.status);
            }
        },
    ),
];

fn each(deployment: &UnitedDeployment, to: &mut Samples<'_>, count: impl Fn(&SubsetStatus) -> i32) {
    for subset in deployment.status.iter().flat_map(|status| &status.subset_statuses) {
        to.labelled(&[("subset", &subset.name)], count(subset).into());
    }
}
