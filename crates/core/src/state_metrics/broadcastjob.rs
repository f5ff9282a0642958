//! BroadcastJob.

use kruise_api::broadcastjob::BroadcastJobPhase;
use kruise_api::broadcastjob::v1beta1::BroadcastJob;
use kruise_api::shared::IntOrPercent;

use super::{Family, of, sampled, text_of};

sampled!(BroadcastJob, FAMILIES);

const FAMILIES: &[Family<BroadcastJob>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::value(
        "spec_parallelism",
        "Most Pods at a time; 0 for a share.",
        |job| match job.spec.parallelism.as_ref()? {
            IntOrPercent::Int(count) => Some((*count).into()),
            IntOrPercent::Text(_) => Some(0),
        },
    ),
    Family::value(
        "spec_strategy_activedeadline_seconds",
        "Seconds after which the job has failed; 0 for no limit.",
        |job| Some(job.spec.completion_policy.active_deadline_seconds.unwrap_or_default()),
    ),
    Family::value(
        "spec_strategy_ttl_seconds",
        "Seconds that the finished job is kept; 0 for ever or not at all.",
        |job| {
            Some(
                job.spec
                    .completion_policy
                    .ttl_seconds_after_finished
                    .unwrap_or_default()
                    .into(),
            )
        },
    ),
    Family::samples(
        "spec_strategy_type",
        "1; the label says whether the job ends.",
        &["strategy_type"],
        |job, to| to.info("strategy_type", job.spec.completion_policy.type_.as_str()),
    ),
    Family::value("status_active", "Pods that run.", |job| {
        of(job.status.as_ref(), |status| status.active)
    }),
    Family::value("status_succeeded", "Pods that succeeded.", |job| {
        of(job.status.as_ref(), |status| status.succeeded)
    }),
    Family::value("status_failed", "Pods that failed.", |job| {
        of(job.status.as_ref(), |status| status.failed)
    }),
    Family::value("status_desired", "Nodes that the job is for.", |job| {
        of(job.status.as_ref(), |status| status.desired)
    }),
    Family::samples("status_phase", "1 for the phase of the job.", &["phase"], |job, to| {
        let known = [
            BroadcastJobPhase::Running,
            BroadcastJobPhase::Paused,
            BroadcastJobPhase::Completed,
            BroadcastJobPhase::Failed,
        ];
        let phase = text_of(job.status.as_ref(), |status| status.phase.as_str());
        to.one_of("phase", &known.each_ref().map(BroadcastJobPhase::as_str), phase);
    }),
    Family::samples(
        "status_condition",
        "Whether a condition holds.",
        &["condition", "status"],
        |job, to| {
            for condition in job.status.iter().flat_map(|status| &status.conditions) {
                to.condition(&condition.type_, &condition.status);
            }
        },
    ),
];
