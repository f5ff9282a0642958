//! BroadcastJob: runs one Pod to its end on every node that fits.
//!
//! 1. A node fits when the scheduler would take the Pod, were there no others ([`fit`]). One that stops fitting loses its Pod, ended or not.
//! 2. Pods run on so many nodes at the same time as `parallelism` allows, in the order of the nodes' names ([`scale`]). A Pod that is restarted more
//!    often than `restartLimit` counts as failed ([`counts`]).
//! 3. While `paused` no Pod is made and the deadline does not count.
//! 4. When a Pod has failed: `FailFast` ends the job and deletes the Pods that run, `Pause` makes no further Pods until nobody has failed,
//!    `Continue` goes on.
//! 5. At `activeDeadlineSeconds` the job has failed, and the Pods that run are deleted.
//! 6. It is complete when the Pod of every node that fits has ended, well or not. Without such a node it is not. One of type `Never` is never
//!    complete: nodes that join later are served too.
//! 7. A job that has ended is left as it is, and goes after `ttlSecondsAfterFinished`.
//!
//! A job that fails says so before it deletes Pods. Should the process die in between, the next one sees a failed job with Pods that run, and deletes them.
//! The progress is written at most once a second: a job for thousands of nodes must not cost a write for each.

mod admit;
mod counts;
pub mod default;
mod explain;
pub mod fit;
mod resources;
mod scale;
mod status;
#[cfg(test)]
mod tests;
pub mod validate;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kruise_api::broadcastjob::v1beta1::BroadcastJob;
use kruise_api::broadcastjob::{BroadcastJobPhase, BroadcastJobSpec, FailurePolicyType};
use kruise_api::meta::PartialObject;
use kruise_api::names::condition::broadcast_job as condition;
use kruise_api::names::event;
use kruise_api::node::Node;
use kruise_api::pod::Pod;
use kruise_api::shared::completion::CompletionPolicyType;
use kruise_api::shared::conditions::ConditionStatus;
use serde_json::Value;

use crate::admission;
use crate::plan::why;
use crate::plan::{Env, Event, Observation, Outcome, Plan};
use crate::shared::membership;
use crate::shared::seconds::whole_seconds;
use crate::shared::time_to_live;
use counts::Counts;
use fit::Fitter;
use status::Progress;

/// A BroadcastJob as a user submitted it; both versions have the same shape.
pub type Submitted = admission::Submitted<BroadcastJobSpec>;

/// A job and what it depends on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The job.
    pub job: Arc<BroadcastJob>,
    /// Pods with an owner reference to the job.
    pub pods: Vec<Arc<Pod>>,
    /// Pods of the job that cannot be read, but for their metadata.
    pub unreadable: Vec<Arc<PartialObject>>,
    /// All nodes.
    pub nodes: Vec<Arc<Node>>,
    /// `--assign-bcj-pods-by-scheduler`: Pods ask the scheduler for their node instead of naming it.
    pub is_scheduled: bool,
    /// When the progress was last written, as far as is known.
    pub last_written: Option<Timestamp>,
    /// What came of the last plan.
    pub last: Outcome,
}

impl Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        plan(self, env)
    }
}

/// Whether a job has ended. One that is never complete does not end, even when it has failed.
pub fn is_finished(job: &BroadcastJob) -> bool {
    !is_never_complete(job) && (holds(job, condition::COMPLETE) || holds(job, condition::FAILED))
}

fn is_never_complete(job: &BroadcastJob) -> bool {
    job.spec.completion_policy.type_ == CompletionPolicyType::Never
}

fn holds(job: &BroadcastJob, type_: &str) -> bool {
    let conditions = job.status.iter().flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .any(|known| known.type_ == type_ && known.status == ConditionStatus::True)
}

/// What to do for a job now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let job = &*observed.job;
    let mut plan = Plan::default();
    if job.metadata.deletion_timestamp.is_some() {
        plan.because(why::General::Deleting);
        return plan;
    }
    if is_finished(job) {
        finish(observed, env, &mut plan);
        return plan;
    }
    let template = job.spec.template.value();
    let fitter = match Fitter::of_template(&template) {
        Ok(fitter) => fitter,
        Err(message) => {
            plan.because(why::General::Invalid { message });
            return plan;
        }
    };
    let counts = Counts::of(observed, &fitter);
    explain::last(observed, &mut plan);
    counts.warn_of_duplicates(&mut plan);
    let mut progress = Progress::of(observed, &counts, env.now);
    match stage(job, &progress, &counts, env.now) {
        Stage::Failed => {
            plan.because(why::Jobs::JobFailed);
            scale::delete_active(&counts, &mut plan);
            progress.write(&mut plan);
        }
        Stage::Paused => {
            plan.because(why::Jobs::JobPaused);
            progress.enter(BroadcastJobPhase::Paused);
            progress.write(&mut plan);
        }
        Stage::PausedByFailure => {
            explain::paused_by_failure(&counts, &mut plan);
            if progress.enter(BroadcastJobPhase::Paused) {
                let event = Event::warning(event::PAUSED, "job is paused, due to failed pod");
                plan.events.push(event);
            }
            progress.write(&mut plan);
        }
        Stage::Failing(failing) => fail(&failing, progress, &counts, env, &mut plan),
        Stage::Running => run(observed, &template, progress, &counts, env, &mut plan),
    }
    plan
}

/// Where a job stands that has not ended.
enum Stage {
    /// It failed before, and is never complete.
    Failed,
    /// Its user paused it.
    Paused,
    /// Its failure policy paused it.
    PausedByFailure,
    /// It fails now.
    Failing(Failing),
    /// It goes on.
    Running,
}

struct Failing {
    reason: &'static str,
    message: String,
}

fn stage(job: &BroadcastJob, progress: &Progress<'_>, counts: &Counts<'_>, now: Timestamp) -> Stage {
    if progress.phase() == &BroadcastJobPhase::Failed {
        return Stage::Failed;
    }
    if job.spec.paused {
        return Stage::Paused;
    }
    let policy = &job.spec.failure_policy.type_;
    if !counts.failed.is_empty() && *policy == FailurePolicyType::Pause {
        return Stage::PausedByFailure;
    }
    if !counts.failed.is_empty() && *policy == FailurePolicyType::FailFast {
        return Stage::Failing(Failing {
            reason: event::FAILED_POD_FOUND,
            message: "failure policy is FailurePolicyTypeFailFast and failed pod is found".to_owned(),
        });
    }
    if deadline(job, progress).is_some_and(|deadline| deadline <= now) {
        let meta = &job.metadata;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let (namespace, name) = (text(&meta.namespace), text(&meta.name));
        return Stage::Failing(Failing {
            reason: event::DEADLINE_EXCEEDED,
            message: format!("Job {namespace}/{name} was active longer than specified deadline"),
        });
    }
    Stage::Running
}

fn deadline(job: &BroadcastJob, progress: &Progress<'_>) -> Option<Timestamp> {
    let seconds = job.spec.completion_policy.active_deadline_seconds;
    let seconds = seconds.filter(|_| !is_never_complete(job))?;
    Some(time_to_live::after(progress.start(), seconds))
}

/// Says that the job has failed, then deletes the Pods that run; they count as failed.
fn fail(failing: &Failing, mut progress: Progress<'_>, counts: &Counts<'_>, env: &Env, plan: &mut Plan) {
    progress.fail(&failing.message, env.now);
    let (succeeded, failed) = progress.ended();
    let message = format!("{}: {succeeded} pods succeeded, {failed} pods failed", failing.message);
    progress.write_first(Event::warning(failing.reason, message), plan);
    scale::delete_active(counts, plan);
}

/// Makes Pods and deletes those whose node no longer fits. With nothing left to wait for, the job is complete.
fn run(
    observed: &Observed,
    template: &Value,
    mut progress: Progress<'_>,
    counts: &Counts<'_>,
    env: &Env,
    plan: &mut Plan,
) {
    let job = &*observed.job;
    if *progress.phase() == BroadcastJobPhase::Paused {
        plan.events
            .push(Event::normal(event::CONTINUE, "continue to process job"));
    }
    progress.enter(BroadcastJobPhase::Running);
    if !observed.unreadable.is_empty() {
        let pods = observed.unreadable.iter().map(|head| &*head.metadata.name).collect();
        membership::wait_for_unreadable(pods, plan);
        progress.write(plan);
        return;
    }
    scale::delete_misplaced(counts, plan);
    scale::create(observed, template, counts, plan);
    if !is_never_complete(job) && counts.is_complete() {
        progress.complete(env.now);
        let (succeeded, failed) = progress.ended();
        let name = |field: &Option<String>| field.clone().unwrap_or_default();
        let (namespace, name) = (name(&job.metadata.namespace), name(&job.metadata.name));
        let message = format!("Job {namespace}/{name} is completed, {succeeded} pods succeeded, {failed} pods failed");
        plan.events.push(Event::normal(event::JOB_COMPLETE, message));
        progress.write(plan);
        return;
    }
    explain::running(counts, plan);
    if let Some(deadline) = deadline(job, &progress) {
        plan.wake(whole_seconds(deadline.duration_since(env.now)).max(Duration::from_secs(1)));
    }
    progress.write(plan);
}

/// A job that has ended: of a failed one no Pod runs on, and its time to live is waited for.
fn finish(observed: &Observed, env: &Env, plan: &mut Plan) {
    let job = &*observed.job;
    if holds(job, condition::FAILED) {
        scale::delete_running(&counts::running(observed), plan);
    }
    let ended = job.status.as_ref().and_then(|status| status.completion_time.as_ref());
    let ttl = job.spec.completion_policy.ttl_seconds_after_finished;
    time_to_live::delete_after_ttl(job, ended, ttl, env, plan);
}
