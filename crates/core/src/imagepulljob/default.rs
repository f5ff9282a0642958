//! What is written into an ImagePullJob where its user said nothing.
//!
//! | field | default |
//! |---|---|
//! | `completionPolicy.type` | `Always` |
//! | `pullPolicy.timeoutSeconds`, `pullPolicy.backoffLimit` | 600, 3 |
//! | `imagePullPolicy` | `IfNotPresent` |
//! | finalizer, in a new v1alpha1 object | the one that keeps it until its Secrets are released; others get it from the controller |

use kruise_api::names::finalizer;
use serde_json::{Value, json};

use crate::shared::image_pull::{default_completion, default_pull_policy};
use crate::shared::tree::{Object, child_or_new, fill};

/// Completes a job; `gets_finalizer` for those that were just made in v1alpha1.
pub fn default(object: &mut Object, gets_finalizer: bool) {
    if let Some(spec) = child_or_new(object, "spec") {
        default_completion(spec);
        default_pull_policy(spec);
        fill(spec, "imagePullPolicy", json!("IfNotPresent"));
    }
    if gets_finalizer {
        add_finalizer(object);
    }
}

fn add_finalizer(object: &mut Object) {
    let Some(metadata) = child_or_new(object, "metadata") else {
        return;
    };
    let listed = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if listed.is_null() {
        *listed = json!([]);
    }
    if let Value::Array(listed) = listed
        && !listed.iter().any(|known| known == finalizer::IMAGE_PULL_JOB)
    {
        listed.push(json!(finalizer::IMAGE_PULL_JOB));
    }
}
