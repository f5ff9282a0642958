//! ImageListPullJob.

use kruise_api::imagelistpulljob::v1beta1::ImageListPullJob;

use super::{Family, count, of, sampled};

sampled!(ImageListPullJob, FAMILIES);

const FAMILIES: &[Family<ImageListPullJob>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::value("spec_images", "Images to pull.", |job| count(job.spec.images.len())),
    Family::samples(
        "spec_strategy_type",
        "1; the label says whether the job ends.",
        &["strategy_type"],
        |job, to| to.info("strategy_type", job.spec.completion_policy.type_.as_str()),
    ),
    Family::value("status_desired", "Images to pull, a job each.", |job| {
        of(job.status.as_ref(), |status| status.desired)
    }),
    Family::value("status_active", "Images that are being pulled.", |job| {
        of(job.status.as_ref(), |status| status.active)
    }),
    Family::value("status_completed", "Images whose job is done.", |job| {
        of(job.status.as_ref(), |status| status.completed)
    }),
    Family::value("status_succeeded", "Images that every node has.", |job| {
        of(job.status.as_ref(), |status| status.succeeded)
    }),
    Family::value("status_failed_images", "Images that some node could not pull.", |job| {
        count(
            job.status
                .as_ref()
                .map_or(0, |status| status.failed_image_statuses.len()),
        )
    }),
    Family::value(
        "status_start_time",
        "When the job began, in seconds since 1970.",
        |job| Some(job.status.as_ref()?.start_time.as_ref()?.0.as_second()),
    ),
    Family::value(
        "status_completion_time",
        "When the job was done, in seconds since 1970.",
        |job| Some(job.status.as_ref()?.completion_time.as_ref()?.0.as_second()),
    ),
];
