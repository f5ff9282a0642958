//! EphemeralJob.

use kruise_api::ephemeraljob::EphemeralJobPhase;
use kruise_api::ephemeraljob::v1alpha1::EphemeralJob;

use super::{Family, of, sampled, text_of};

sampled!(EphemeralJob, FAMILIES);

const FAMILIES: &[Family<EphemeralJob>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::value("spec_replicas", "Most Pods that get the containers.", |job| {
        Some(job.spec.replicas?.into())
    }),
    Family::value("spec_parallelism", "Most Pods whose containers run at a time.", |job| {
        Some(job.spec.parallelism?.into())
    }),
    Family::value("spec_paused", "1 while no further Pods get the containers.", |job| {
        Some(job.spec.paused.into())
    }),
    Family::value("status_matched", "Pods that the job is for.", |job| {
        of(job.status.as_ref(), |status| status.matched)
    }),
    Family::value("status_waiting", "Pods whose containers wait.", |job| {
        of(job.status.as_ref(), |status| status.waiting)
    }),
    Family::value("status_running", "Pods whose containers run.", |job| {
        of(job.status.as_ref(), |status| status.running)
    }),
    Family::value("status_succeeded", "Pods whose containers succeeded.", |job| {
        of(job.status.as_ref(), |status| status.succeeded)
    }),
    Family::value("status_failed", "Pods whose containers failed.", |job| {
        of(job.status.as_ref(), |status| status.failed)
    }),
    Family::samples("status_phase", "1 for the phase of the job.", &["phase"], |job, to| {
        let known = [
            EphemeralJobPhase::Waiting,
            EphemeralJobPhase::Running,
            EphemeralJobPhase::Succeeded,
            EphemeralJobPhase::Failed,
            EphemeralJobPhase::Paused,
            EphemeralJobPhase::Error,
            EphemeralJobPhase::Unknown,
        ];
        let phase = text_of(job.status.as_ref(), |status| status.phase.as_str());
        to.one_of("phase", &known.each_ref().map(EphemeralJobPhase::as_str), phase);
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
