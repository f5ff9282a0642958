//! ImagePullJob: pulls one image onto many nodes ahead of time.
//!
//! 1. The job asks nodes for the image by an entry in their NodeImages, so many at the same time as `parallelism` allows ([`distribute`]).
//!    Their daemons pull and answer there; the job counts the answers ([`counts`]). A node counts once the entry is there, not before.
//! 2. It is done when every chosen node has the image or has given up; with no node to pull onto it is done at once. A job of type `Never` is
//!    never done: nodes that join later are served too.
//! 3. At `activeDeadlineSeconds` it is done as well, and nodes that are not have failed.
//! 4. The Secrets that it names are copied to where daemons may read them, and let go of at its end ([`secrets`]); a finalizer sees to that.
//! 5. A job that is done goes after `ttlSecondsAfterFinished`.
//!
//! The progress is written at most once a second: a job for thousands of nodes must not cost a write for each.

mod admit;
mod counts;
pub mod default;
mod distribute;
pub mod secrets;
pub mod select;
mod status;
#[cfg(test)]
mod tests;
pub mod validate;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kruise_api::imagepulljob::v1beta1::ImagePullJob;
use kruise_api::imagepulljob::{ImagePullJobSpec, ImagePullJobStatus};
use kruise_api::names::finalizer;
use kruise_api::nodeimage::CachedNodeImage;
use kruise_api::resource::Preconditions;
use kruise_api::shared::completion::CompletionPolicyType;
use serde_json::json;

use crate::admission;
use crate::plan::why;
use crate::plan::{Action, Chain, Env, OnFailure, Pace, Phase, Plan, Step, Target};
use crate::shared::image_name::Image;
use crate::shared::image_pull::whole;
use crate::shared::seconds::whole_seconds;
use crate::shared::status as write_status;
use crate::shared::time_to_live;
use counts::Counts;
use secrets::Secrets;

/// An ImagePullJob as a user submitted it; both versions have the same shape.
pub type Submitted = admission::Submitted<ImagePullJobSpec>;

/// A job and what it depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The job.
    pub job: Arc<ImagePullJob>,
    /// The chosen nodes, in the order in which they get their turn.
    pub nodes: Vec<Arc<CachedNodeImage>>,
    /// The Secrets it names, and their copies.
    pub secrets: Secrets,
    /// When the progress was last written, as far as is known.
    pub last_written: Option<Timestamp>,
    /// `--default-ttlseconds-for-always-nodeimage`: seconds that a tag stays at least after its pull.
    pub tag_ttl_seconds: i64,
}

/// Whether a job still has something to do: it is neither done nor on its way out.
pub fn is_active(job: &ImagePullJob) -> bool {
    let is_done = job
        .status
        .as_ref()
        .is_some_and(|status| status.completion_time.is_some());
    !is_done && job.metadata.deletion_timestamp.is_none()
}

impl crate::plan::Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        plan(self, env)
    }
}

/// What to do for a job now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let job = &*observed.job;
    let mut plan = Plan::default();
    if !is_active(job) {
        finish(observed, env, &mut plan);
        return plan;
    }
    let image = match Image::parse(&job.spec.image) {
        Ok(image) => image,
        Err(bad) => {
            let message = format!("spec.image: {bad}");
            plan.because(why::General::Invalid { message });
            return plan;
        }
    };
    protect(job, &mut plan);
    let mut ids = env.ids.clone();
    let handed_out = secrets::hand_out(observed, &mut ids, &mut plan);
    let wanted = handed_out.as_deref().unwrap_or_default();
    let counts = Counts::of(observed, &image, wanted);
    let old = job.status.clone().unwrap_or_default();
    let new = status::of(&counts, &old, &job.spec, env.now);
    if new.completion_time.is_none() {
        let parallelism = job.spec.parallelism.as_ref().map_or(Ok(1), whole).unwrap_or(1);
        if handed_out.is_some() {
            distribute::step(
                observed,
                &image,
                &counts,
                wanted,
                parallelism,
                env.now,
                &mut ids,
                &mut plan,
            );
        }
        let waiting = i32::try_from(counts.waiting.len()).unwrap_or(i32::MAX);
        if counts.active > 0 || waiting > 0 {
            plan.because(why::Images::Pulling {
                active: counts.active,
                waiting,
                parallelism,
            });
        }
    }
    keep_status(observed, &old, &new, env, &mut plan);
    if new.completion_time.is_none()
        && job.spec.completion_policy.type_ != CompletionPolicyType::Never
        && let (Some(seconds), Some(start)) = (job.spec.completion_policy.active_deadline_seconds, &new.start_time)
    {
        let end = time_to_live::after(start.0, seconds);
        plan.wake(whole_seconds(end.duration_since(env.now)).max(Duration::from_secs(1)));
    }
    plan
}

/// Writes the status, unless only the progress is new and was written just now.
fn keep_status(observed: &Observed, old: &ImagePullJobStatus, new: &ImagePullJobStatus, env: &Env, plan: &mut Plan) {
    if old == new && observed.job.status.is_some() {
        return;
    }
    let Some(write) = status::write(&observed.job, new) else {
        return;
    };
    let is_progress = old.start_time.is_some() && new.completion_time.is_none();
    let last = observed.last_written.filter(|_| is_progress);
    write_status::write_in_turn(write, last, write_status::PROGRESS, env.now, plan);
}

/// Keeps the job until its Secrets are let go of.
fn protect(job: &ImagePullJob, plan: &mut Plan) {
    let known = job.metadata.finalizers.clone().unwrap_or_default();
    if known.iter().any(|known| known == finalizer::IMAGE_PULL_JOB) {
        return;
    }
    let all: Vec<String> = known
        .into_iter()
        .chain([finalizer::IMAGE_PULL_JOB.to_owned()])
        .collect();
    plan.push(finalizers(job, &all));
}

/// A job that is done, or on its way out: its Secrets are let go of, then it is free to go.
fn finish(observed: &Observed, env: &Env, plan: &mut Plan) {
    let job = &*observed.job;
    secrets::take_back(observed, plan);
    let known = job.metadata.finalizers.clone().unwrap_or_default();
    let rest: Vec<String> = known
        .iter()
        .filter(|known| *known != finalizer::IMAGE_PULL_JOB)
        .cloned()
        .collect();
    if rest.len() < known.len() {
        plan.push(finalizers(job, &rest));
    }
    if job.metadata.deletion_timestamp.is_some() {
        plan.because(why::General::Deleting);
        return;
    }
    let ended = job.status.as_ref().and_then(|status| status.completion_time.as_ref());
    let ttl = job.spec.completion_policy.ttl_seconds_after_finished;
    time_to_live::delete_after_ttl(job, ended, ttl, env, plan);
}

fn finalizers(job: &ImagePullJob, all: &[String]) -> Step {
    let mut step = Step::new(Phase::Housekeeping, Pace::InOrder, OnFailure::Stop);
    let patch = json!({"metadata": {"finalizers": all}});
    let object = Target::of(job);
    let action = Action::merge(object, None, patch, Preconditions::unchanged(job));
    step.push(Chain::of(action.into()));
    step
}
