//! The writes of a pre-download: jobs, their end, and the note on the revision.

use std::sync::Arc;

use kruise_api::imagepulljob::v1beta1::ImagePullJob;
use kruise_api::kind::Kind as _;
use kruise_api::meta::{PartialObject, Uid};
use kruise_api::names::event;
use kruise_api::resource::Preconditions;
use kruise_api::revision::ControllerRevision;
use serde_json::Value;

use super::{Job, Predownload, Rollout, predownload};
use crate::plan::{Action, Chain, Event, OnFailure, Pace, Patch, Phase, Plan, Step, Target, Write};
use crate::shared::owner::is_controlled_by;
use crate::shared::revision::Revisions;

/// Returns whether images of a rollout can be pulled now. Without a rollout, the end of the workload's jobs is planned.
pub fn is_due(revisions: &Revisions<'_>, jobs: &[Arc<PartialObject>], owner: &Uid, plan: &mut Plan) -> bool {
    if revisions.are_same() {
        clean_up(jobs, owner, plan);
        return false;
    }
    // The decision is noted on the revision, so the revision has to be there.
    revisions.is_stored()
}

/// Plans the jobs of a rollout; `known` are those that are there already. The revision has to be stored: the decision is noted on it.
pub fn pre_download(rollout: &Rollout<'_>, known: &[Arc<PartialObject>], plan: &mut Plan) {
    match predownload(rollout) {
        Predownload::Decided | Predownload::Wait => {}
        Predownload::Ignore { label } => plan.push(note(rollout.update, label)),
        Predownload::Create { jobs, label } => {
            let mut step = step(Pace::InOrder);
            let exists = |job: &Job| known.iter().any(|known| *known.metadata.name == *job.name);
            for job in jobs.into_iter().filter(|job| !exists(job)) {
                step.push(create(rollout.namespace, job));
            }
            plan.push(step);
            plan.push(note(rollout.update, label));
        }
    }
}

/// Plans the end of a workload's jobs: all Pods are at the new revision.
pub fn clean_up(jobs: &[Arc<PartialObject>], owner: &Uid, plan: &mut Plan) {
    let mut step = step(Pace::Bounded);
    for job in jobs.iter().map(|job| &job.metadata) {
        if is_controlled_by(job, owner) && !job.is_deleting() {
            step.push(Chain::of(
                Action::delete(Target::of_kind(ImagePullJob::RESOURCE, job), Preconditions::same(job)).into(),
            ));
        }
    }
    plan.push(step);
}

fn step(pace: Pace) -> Step {
    Step::new(Phase::PreDownload, pace, OnFailure::GoOn)
}

fn create(namespace: &str, job: Job) -> Chain {
    let Job { name, image, object } = job;
    let target = Target::new(ImagePullJob::RESOURCE, namespace, &name);
    let done = format!("created ImagePullJob {name} for image: {image}");
    let failed = format!("failed to create ImagePullJob {name} for image: {image}");
    let write = Write::from(Action::create(target, object));
    // Both are good news: nothing depends on it.
    Chain::of(
        write
            .then(Event::normal(event::CREATED_IMAGE_PULL_JOB, done))
            .or_else(Event::normal(event::FAILED_CREATE_IMAGE_PULL_JOB, failed)),
    )
}

/// Notes the decision on the revision.
fn note(revision: &ControllerRevision, label: Value) -> Step {
    let action = Action::Patch {
        object: Target::of(revision),
        subresource: None,
        patch: Patch::Merge(label),
        preconditions: Preconditions::same(revision),
    };
    let mut step = step(Pace::InOrder);
    step.push(Chain::of(action.into()));
    step
}
