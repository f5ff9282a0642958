//! What is written into a BroadcastJob where its user said nothing.
//!
//! | field | default |
//! |---|---|
//! | `parallelism` | 2147483647, which is no limit |
//! | `completionPolicy.type` | `Always` |
//! | `failurePolicy.type` | `FailFast` |
//! | `restartPolicy` of the template | `OnFailure`: what a Pod has otherwise, `Always`, is refused here |
//! | the rest of the template | see [`crate::pod_template`] |
//!
//! The template is completed when the job is new or its template has changed, and otherwise left alone. Gate `TemplateNoDefaults` leaves it alone always,
//! but for the restart policy.

use kruise_api::gates::Gates;
use serde_json::{Value, json};

use crate::pod_template;
use crate::shared::tree::{Object, child, child_or_new, fill, fill_missing};

/// Completes a job; `old` is what it was before an update.
pub fn default(object: &mut Object, old: Option<&Object>, gates: Gates) {
    let old = old.and_then(|old| old.get("spec")).and_then(Value::as_object);
    let Some(spec) = child_or_new(object, "spec") else {
        return;
    };
    let mut wrote = fill_missing(spec, "parallelism", json!(i32::MAX));
    for (policy, type_) in [("completionPolicy", "Always"), ("failurePolicy", "FailFast")] {
        wrote |= child_or_new(spec, policy).is_some_and(|policy| fill(policy, "type", json!(type_)));
    }
    if old.is_some_and(|old| old.get("template") == spec.get("template")) {
        return;
    }
    if let Some(template) = child(spec, "template") {
        wrote |= default_template(template, gates);
        if wrote {
            pod_template::artefacts(template);
        }
    }
}

/// Completes the template of Pods that run to their end. Says whether there was anything to write.
pub fn default_template(template: &mut Object, gates: Gates) -> bool {
    let wrote = child_or_new(template, "spec").is_some_and(|spec| fill(spec, "restartPolicy", json!("OnFailure")));
    pod_template::default(template, gates) || wrote
}
