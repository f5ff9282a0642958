//! What may change, once there is a CloneSet.

use super::super::version::Submitted;
use crate::admission::Version;
use crate::field_error::{FieldError, Path};
use crate::shared::validate::pod_template::beyond_images;
use crate::shared::validate::selector::is_same;

const FIXED: &str = "updates to cloneset spec for fields other than 'replicas', 'template', 'lifecycle', 'scaleStrategy', \
    'updateStrategy', 'minReadySeconds', 'progressDeadlineSeconds', 'volumeClaimTemplates' and 'revisionHistoryLimit' are forbidden";

pub(super) fn validate(new: &Submitted, old: &Submitted) -> Vec<FieldError> {
    let spec = Path::new("spec");
    let mut errors = Vec::new();
    if !is_same(new.selector(), old.selector()) {
        errors.push(FieldError::forbidden(&spec, FIXED));
    }
    let in_place_only = new.rolling().is_some_and(|rolling| rolling.in_place_only);
    if new.version() == Version::V1alpha1
        && in_place_only
        && let Some(change) = beyond_images(new.template(), old.template())
    {
        let detail = format!("only allowed to update images in spec for InPlaceOnly, but found {change}");
        errors.push(FieldError::forbidden(&spec, &detail));
    }
    errors
}
