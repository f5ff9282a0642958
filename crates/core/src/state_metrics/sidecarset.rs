//! SidecarSet.
//!
//! The namespace of v1alpha1 is a selector of the name's label now; `spec_namespace`, and the name that boards know for it, tell it where the selector is nothing else.

use kruise_api::names::label;
use kruise_api::shared::IntOrPercent;
use kruise_api::sidecarset::container::SidecarPolicy;
use kruise_api::sidecarset::v1beta1::SidecarSet;

use super::family::Head as _;
use super::{Family, Samples, of, sampled};

sampled!(SidecarSet, FAMILIES);

const FAMILIES: &[Family<SidecarSet>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::value(
        "spec_metadata_generation",
        "Generation of the spec; the older name of metadata_generation.",
        |set| Some(set.metadata.generation()),
    ),
    Family::samples(
        "spec_namespcace",
        "The older name of spec_namespace.",
        &["spec_namespace"],
        |set, to| to.info("spec_namespace", namespace(set)),
    ),
    Family::samples(
        "spec_namespace",
        "1; the label is the one namespace whose Pods get the sidecars, empty for all or several.",
        &["spec_namespace"],
        |set, to| to.info("spec_namespace", namespace(set)),
    ),
    Family::samples(
        "spec_strategy_rollingupdate_max_unavailable",
        "Most Pods that may be unavailable during an update; shares are of the matched Pods.",
        &[],
        |set, to| {
            if let Some(value) = &set.spec.update_strategy.max_unavailable {
                let matched = set.status.as_ref().map_or(0, |status| status.matched_pods);
                to.share(value, matched, IntOrPercent::floor_of);
            }
        },
    ),
    Family::samples(
        "spec_strategy_partition",
        "1; the label is the number or share of Pods that stay at the old revision.",
        &["partition"],
        |set, to| to.as_given("partition", set.spec.update_strategy.partition.as_ref()),
    ),
    Family::samples(
        "spec_strategy_type",
        "1; the label says whether Pods that are there are updated.",
        &["strategy_type"],
        |set, to| to.info("strategy_type", set.spec.update_strategy.type_.as_str()),
    ),
    Family::samples(
        "spec_containers_injectpolicy",
        "1; the label is the place of a sidecar among the containers.",
        &["injectpolicy", "container"],
        |set, to| each(set, to, "injectpolicy", |policy| policy.pod_inject_policy.as_str()),
    ),
    Family::samples(
        "spec_containers_strategy_type",
        "1; the label is how a sidecar is updated.",
        &["strategy_type", "container"],
        |set, to| {
            each(set, to, "strategy_type", |policy| {
                policy.upgrade_strategy.upgrade_type.as_str()
            });
        },
    ),
    Family::samples(
        "spec_containers_strategy_hotupgradeemptyimage",
        "1; the label is the image that takes turns with a sidecar.",
        &["hotupgradeemptyimage", "container"],
        |set, to| {
            each(set, to, "hotupgradeemptyimage", |policy| {
                &policy.upgrade_strategy.hot_upgrade_empty_image
            });
        },
    ),
    Family::samples(
        "spec_containers_volumepolicy",
        "1; the label says whether a sidecar shares the volumes of other containers.",
        &["volumepolicy", "container"],
        |set, to| {
            each(set, to, "volumepolicy", |policy| {
                policy.share_volume_policy.type_.as_str()
            });
        },
    ),
    Family::value("spec_paused", "1 while updates are paused.", |set| {
        Some(set.spec.update_strategy.paused.into())
    }),
    Family::value("status_replicas_matched", "Pods that the set applies to.", |set| {
        of(set.status.as_ref(), |status| status.matched_pods)
    }),
    Family::value(
        "status_replicas_updated",
        "Pods whose sidecars are at the latest revision.",
        |set| of(set.status.as_ref(), |status| status.updated_pods),
    ),
    Family::value("status_replicas_ready", "Pods that are ready.", |set| {
        of(set.status.as_ref(), |status| status.ready_pods)
    }),
    Family::value(
        "status_replicas_updated_ready",
        "Ready Pods whose sidecars are at the latest revision.",
        |set| of(set.status.as_ref(), |status| status.updated_ready_pods),
    ),
    Family::value(
        "status_pods_without_sidecars",
        "Pods that should have the sidecars and were made without them.",
        |set| of(set.status.as_ref(), |status| status.pods_without_sidecars),
    ),
    Family::value(
        "status_observed_generation",
        "Generation that the status is about.",
        |set| of(set.status.as_ref(), |status| status.observed_generation),
    ),
];

fn namespace(set: &SidecarSet) -> &str {
    let Some(selector) = &set.spec.namespace_selector else {
        return "";
    };
    let labels = selector.match_labels.iter().flatten();
    let is_all = labels.clone().count() == 1 && selector.match_expressions.iter().flatten().next().is_none();
    let mut named = labels.filter(|(key, _)| is_all && *key == label::NAMESPACE_NAME);
    named.next().map_or("", |(_, name)| name)
}

fn each(set: &SidecarSet, to: &mut Samples<'_>, label: &str, text: impl Fn(&SidecarPolicy) -> &str) {
    for container in &set.spec.containers {
        to.labelled(&[(label, text(&container.policy)), ("container", container.name())], 1);
    }
}
