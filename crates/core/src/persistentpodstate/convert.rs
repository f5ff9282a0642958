//! v1alpha1 and v1beta1 of PersistentPodState: the topology keys have a shorter name in v1beta1.

use crate::shared::convert::Rules;

pub const RULES: Rules = Rules {
    renamed: &[
        ("spec.requiredPersistentTopology.nodeTopologyKeys", "keys"),
        ("spec.preferredPersistentTopology[].preference.nodeTopologyKeys", "keys"),
    ],
    ..Rules::SAME
};
