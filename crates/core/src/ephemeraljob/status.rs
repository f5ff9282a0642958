//! The status of a job: counts, phase, and conditions as far as they have come.
//!
//! All of R Pods have to succeed; R is `replicas`, or the number of chosen Pods. The first line that holds gives the phase:
//!
//! | | phase |
//! |---|---|
//! | the job cannot be worked on | `Error` |
//! | it is paused | `Paused`; it ends all the same when the lines marked with * hold |
//! | no Pod is chosen | `Waiting` |
//! | R succeeded * | `Succeeded` |
//! | one runs | `Running` |
//! | R failed * | `Failed` |
//! | R wait | `Waiting` |
//! | anything else | `Unknown` |
//!
//! At the deadline a job that is `Waiting`, `Running` or `Unknown` is `Failed`. A condition is written once and changes only when it says something else.
//! `FailedCreate` is there while a Pod refuses the containers; it says why and goes when none does.

use jiff::Timestamp;
use kruise_api::ephemeraljob::{EphemeralJobPhase, EphemeralJobStatus};
use kruise_api::names::condition::ephemeral_job as condition;

use super::Observed;
use super::counts::Counts;
use crate::plan::{Phase, Plan, Target};
use crate::shared::conditions::{of_job, to_second};
use crate::shared::{status, time_to_live};

/// The status of a job, on its way to what it will be.
pub(super) struct Progress<'a> {
    observed: &'a Observed,
    now: Timestamp,
    new: EphemeralJobStatus,
}

impl<'a> Progress<'a> {
    pub(super) fn of(observed: &'a Observed, now: Timestamp) -> Self {
        let mut new = observed.job.status.clone().unwrap_or_default();
        new.start_time.get_or_insert_with(|| to_second(now));
        let mut progress = Self { observed, now, new };
        progress.set_condition(condition::INITIALIZED, condition::INITIALIZED, "");
        progress
    }

    /// The job cannot be worked on.
    pub(super) fn is_wrong(&mut self, message: &str) {
        let new = &mut self.new;
        (new.matched, new.running, new.succeeded, new.waiting, new.failed) = (0, 0, 0, 0, 0);
        new.phase = EphemeralJobPhase::Error;
        self.set_condition(condition::ERROR, condition::ERROR, message);
    }

    /// Takes the counts, and says where the job stands by them.
    pub(super) fn count(&mut self, counts: &Counts<'_>) {
        let new = &mut self.new;
        new.matched = counts.matched;
        new.running = counts.running;
        new.succeeded = counts.succeeded;
        new.waiting = counts.waiting;
        new.failed = counts.failed();
        self.new.phase = self.phase(counts);
        self.record_refusals(counts);
        if counts.failed() > 0 {
            let message = format!("containers failed in {} pods", counts.failed());
            self.set_condition(condition::FAILED, condition::CREATE_FAILED, &message);
        }
        if self.observed.job.spec.paused {
            self.new.phase = EphemeralJobPhase::Paused;
        } else if !self.has_ended() && self.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.end(EphemeralJobPhase::Failed);
            let meta = &self.observed.job.metadata;
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            let (namespace, name) = (text(&meta.namespace), text(&meta.name));
            let message = format!("Job {namespace}/{name} was active longer than specified deadline");
            self.set_condition(condition::FAILED, condition::DEADLINE_EXCEEDED, &message);
        }
    }

    /// A Pod that refused the containers is left alone for longer and longer, and is not tried in every round.
    fn record_refusals(&mut self, counts: &Counts<'_>) {
        let last = &self.observed.last;
        let mut candidates = counts.candidates.iter();
        if !candidates.any(|pod| last.back_offs.contains_key(&Target::of(*pod))) {
            let conditions = &mut self.new.conditions;
            conditions.retain(|known| known.type_ != condition::FAILED_CREATE);
        } else if let Some(failure) = last.first(Phase::Scale) {
            let message = failure.message.clone();
            self.set_condition(condition::FAILED_CREATE, condition::FAILED_CREATE, &message);
        }
    }

    fn phase(&mut self, counts: &Counts<'_>) -> EphemeralJobPhase {
        let all = self.observed.job.spec.replicas.unwrap_or(counts.matched);
        if counts.matched == 0 {
            self.set_condition(condition::MATCHED_EMPTY, condition::MATCH_EMPTY, "job match no pods");
            EphemeralJobPhase::Waiting
        } else if counts.succeeded == all {
            self.end(EphemeralJobPhase::Succeeded);
            let message = format!("containers succeeded in {} pods", counts.succeeded);
            self.set_condition(condition::SUCCEEDED, condition::SUCCEEDED, &message);
            EphemeralJobPhase::Succeeded
        } else if counts.running > 0 {
            EphemeralJobPhase::Running
        } else if counts.failed() == all {
            self.end(EphemeralJobPhase::Failed);
            EphemeralJobPhase::Failed
        } else if counts.waiting == all {
            EphemeralJobPhase::Waiting
        } else {
            EphemeralJobPhase::Unknown
        }
    }

    fn end(&mut self, phase: EphemeralJobPhase) {
        self.new.phase = phase;
        self.new.completion_time = Some(to_second(self.now));
    }

    /// Whether the job has ended now.
    pub(super) fn has_ended(&self) -> bool {
        self.new.completion_time.is_some()
    }

    /// When the job fails if it has not ended.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let seconds = self.observed.job.spec.active_deadline_seconds?;
        let start = self.new.start_time.as_ref().map_or(self.now, |start| start.0);
        Some(time_to_live::after(start, seconds))
    }

    /// Says something, unless it was said before.
    fn set_condition(&mut self, type_: &str, reason: &str, message: &str) {
        let conditions = &mut self.new.conditions;
        match conditions.iter_mut().find(|known| known.type_ == type_) {
            Some(known) if known.reason == reason && known.message == message => {}
            Some(known) => *known = of_job(type_, reason, message, self.now),
            None => conditions.push(of_job(type_, reason, message, self.now)),
        }
    }

    /// Writes it after everything else, unless only counts are new and were written just now. A condition that comes or goes does not wait: of a refusal only the
    /// round after it knows.
    pub(super) fn write(self, plan: &mut Plan) {
        let old = self.observed.job.status.as_ref();
        let Some(write) = status::patch(&*self.observed.job, old, &self.new) else {
            return;
        };
        let is_progress = old.is_some_and(|old| {
            let new = &self.new;
            let types = |status: &EphemeralJobStatus| -> Vec<String> {
                let conditions = status.conditions.iter();
                conditions.map(|condition| condition.type_.clone()).collect()
            };
            old.start_time == new.start_time
                && old.phase == new.phase
                && old.completion_time == new.completion_time
                && types(old) == types(new)
        });
        let last = self.observed.last_written.filter(|_| is_progress);
        status::write_in_turn(write, last, status::PROGRESS, self.now, plan);
    }
}
