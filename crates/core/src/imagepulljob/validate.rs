//! What an ImagePullJob has to be.
//!
//! - It names an image that can be read; nodes, speed and end as for all pulls ([`crate::shared::image_pull`]).
//! - A deadline leaves time for at least one attempt.
//! - The Secrets cannot be changed later: nodes may hold their copies already.

use super::Submitted;
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::image_pull::{self, Rules, TIMEOUT_SECONDS, validate_image};
use crate::shared::validate::object_meta;

/// Everything that is wrong with a job.
pub fn validate(new: &Submitted) -> FieldErrors {
    let spec = Path::new("spec");
    let mut errors = object_meta::validate(&new.metadata);
    let at = spec.child("image");
    if new.spec.image.is_empty() {
        errors.push(FieldError::required(&at, "image can not be empty"));
    } else {
        errors.extend(validate_image(&new.spec.image, &at));
    }
    errors.extend(image_pull::validate(&Rules {
        selector: new.spec.selector.as_ref(),
        pod_selector: new.spec.pod_selector.as_ref(),
        parallelism: new.spec.parallelism.as_ref(),
        completion: &new.spec.completion_policy,
    }));
    let timeout = new.spec.pull_policy.as_ref().and_then(|policy| policy.timeout_seconds);
    let timeout = i64::from(timeout.unwrap_or(TIMEOUT_SECONDS));
    let deadline = new.spec.completion_policy.active_deadline_seconds;
    if let Some(deadline) = deadline.filter(|deadline| *deadline < timeout) {
        let at = spec.child("completionPolicy").child("activeDeadlineSeconds");
        let detail =
            "completionPolicy.activeDeadlineSeconds must be greater than pullPolicy.timeoutSeconds(default 600)";
        errors.push(FieldError::invalid(&at, deadline, detail));
    }
    FieldErrors(errors)
}

/// Why a job may not be changed like this.
pub fn forbidden(new: &Submitted, old: &Submitted) -> Option<FieldError> {
    let at = Path::new("spec").child("pullSecrets");
    (new.spec.pull_secrets != old.spec.pull_secrets)
        .then(|| FieldError::forbidden(&at, "spec.pullSecrets is immutable"))
}
