//! What an ImageListPullJob has to be.
//!
//! - It names from one to 255 images, each once and each such that it can be read; nodes, speed and end as for all pulls
//!   ([`crate::shared::image_pull`]).
//! - Two ways to write one image count as two. Whether the deadline leaves time for an attempt is judged in the jobs that are made from it.

use std::collections::BTreeSet;

use super::Submitted;
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::image_pull::{self, Rules, validate_image};
use crate::shared::validate::object_meta;

/// Most images of one job.
const MOST: usize = 255;

/// Everything that is wrong with a job.
pub fn validate(new: &Submitted) -> FieldErrors {
    let at = Path::new("spec").child("images");
    let mut errors = object_meta::validate(&new.metadata);
    let images = &new.spec.images;
    if images.is_empty() {
        errors.push(FieldError::required(&at, "image can not be empty"));
    }
    if images.len() > MOST {
        let detail = format!("the maximum number of images cannot > {MOST}");
        errors.push(FieldError::invalid(&at, images.len(), &detail));
    }
    let mut seen = BTreeSet::new();
    for (index, image) in images.iter().enumerate() {
        let at = at.index(index);
        if !seen.insert(image) {
            let detail = "images cannot have duplicate values";
            errors.push(FieldError::invalid(&at, image.as_str(), detail));
        }
        errors.extend(validate_image(image, &at));
    }
    errors.extend(image_pull::validate(&Rules {
        selector: new.spec.selector.as_ref(),
        pod_selector: new.spec.pod_selector.as_ref(),
        parallelism: new.spec.parallelism.as_ref(),
        completion: &new.spec.completion_policy,
    }));
    FieldErrors(errors)
}
