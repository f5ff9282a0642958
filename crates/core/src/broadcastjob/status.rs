//! The status of a job: counts, phase, and a condition once it has ended.
//!
//! `FailedCreate` is a condition, too, while the API server refuses Pods of the job; it says why and goes when Pods can be made.

use jiff::Timestamp;
use kruise_api::broadcastjob::{BroadcastJobPhase, BroadcastJobStatus};
use kruise_api::names::condition::broadcast_job as condition;

use super::Observed;
use super::counts::Counts;
use crate::plan::{Chain, Event, OnFailure, Pace, Phase, Plan, Step, Write};
use crate::shared::conditions::{of_job, to_second};
use crate::shared::status;

/// The status of a job, on its way to what it will be.
pub(super) struct Progress<'a> {
    observed: &'a Observed,
    now: Timestamp,
    old: Option<&'a BroadcastJobStatus>,
    new: BroadcastJobStatus,
}

impl<'a> Progress<'a> {
    /// With the counts of now, and nothing decided.
    pub(super) fn of(observed: &'a Observed, counts: &Counts<'_>, now: Timestamp) -> Self {
        let old = observed.job.status.as_ref();
        let mut new = old.cloned().unwrap_or_default();
        let count = |pods: usize| i32::try_from(pods).unwrap_or(i32::MAX);
        new.start_time.get_or_insert_with(|| to_second(now));
        if new.phase == BroadcastJobPhase::default() {
            new.phase = BroadcastJobPhase::Running;
        }
        new.active = count(counts.active.len());
        new.succeeded = counts.succeeded;
        new.failed = count(counts.failed.len());
        new.desired = counts.desired;
        let mut progress = Self {
            observed,
            now,
            old,
            new,
        };
        progress.record_refusals();
        progress
    }

    fn record_refusals(&mut self) {
        let conditions = &mut self.new.conditions;
        let Some(failure) = self.observed.last.first(Phase::Scale) else {
            conditions.retain(|known| known.type_ != condition::FAILED_CREATE);
            return;
        };
        let is_known = conditions.iter().any(|known| known.type_ == condition::FAILED_CREATE);
        if !is_known {
            let type_ = condition::FAILED_CREATE;
            conditions.push(of_job(type_, type_, failure.message.clone(), self.now));
        }
    }

    pub(super) fn phase(&self) -> &BroadcastJobPhase {
        &self.new.phase
    }

    /// When the job was first seen.
    pub(super) fn start(&self) -> Timestamp {
        self.new.start_time.as_ref().map_or(self.now, |start| start.0)
    }

    /// Pods that succeeded and failed.
    pub(super) fn ended(&self) -> (i32, i32) {
        (self.new.succeeded, self.new.failed)
    }

    /// Sets the phase. Says whether it was another.
    pub(super) fn enter(&mut self, phase: BroadcastJobPhase) -> bool {
        let is_new = self.new.phase != phase;
        self.new.phase = phase;
        is_new
    }

    /// Every Pod has ended.
    pub(super) fn complete(&mut self, now: Timestamp) {
        let (succeeded, failed) = self.ended();
        let message = format!("Job completed, {succeeded} pods succeeded, {failed} pods failed");
        self.end(BroadcastJobPhase::Completed, condition::COMPLETE, &message, now);
    }

    /// The job has failed; Pods that are active are about to be deleted and count as failed.
    pub(super) fn fail(&mut self, message: &str, now: Timestamp) {
        self.new.failed += self.new.active;
        self.new.active = 0;
        self.end(BroadcastJobPhase::Failed, condition::FAILED, message, now);
    }

    fn end(&mut self, phase: BroadcastJobPhase, type_: &str, message: &str, now: Timestamp) {
        self.new.phase = phase;
        self.new.completion_time = Some(to_second(now));
        self.new
            .conditions
            .retain(|known| known.type_ != condition::FAILED_CREATE);
        self.new.conditions.push(of_job(type_, type_, message, now));
    }

    /// Writes it after everything else, unless only counts are new and were written just now.
    pub(super) fn write(self, plan: &mut Plan) {
        let Some(write) = status::patch(&*self.observed.job, self.old, &self.new) else {
            return;
        };
        let last = self.observed.last_written.filter(|_| self.is_only_counts());
        status::write_in_turn(write, last, status::PROGRESS, self.now, plan);
    }

    /// Writes it before everything else, and tells about it.
    pub(super) fn write_first(self, event: Event, plan: &mut Plan) {
        if let Some(write) = status::patch(&*self.observed.job, self.old, &self.new) {
            let mut step = Step::new(Phase::Housekeeping, Pace::InOrder, OnFailure::Stop);
            step.push(Chain::of(Write::from(write).then(event)));
            plan.push_first(step);
        }
    }

    fn is_only_counts(&self) -> bool {
        self.old.is_some_and(|old| {
            let new = &self.new;
            old.phase == new.phase && old.conditions == new.conditions && old.start_time == new.start_time
        })
    }
}
