//! v1alpha1 and v1beta1 of ResourceDistribution: two fields were renamed.

use crate::shared::convert::Rules;

pub const RULES: Rules = Rules {
    renamed: &[
        ("spec.targets.namespaceLabelSelector", "namespaceSelector"),
        ("status.conditions[].failedNamespace", "failedNamespaces"),
    ],
    ..Rules::SAME
};
