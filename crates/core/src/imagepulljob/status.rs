//! The status of a job: counts, names of nodes that gave up, and a word about the progress.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_api::imagepulljob::v1beta1::ImagePullJob;
use kruise_api::imagepulljob::{ImagePullJobSpec, ImagePullJobStatus};
use kruise_api::merge_patch;
use kruise_api::resource::{Preconditions, Subresource};
use kruise_api::shared::completion::CompletionPolicyType;
use serde_json::json;

use super::counts::Counts;
use crate::plan::{Action, Target};
use crate::shared::seconds::truncate;

/// The status with these counts.
pub(super) fn of(
    counts: &Counts,
    old: &ImagePullJobStatus,
    spec: &ImagePullJobSpec,
    now: Timestamp,
) -> ImagePullJobStatus {
    let now = Time(truncate(now));
    let start = old.start_time.clone().unwrap_or_else(|| now.clone());
    let mut new = ImagePullJobStatus {
        start_time: Some(start.clone()),
        completion_time: None,
        desired: counts.desired,
        active: counts.active,
        succeeded: counts.succeeded,
        failed: counts.failed(),
        message: String::new(),
        failed_nodes: counts.failed.clone(),
    };
    let finished = new.succeeded + new.failed;
    let can_end = spec.completion_policy.type_ != CompletionPolicyType::Never;
    let deadline = spec.completion_policy.active_deadline_seconds.filter(|_| can_end);
    let is_late = deadline.is_some_and(|seconds| now.0.duration_since(start.0) >= SignedDuration::from_secs(seconds));
    if is_late && finished != new.desired {
        let not_asked = counts.waiting.iter().map(|node| node.metadata.name.to_string());
        new.failed_nodes
            .extend(counts.unfinished.iter().cloned().chain(not_asked));
        new.failed = i32::try_from(new.failed_nodes.len()).unwrap_or(i32::MAX);
        new.active = 0;
        new.completion_time = Some(now);
        "job exceeds activeDeadlineSeconds".clone_into(&mut new.message);
    } else if can_end && finished == new.desired {
        new.completion_time = Some(now);
        "job has completed".clone_into(&mut new.message);
    } else if new.desired == 0 {
        "job is running, no progress".clone_into(&mut new.message);
    } else {
        let share = f64::from(finished) * 100.0 / f64::from(new.desired);
        new.message = format!("job is running, progress {share:.1}%");
    }
    new
}

/// The write that brings the stored status to this one.
pub(super) fn write(job: &ImagePullJob, new: &ImagePullJobStatus) -> Option<Action> {
    let patch = match &job.status {
        Some(old) => merge_patch::changes(old, new).ok().flatten()?,
        // A status that is not there yet is written whole: fields that are zero are required.
        None => serde_json::to_value(new).ok()?,
    };
    let preconditions = Preconditions::same(job);
    let object = Target::of(job);
    Some(Action::merge(
        object,
        Some(Subresource::Status),
        json!({ "status": patch }),
        preconditions,
    ))
}
