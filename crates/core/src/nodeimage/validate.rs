//! What a NodeImage has to be.
//!
//! - At most 256 images, each with a name. Whether such an image can exist is not asked.
//! - Each tag is there once, says since when, and says when it is to be forgotten: `pullPolicy.ttlSecondsAfterFinished` has no default.

use std::collections::BTreeSet;

use kruise_api::nodeimage::ImageTagSpec;

use super::Submitted;
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::validate::object_meta;

/// Most images of one node.
const MOST: usize = 256;

/// Everything that is wrong with a NodeImage.
pub fn validate(new: &Submitted) -> FieldErrors {
    let at = Path::new("spec").child("images");
    let mut errors = object_meta::validate(&new.metadata);
    let images = &new.spec.images;
    if images.len() > MOST {
        let detail = format!("spec images length {} can not be more than {MOST}", images.len());
        errors.push(FieldError::invalid(&at, images.len(), &detail));
    }
    for (name, image) in images {
        if name.is_empty() {
            errors.push(FieldError::required(&at.key(name), "image name can not be empty"));
        }
        let mut seen = BTreeSet::new();
        for (index, tag) in image.tags.iter().enumerate() {
            let at = at.key(name).child("tags").index(index);
            if !tag.tag.is_empty() && !seen.insert(&tag.tag) {
                let detail = format!("duplicated tag {} for image {name}", tag.tag);
                errors.push(FieldError::invalid(&at.child("tag"), tag.tag.as_str(), &detail));
            }
            errors.extend(tag_errors(name, tag, &at));
        }
    }
    FieldErrors(errors)
}

fn tag_errors(image: &str, tag: &ImageTagSpec, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let called = format!("{image}/{}", tag.tag);
    if tag.tag.is_empty() {
        let detail = format!("tag for image {image} can not be empty");
        errors.push(FieldError::required(&at.child("tag"), &detail));
    }
    if tag.created_at.is_none() {
        let detail = format!("createdAt for {called} must set");
        errors.push(FieldError::required(&at.child("createdAt"), &detail));
    }
    if tag.version < 0 {
        let detail = format!("version for {called} can not be less than 0");
        errors.push(FieldError::invalid(&at.child("version"), tag.version, &detail));
    }
    let at = at.child("pullPolicy");
    match &tag.pull_policy {
        None => errors.push(FieldError::required(&at, &format!("pullPolicy for {called} must set"))),
        Some(policy) if policy.ttl_seconds_after_finished.is_none() => {
            let detail = format!("pullPolicy.ttlSecondsAfterFinished for {called} must set");
            errors.push(FieldError::required(&at.child("ttlSecondsAfterFinished"), &detail));
        }
        Some(_) => {}
    }
    errors
}
