//! AdvancedCronJob: starts a Job, a BroadcastJob or an ImageListPullJob by the clock.
//!
//! 1. A job is due at the times of its schedule ([`schedule`]). Its name follows from the object and that time, so that the API server refuses a second one for the
//!    same time, whoever asks for it.
//! 2. Of times that were missed only the latest is made up for ([`due`]). Not when `startingDeadlineSeconds` have passed, and not when more than a hundred were
//!    missed: then something is wrong, and people are told.
//! 3. While an earlier job runs, `Allow` starts another, `Forbid` waits for its end and then starts at once, `Replace` deletes it first.
//! 4. Of jobs that have ended so many are kept as the history limits say, the latest ones; also while paused.
//! 5. While `paused` nothing is started.
//!
//! The time of the last start is in the status and, on each job, in an annotation; the later one counts. So a time does not come twice when the jobs are gone, and not
//! when the process dies between making a job and saying so.

mod admit;
pub mod child;
pub mod convert;
pub mod default;
mod due;
mod history;
pub mod schedule;
mod start;
mod status;
#[cfg(test)]
mod tests;
pub mod validate;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kruise_api::advancedcronjob::ConcurrencyPolicy;
use kruise_api::advancedcronjob::v1beta1::{AdvancedCronJob, AdvancedCronJobSpec};
use kruise_api::names::event;

use crate::admission;
use crate::plan::why;
use crate::plan::{Env, Event, Observation, OnFailure, Outcome, Pace, Phase, Plan, PodNames, Step};
use crate::shared::explain::explain_last;
use child::Child;
use due::Due;
use schedule::Schedule;

/// An AdvancedCronJob as a user submitted it; v1alpha1 has the same shape but for one template.
pub type Submitted = admission::Submitted<AdvancedCronJobSpec>;

/// An object and its jobs.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The object.
    pub cron: Arc<AdvancedCronJob>,
    /// The jobs that it manages, of the kind of its template.
    pub children: Vec<Child>,
    /// What came of the last plan.
    pub last: Outcome,
}

impl Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        plan(self, env)
    }
}

/// What to do for an object now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let cron = &*observed.cron;
    let mut plan = Plan::default();
    if cron.metadata.deletion_timestamp.is_some() {
        plan.because(why::General::Deleting);
        return plan;
    }
    explain_last(&observed.last, &mut plan);
    let status = status::of(cron, &observed.children);
    plan.push(history::step(cron, &observed.children));
    plan.status = crate::shared::status::patch(cron, cron.status.as_ref(), &status);
    if cron.spec.paused == Some(true) {
        plan.because(why::Jobs::JobPaused);
        return plan;
    }
    let schedule = match Schedule::parse(&cron.spec.schedule, cron.spec.time_zone.as_deref()) {
        Ok(schedule) => schedule,
        Err(error) => {
            let message = format!("spec.schedule: {error}");
            plan.because(why::General::Invalid { message });
            return plan;
        }
    };
    let last = status.last_schedule_time.as_ref().map(|last| last.0);
    let (due, next) = due::look_up(cron, last, &schedule, env.now);
    match due {
        Due::TooMany => {
            plan.because(why::Jobs::MissedTooMany);
            record_missed(observed, &mut plan);
            return plan;
        }
        Due::No => {}
        Due::TooLate(at) => plan.because(why::Jobs::MissedTooLate { at }),
        Due::Yes(at) => start_now(observed, at, &mut plan),
    }
    wait_for(next, env.now, &mut plan);
    plan
}

/// Starts a job, unless an earlier one forbids it.
fn start_now(observed: &Observed, at: Timestamp, plan: &mut Plan) {
    let cron = &*observed.cron;
    let active: Vec<&Child> = observed.children.iter().filter(|child| child.is_active()).collect();
    let policy = &cron.spec.concurrency_policy;
    if *policy == ConcurrencyPolicy::Forbid && !active.is_empty() {
        let jobs: PodNames = active.iter().map(|child| &*child.object.name).collect();
        plan.because(why::Jobs::StillRuns { jobs, due: at });
        return;
    }
    let Some(new) = start::chain(cron, at) else {
        let message = "spec.template: there is none".to_owned();
        plan.because(why::General::Invalid { message });
        return;
    };
    // What the status says has to be there before the time of this start is added to it.
    if let Some(status) = plan.status.take() {
        let mut first = Step::new(Phase::Housekeeping, Pace::InOrder, OnFailure::Stop);
        first.push(crate::plan::Chain::of(status.into()));
        plan.push_first(first);
    }
    if *policy == ConcurrencyPolicy::Replace {
        let mut replaced = Step::new(Phase::Claims, Pace::Bounded, OnFailure::Stop);
        for child in active {
            replaced.push(child.deletion());
        }
        plan.push(replaced);
    }
    let mut step = Step::new(Phase::Scale, Pace::InOrder, OnFailure::Stop);
    step.push(new);
    plan.push(step);
}

fn wait_for(next: Option<Timestamp>, now: Timestamp, plan: &mut Plan) {
    match next {
        Some(at) => {
            plan.because(why::Jobs::NextRun { at });
            plan.wake(Duration::try_from(at.duration_since(now)).unwrap_or_default());
        }
        None => plan.because(why::Jobs::NeverDue),
    }
}

/// Nothing wakes the object again until it changes, so that this is told once.
fn record_missed(observed: &Observed, plan: &mut Plan) {
    let name = observed.cron.metadata.name.as_deref().unwrap_or_default();
    let message = format!(
        "{name} missed more than {} start times, so none is started; set or lower spec.startingDeadlineSeconds, or check the clocks",
        due::MOST
    );
    plan.events.push(Event::warning(event::TOO_MANY_MISSED_TIMES, message));
}
