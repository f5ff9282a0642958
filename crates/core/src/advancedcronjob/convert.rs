//! v1alpha1 and v1beta1 of AdvancedCronJob: only v1beta1 can run image pulls on a schedule. Such an object has nothing
//! to run in v1alpha1, so converting it is refused rather than answered with an empty job.

use crate::shared::convert::{ConvertError, Rules, Warning};
use crate::shared::tree::{Object, child};
use kruise_api::names::group::V1ALPHA1;

const TEMPLATE: &str = "imageListPullJobTemplate";

pub const RULES: Rules = Rules {
    only_v1beta1: &["spec.template.imageListPullJobTemplate"],
    down,
    ..Rules::SAME
};

pub fn down(object: &mut Object, _: &mut Vec<Warning>) -> Result<(), ConvertError> {
    let template = child(object, "spec").and_then(|spec| child(spec, "template"));
    match template.and_then(|template| template.get(TEMPLATE)) {
        Some(value) if !value.is_null() => Err(ConvertError::Inexpressible {
            field: "spec.template.imageListPullJobTemplate",
            version: V1ALPHA1,
            advice: "read the object as v1beta1",
        }),
        _ => Ok(()),
    }
}
