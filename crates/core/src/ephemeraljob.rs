//! EphemeralJob: puts ephemeral containers into Pods that run, and follows them to their end.
//!
//! 1. Pods of its namespace are *chosen* by its selector while they are active, the oldest first, as many as `replicas` says. A Pod that has a container of
//!    one of these names from elsewhere is left out ([`select`]).
//! 2. Containers are put into so many Pods at the same time as `parallelism` allows, 1 when nothing is said ([`inject`]). A Pod whose container is about to start counts as one
//!    in which it runs; one whose container cannot start, say because there is no such image, does not hold up the others.
//! 3. No Pod gets the containers twice: they carry the UID of the job, and a Pod that has one of them is never written again.
//! 4. The job succeeds when all containers of all chosen Pods have ended well, and fails when in every chosen Pod one has failed ([`status`]). When some fail
//!    and others do not it goes on until its deadline, if there is one.
//! 5. While `paused` no Pod gets containers and the deadline does not count; what runs goes on.
//! 6. A job that has ended is left as it is, and goes `ttlSecondsAfterFinished` later, half an hour when nothing is said.
//!
//! Kubernetes cannot take an ephemeral container out of a Pod: it stays when the job goes, and the Pod keeps its name. The finalizer is there because tools know it from
//! the original; nothing is waited for.
//!
//! The progress is written at most once a second.

mod admit;
mod counts;
mod explain;
mod inject;
pub mod select;
mod status;
#[cfg(test)]
mod tests;
pub mod validate;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kruise_api::ephemeraljob::v1alpha1::{EphemeralJob, EphemeralJobSpec};
use kruise_api::meta::PartialObject;
use kruise_api::names::finalizer;
use kruise_api::pod::Pod;
use kruise_api::resource::Preconditions;
use serde_json::json;

use crate::admission;
use crate::plan::why;
use crate::plan::{Action, Chain, Env, Observation, OnFailure, Outcome, Pace, Phase, Plan, Step, Target};
use crate::shared::seconds::whole_seconds;
use crate::shared::time_to_live;
use counts::Counts;
use inject::Containers;
use status::Progress;

/// An EphemeralJob as a user submitted it.
pub type Submitted = admission::Submitted<EphemeralJobSpec>;

/// Seconds that a job is kept after its end when it does not say.
const TIME_TO_LIVE: i32 = 1800;

/// A job and what it depends on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The job.
    pub job: Arc<EphemeralJob>,
    /// Pods of its namespace that its selector matches.
    pub pods: Vec<Arc<Pod>>,
    /// Such Pods that cannot be read, but for their metadata.
    pub unreadable: Vec<Arc<PartialObject>>,
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

/// Whether a job has ended.
pub fn is_finished(job: &EphemeralJob) -> bool {
    job.status
        .as_ref()
        .is_some_and(|status| status.completion_time.is_some())
}

/// What to do for a job now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let job = &*observed.job;
    let mut plan = Plan::default();
    if job.metadata.deletion_timestamp.is_some() {
        release(job, &mut plan);
        plan.because(why::General::Deleting);
        return plan;
    }
    if is_finished(job) {
        let ended = job.status.as_ref().and_then(|status| status.completion_time.as_ref());
        let ttl = job.spec.ttl_seconds_after_finished.unwrap_or(TIME_TO_LIVE);
        time_to_live::delete_after_ttl(job, ended, Some(ttl), env, &mut plan);
        return plan;
    }
    if protect(job, &mut plan) {
        return plan;
    }
    explain::last(observed, &mut plan);
    match usable(job) {
        Ok(containers) => run(observed, &containers, env, &mut plan),
        Err(message) => {
            let mut progress = Progress::of(observed, env.now);
            progress.is_wrong(&message);
            progress.write(&mut plan);
            plan.because(why::General::Invalid { message });
        }
    }
    plan
}

/// The containers of a job that can be worked on; what is wrong with it otherwise.
fn usable(job: &EphemeralJob) -> Result<Containers, String> {
    select::check(job)?;
    Containers::of(job)
}

fn run(observed: &Observed, containers: &Containers, env: &Env, plan: &mut Plan) {
    let job = &*observed.job;
    let counts = Counts::of(observed, containers);
    let mut progress = Progress::of(observed, env.now);
    progress.count(&counts);
    explain::running(observed, containers, &counts, plan);
    if job.spec.paused {
        plan.because(why::Jobs::JobPaused);
    } else if !progress.has_ended() {
        inject::step(observed, containers, &counts, env.now, plan);
        if let Some(deadline) = progress.deadline() {
            plan.wake(whole_seconds(deadline.duration_since(env.now)).max(Duration::from_secs(1)));
        }
    }
    progress.write(plan);
}

/// Sees to it that the job has its finalizer. Says whether it has to be written first: the next look is at a job of another version.
fn protect(job: &EphemeralJob, plan: &mut Plan) -> bool {
    let mut all = job.metadata.finalizers.clone().unwrap_or_default();
    if all.iter().any(|known| known == finalizer::EPHEMERAL_JOB) {
        return false;
    }
    all.push(finalizer::EPHEMERAL_JOB.to_owned());
    write_finalizers(job, &all, plan);
    true
}

/// Lets a job go.
fn release(job: &EphemeralJob, plan: &mut Plan) {
    let known = job.metadata.finalizers.clone().unwrap_or_default();
    let rest: Vec<String> = known
        .iter()
        .filter(|known| *known != finalizer::EPHEMERAL_JOB)
        .cloned()
        .collect();
    if rest.len() < known.len() {
        write_finalizers(job, &rest, plan);
    }
}

fn write_finalizers(job: &EphemeralJob, all: &[String], plan: &mut Plan) {
    let mut step = Step::new(Phase::Housekeeping, Pace::InOrder, OnFailure::Stop);
    let patch = json!({"metadata": {"finalizers": all}});
    let action = Action::merge(Target::of(job), None, patch, Preconditions::unchanged(job));
    step.push(Chain::of(action.into()));
    plan.push(step);
}
