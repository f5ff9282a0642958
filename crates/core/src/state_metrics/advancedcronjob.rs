//! AdvancedCronJob.

use kruise_api::advancedcronjob::v1beta1::AdvancedCronJob;

use super::{Family, count, sampled, text_of};

sampled!(AdvancedCronJob, FAMILIES);

const FAMILIES: &[Family<AdvancedCronJob>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::samples(
        "spec_schedule",
        "1; the labels are the schedule and its time zone.",
        &["schedule", "time_zone"],
        |job, to| {
            let zone = job.spec.time_zone.as_deref().unwrap_or_default();
            to.labelled(&[("schedule", &job.spec.schedule), ("time_zone", zone)], 1);
        },
    ),
    Family::samples(
        "spec_strategy_type",
        "1; the label is what happens to a job that still runs when the next is due.",
        &["strategy_type"],
        |job, to| to.info("strategy_type", job.spec.concurrency_policy.as_str()),
    ),
    Family::value("spec_paused", "1 while no jobs are made.", |job| {
        Some(job.spec.paused.unwrap_or_default().into())
    }),
    Family::samples(
        "status_type",
        "1; the label is the kind of the jobs.",
        &["type"],
        |job, to| to.info("type", text_of(job.status.as_ref(), |status| status.type_.as_str())),
    ),
    Family::value("status_active", "Jobs that run.", |job| {
        count(job.status.as_ref().map_or(0, |status| status.active.len()))
    }),
    Family::value(
        "status_last_schedule_time",
        "When the last job was due, in seconds since 1970.",
        |job| Some(job.status.as_ref()?.last_schedule_time.as_ref()?.0.as_second()),
    ),
];
