//! What a BroadcastJob has to be.
//!
//! - Its name is the value of a label of its Pods: at most 63 characters, no dots.
//! - Its Pods end: `restartPolicy` is `OnFailure` or `Never`. The labels by which they are found are not set by the template.
//! - A job of type `Never` has neither a deadline nor a time to live.
//!
//! Everything else about the template is judged by the API server itself. Nothing is immutable.

use kruise_api::names::label;
use kruise_api::shared::completion::CompletionPolicyType;
use serde_json::Value;

use super::Submitted;
use crate::admission::Lookups;
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::validate::{job_name, object_meta};

/// Everything that is wrong with a job.
pub fn validate(new: &Submitted, found: &Lookups) -> FieldErrors {
    let mut errors = object_meta::validate(&new.metadata);
    errors.extend(job_name::validate(&new.metadata, "BroadcastJob"));
    let spec = Path::new("spec");
    let template = new.spec.template.value();
    errors.extend(validate_template(&template, &spec.child("template")));
    errors.extend(found.template.iter().cloned());
    let at = spec.child("completionPolicy");
    let completion = &new.spec.completion_policy;
    if completion.type_ == CompletionPolicyType::Never {
        if let Some(seconds) = completion.ttl_seconds_after_finished {
            let detail = "ttlSecondsAfterFinished can just work with Always CompletionPolicyType";
            errors.push(FieldError::invalid(
                &at.child("ttlSecondsAfterFinished"),
                seconds,
                detail,
            ));
        }
        if let Some(seconds) = completion.active_deadline_seconds {
            let detail = "activeDeadlineSeconds can just work with Always CompletionPolicyType";
            errors.push(FieldError::invalid(&at.child("activeDeadlineSeconds"), seconds, detail));
        }
    }
    FieldErrors(errors)
}

fn validate_template(template: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let labels = template.pointer("/metadata/labels");
    let is_set = |key: &str| {
        let value = labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        value.is_some_and(|value| !value.is_empty())
    };
    if is_set(label::BROADCAST_JOB_NAME) || is_set(label::BROADCAST_JOB_UID) {
        let detail = format!(
            "\"{}\" and \"{}\" are not allowed to preset in pod labels",
            label::BROADCAST_JOB_NAME,
            label::BROADCAST_JOB_UID
        );
        let shown = labels.cloned().unwrap_or_default();
        errors.push(FieldError::invalid(
            &path.child("metadata").child("labels"),
            shown,
            &detail,
        ));
    }
    let policy = template.pointer("/spec/restartPolicy").and_then(Value::as_str);
    if let Some(policy) = policy.filter(|policy| !matches!(*policy, "Never" | "OnFailure")) {
        let at = path.child("spec").child("restartPolicy");
        let detail = "pod restartPolicy can only be Never or OnFailure";
        errors.push(FieldError::invalid(&at, policy, detail));
    }
    errors
}
