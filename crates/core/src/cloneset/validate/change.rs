//! What may change, once there is a CloneSet.

use super::super::version::Submitted;
use crate::admission::Version;
use crate::field_error::{FieldError, Path};
use crate::json_patch::{Operation, diff};
use crate::pod_template;
use crate::shared::validate::pod_template::object;
use crate::shared::validate::selector::is_same;
use kruise_api::raw::PodTemplate;

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

/// The first change of the Pod's spec that is not a new image of a container that is there.
fn beyond_images(new: &PodTemplate, old: &PodTemplate) -> Option<String> {
    let spec = |template: &PodTemplate| {
        let mut template = object(template);
        pod_template::artefacts(&mut template);
        template.remove("spec").unwrap_or_default()
    };
    let changes = diff(&spec(old), &spec(new));
    changes.iter().find_map(|change| match change {
        Operation::Replace { path, value } if value.is_string() && is_image(path) => None,
        Operation::Replace { path, .. } => Some(format!("replace {path}")),
        Operation::Add { path, .. } => Some(format!("add {path}")),
        Operation::Remove { path } => Some(format!("remove {path}")),
    })
}

fn is_image(path: &str) -> bool {
    let index = path
        .strip_prefix("/containers/")
        .and_then(|rest| rest.strip_suffix("/image"));
    index.is_some_and(|index| !index.is_empty() && index.bytes().all(|digit| digit.is_ascii_digit()))
}
