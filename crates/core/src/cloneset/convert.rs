//! v1alpha1 and v1beta1 of CloneSet: the rules are those of [`crate::shared::cloneset_shape`], status is the same.
//!
//! Lost in v1alpha1: `scaleStrategy.excludePreparingDelete` when the label that means the same is not there.

use crate::shared::cloneset_shape;
use crate::shared::convert::{ConvertError, Rules, Warning};
use crate::shared::tree::Object;

pub const RULES: Rules = Rules {
    only_v1alpha1: &[
        "spec.scaleStrategy.disablePVCReuse",
        "spec.updateStrategy.inPlaceUpdateStrategy",
        "spec.updateStrategy.maxSurge",
        "spec.updateStrategy.maxUnavailable",
        "spec.updateStrategy.partition",
        "spec.updateStrategy.paused",
        "spec.updateStrategy.priorityStrategy",
        "spec.updateStrategy.scatterStrategy",
    ],
    only_v1beta1: &[
        "spec.scaleStrategy.enablePVCReuse",
        "spec.scaleStrategy.excludePreparingDelete",
        "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy",
        "spec.updateStrategy.rollingUpdate.maxSurge",
        "spec.updateStrategy.rollingUpdate.maxUnavailable",
        "spec.updateStrategy.rollingUpdate.partition",
        "spec.updateStrategy.rollingUpdate.paused",
        "spec.updateStrategy.rollingUpdate.podUpdatePolicy",
        "spec.updateStrategy.rollingUpdate.priorityStrategy",
        "spec.updateStrategy.rollingUpdate.scatterStrategy",
    ],
    up,
    down,
    ..Rules::SAME
};

pub fn up(object: &mut Object, warnings: &mut Vec<Warning>) -> Result<(), ConvertError> {
    cloneset_shape::up(object, warnings);
    Ok(())
}

pub fn down(object: &mut Object, warnings: &mut Vec<Warning>) -> Result<(), ConvertError> {
    cloneset_shape::down(object, warnings);
    Ok(())
}
