//! What is written into an ImageListPullJob where its user said nothing.
//!
//! | field | default |
//! |---|---|
//! | `completionPolicy.type` | `Always` |
//! | `pullPolicy.timeoutSeconds`, `pullPolicy.backoffLimit` | 600, 3; in v1beta1 not where a type and a `pullPolicy` are given, even an empty one |
//!
//! The rest is completed in the jobs that are made from it.

use serde_json::Value;

use crate::shared::image_pull::{default_completion, default_pull_policy};
use crate::shared::tree::{Object, child_or_new};

/// Completes a job; `fills_given` in v1alpha1, which completes a `pullPolicy` that is given in part.
pub fn default(object: &mut Object, fills_given: bool) {
    let Some(spec) = child_or_new(object, "spec") else {
        return;
    };
    let had_none = default_completion(spec);
    let is_missing = spec.get("pullPolicy").is_none_or(Value::is_null);
    if fills_given || had_none || is_missing {
        default_pull_policy(spec);
    }
}
