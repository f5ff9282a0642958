//! v1alpha1 and v1beta1 of the Advanced StatefulSet: v1beta1 only adds fields, and v1alpha1 has no place to keep them.
//! Whoever reads and writes an object through v1alpha1 erases them; controllers and webhooks work on v1beta1 only.

use crate::shared::convert::Rules;

pub const RULES: Rules = Rules {
    only_v1beta1: &[
        "spec.lifecycle",
        "spec.ordinals",
        "spec.persistentVolumeClaimRetentionPolicy",
        "spec.reserveOrdinals",
        "spec.scaleStrategy",
        "spec.volumeClaimUpdateStrategy",
        "status.updatedAvailableReplicas",
        "status.updatedReadyReplicas",
        "status.volumeClaims",
    ],
    ..Rules::SAME
};
