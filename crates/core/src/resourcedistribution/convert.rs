//! v1alpha1 and v1beta1 of ResourceDistribution: two fields were renamed.

use kruise_api::resourcedistribution::{v1alpha1, v1beta1};

use crate::shared::convert::Rules;

pub const RULES: Rules = Rules {
    renamed: &[
        ("spec.targets.namespaceLabelSelector", "namespaceSelector"),
        ("status.conditions[].failedNamespace", "failedNamespaces"),
    ],
    ..Rules::SAME
};

/// Returns a spec of v1alpha1 in the words of v1beta1.
pub(super) fn spec(old: v1alpha1::ResourceDistributionSpec) -> v1beta1::ResourceDistributionSpec {
    let targets = old.targets;
    v1beta1::ResourceDistributionSpec {
        resource: old.resource,
        targets: v1beta1::DistributionTargets {
            all_namespaces: targets.all_namespaces,
            excluded_namespaces: targets.excluded_namespaces,
            included_namespaces: targets.included_namespaces,
            namespace_selector: targets.namespace_label_selector,
        },
    }
}
