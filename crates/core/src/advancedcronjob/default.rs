//! What is written into an AdvancedCronJob where its user said nothing.
//!
//! | field | default |
//! |---|---|
//! | `concurrencyPolicy` | `Allow`; `Replace` for an ImageListPullJob |
//! | `paused` | false |
//! | `successfulJobsHistoryLimit`, `failedJobsHistoryLimit` | 3, 1 |
//! | `restartPolicy` of a BroadcastJob's template | `OnFailure`: what a Pod has otherwise is refused when the job is made |
//! | the rest of Pod templates | see [`crate::pod_template`] |
//! | of an ImageListPullJob without `completionPolicy.type` | type `Always`, 600 seconds and three attempts for each pull, `IfNotPresent` |
//!
//! Templates are completed when they are new or have changed, and otherwise left alone; gate `TemplateNoDefaults` leaves Pod templates alone always.

use kruise_api::gates::Gates;
use serde_json::{Value, json};

use crate::pod_template;
use crate::shared::image_pull::{default_completion, default_pull_policy};
use crate::shared::tree::{Object, child, child_or_new, fill, fill_missing};

const JOB: &str = "jobTemplate";
const BROADCAST: &str = "broadcastJobTemplate";
const LIST: &str = "imageListPullJobTemplate";

/// Completes an object; `old` is what it was before an update.
pub fn default(object: &mut Object, old: Option<&Object>, gates: Gates) {
    let old = old.and_then(|old| old.get("spec"));
    let Some(spec) = child_or_new(object, "spec") else {
        return;
    };
    let pulls = child(spec, "template").is_some_and(|template| child(template, LIST).is_some());
    let policy = if pulls { "Replace" } else { "Allow" };
    let mut wrote = fill(spec, "concurrencyPolicy", json!(policy));
    wrote |= fill_missing(spec, "paused", json!(false));
    wrote |= fill_missing(spec, "successfulJobsHistoryLimit", json!(3));
    wrote |= fill_missing(spec, "failedJobsHistoryLimit", json!(1));
    if old.is_some_and(|old| old.get("template") == spec.get("template")) {
        return;
    }
    let Some(template) = child(spec, "template") else {
        return;
    };
    if let Some(list) = child(template, LIST).and_then(|list| child(list, "spec")) {
        default_list(list);
    }
    if let Some(job) = child(template, JOB) {
        if let Some(pod) = child(job, "spec").and_then(|spec| child(spec, "template")) {
            wrote |= pod_template::default(pod, gates);
            if wrote {
                pod_template::artefacts(pod);
            }
        }
        if wrote && let Some(metadata) = child_or_new(job, "metadata") {
            fill_null(metadata, "creationTimestamp");
        }
    }
    if let Some(spec) = child(template, BROADCAST).and_then(|job| child(job, "spec")) {
        if let Some(pod) = child(spec, "template") {
            wrote |= child_or_new(pod, "spec").is_some_and(|spec| fill(spec, "restartPolicy", json!("OnFailure")));
            wrote |= pod_template::default(pod, gates);
            if wrote {
                pod_template::artefacts(pod);
            }
        }
        if wrote {
            // What the original's way of writing leaves behind.
            fill_missing(spec, "completionPolicy", json!({}));
            fill_missing(spec, "failurePolicy", json!({}));
        }
    }
}

fn fill_null(object: &mut Object, name: &str) {
    object.entry(name).or_insert(Value::Null);
}

fn default_list(spec: &mut Object) {
    if default_completion(spec) {
        default_pull_policy(spec);
        fill(spec, "imagePullPolicy", json!("IfNotPresent"));
    }
}
