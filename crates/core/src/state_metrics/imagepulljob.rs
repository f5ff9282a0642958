//! ImagePullJob.

use kruise_api::imagepulljob::v1beta1::ImagePullJob;

use super::{Family, of, sampled};

sampled!(ImagePullJob, FAMILIES);

const FAMILIES: &[Family<ImagePullJob>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::samples("spec_image", "1; the label is the image.", &["image"], |job, to| {
        to.info("image", &job.spec.image);
    }),
    Family::samples(
        "spec_parallelism",
        "1; the label is the number or share of nodes that pull at a time.",
        &["parallelism"],
        |job, to| to.as_given("parallelism", job.spec.parallelism.as_ref()),
    ),
    Family::samples(
        "spec_strategy_type",
        "1; the label says whether the job ends.",
        &["strategy_type"],
        |job, to| to.info("strategy_type", job.spec.completion_policy.type_.as_str()),
    ),
    Family::value("status_desired", "Nodes that are to have the image.", |job| {
        of(job.status.as_ref(), |status| status.desired)
    }),
    Family::value("status_active", "Nodes that pull.", |job| {
        of(job.status.as_ref(), |status| status.active)
    }),
    Family::value("status_succeeded", "Nodes that have the image.", |job| {
        of(job.status.as_ref(), |status| status.succeeded)
    }),
    Family::value("status_failed", "Nodes that could not pull.", |job| {
        of(job.status.as_ref(), |status| status.failed)
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
