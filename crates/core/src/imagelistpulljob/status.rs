//! The status of a list, counted from its jobs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_api::imagelistpulljob::v1beta1::ImageListPullJob;
use kruise_api::imagelistpulljob::{FailedImageStatus, ImageListPullJobStatus};
use kruise_api::imagepulljob::v1beta1::ImagePullJob;
use kruise_api::merge_patch;
use kruise_api::resource::{Preconditions, Subresource};
use kruise_api::shared::completion::CompletionPolicyType;
use serde_json::json;

use crate::plan::{Action, Target};
use crate::shared::seconds::truncate;

/// The status with these jobs, by image.
pub(super) fn of(
    list: &ImageListPullJob,
    jobs: &BTreeMap<&str, &ImagePullJob>,
    now: Timestamp,
) -> ImageListPullJobStatus {
    let now = Time(truncate(now));
    let began = list.status.as_ref().and_then(|status| status.start_time.clone());
    let mut new = ImageListPullJobStatus {
        start_time: Some(began.unwrap_or_else(|| now.clone())),
        desired: i32::try_from(list.spec.images.len()).unwrap_or(i32::MAX),
        ..ImageListPullJobStatus::default()
    };
    for image in &list.spec.images {
        let Some(job) = jobs.get(image.as_str()) else { continue };
        let Some(status) = job.status.as_ref().filter(|status| status.start_time.is_some()) else {
            continue;
        };
        new.active += i32::from(status.active > 0);
        new.completed += i32::from(status.desired == status.failed + status.succeeded);
        new.succeeded += i32::from(status.desired == status.succeeded);
        if status.failed > 0 {
            let name = job.metadata.name.clone().unwrap_or_default();
            new.failed_image_statuses.push(FailedImageStatus {
                message: format!("Please check for details which nodes failed by 'kubectl get ImagePullJob {name}'."),
                image_pull_job: name,
                name: image.clone(),
            });
        }
    }
    let can_end = list.spec.completion_policy.type_ != CompletionPolicyType::Never;
    if can_end && new.completed == new.desired {
        new.completion_time = Some(now);
    }
    new
}

/// The write that brings the stored status to this one; none when it says nothing new.
pub(super) fn write(list: &ImageListPullJob, new: &ImageListPullJobStatus) -> Option<Action> {
    let patch = match &list.status {
        Some(old) => merge_patch::changes(old, new).ok().flatten()?,
        // A status that is not there yet is written whole: fields that are zero are required.
        None => serde_json::to_value(new).ok()?,
    };
    let same = Preconditions::same(list);
    let object = Target::of(list);
    Some(Action::merge(
        object,
        Some(Subresource::Status),
        json!({ "status": patch }),
        same,
    ))
}
