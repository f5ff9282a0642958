//! ResourceDistribution.

use kruise_api::resourcedistribution::v1beta1::ResourceDistribution;

use super::{Family, of, sampled};
use crate::resourcedistribution::manifest::Identity;

sampled!(ResourceDistribution, FAMILIES);

const FAMILIES: &[Family<ResourceDistribution>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::samples(
        "spec_resource",
        "1; the labels are the kind and the name of what is distributed.",
        &["resource_kind", "resource_name"],
        |distribution, to| {
            let identity = Identity::of(&distribution.spec.resource);
            let labels = [
                ("resource_kind", &*identity.kind),
                ("resource_name", &*identity.metadata.name),
            ];
            to.labelled(&labels, 1);
        },
    ),
    Family::value(
        "status_desired",
        "Namespaces that are to have a copy.",
        |distribution| of(distribution.status.as_ref(), |status| status.desired),
    ),
    Family::value("status_succeeded", "Namespaces that have a copy.", |distribution| {
        of(distribution.status.as_ref(), |status| status.succeeded)
    }),
    Family::value(
        "status_failed",
        "Namespaces that could not get a copy.",
        |distribution| of(distribution.status.as_ref(), |status| status.failed),
    ),
    Family::value(
        "status_observed_generation",
        "Generation that the status is about.",
        |distribution| of(distribution.status.as_ref(), |status| status.observed_generation),
    ),
    Family::samples(
        "status_condition",
        "Whether a condition holds.",
        &["condition", "status"],
        |distribution, to| {
            for condition in distribution.status.iter().flat_map(|status| &status.conditions) {
                to.condition(condition.type_.as_str(), &condition.status);
            }
        },
    ),
];
