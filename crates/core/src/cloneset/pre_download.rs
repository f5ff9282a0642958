//! Pulling images onto the nodes ahead of an update (gate `PreDownloadImageForInPlaceUpdate`).
//!
//! While a rollout is under way, jobs pull the images of the update revision; when it is over, the jobs go. Whether it
//! is worth it is decided once per revision (see [`crate::shared::predownload`]). What fails here holds nothing back.

use kruise_api::gates::Gate;
use kruise_api::names::{annotation, event};
use kruise_api::shared::in_place::{InPlaceUpdateStrategy, PodUpdatePolicy};
use kruise_api::shared::int_or_percent::Percent;
use serde_json::Value;

use super::counts;
use super::round::Round;
use crate::plan::{
    Action, Chain, Event, ObjectKind, OnFailure, Pace, Part, Patch, Phase, Plan, Preconditions, Step, Target, Write,
};
use crate::shared::inplace::{self, Options};
use crate::shared::predownload::{Job, Predownload, Rollout, predownload};

/// Plans jobs that pull images, or their end.
pub(super) fn pre_download(round: &Round<'_>, plan: &mut Plan) {
    let is_on = round.env.gates.enabled(Gate::PreDownloadImageForInPlaceUpdate) && round.env.settings.image_pull_jobs;
    if !is_on {
        return;
    }
    if round.revisions.are_same() {
        plan.push(clean_up(round));
        return;
    }
    // The decision is noted on the revision, so the revision has to be there.
    if round.revisions.is_stored() {
        decide(round, plan);
    }
}

fn clean_up(round: &Round<'_>) -> Step {
    let mut step = step(Pace::Bounded);
    for job in &round.observed.pull_jobs {
        let is_ours = job
            .metadata
            .controller()
            .is_some_and(|controller| controller.uid == round.uid);
        if is_ours && !job.metadata.is_deleting() {
            step.push(Chain::of(
                Action::delete(ObjectKind::ImagePullJob, &job.metadata).into(),
            ));
        }
    }
    step
}

fn step(pace: Pace) -> Step {
    Step::new(Phase::PreDownload, pace, OnFailure::GoOn)
}

fn decide(round: &Round<'_>, plan: &mut Plan) {
    let spec = &round.set.spec;
    let update = round.revisions.update.object();
    let current = round.revisions.current.object();
    let rolling = spec.update_strategy.rolling_update.as_ref();
    let policy = rolling.map(|rolling| &rolling.pod_update_policy);
    let none = InPlaceUpdateStrategy::default();
    let strategy = rolling
        .and_then(|rolling| rolling.in_place_update_strategy.as_ref())
        .unwrap_or(&none);
    let options = Options {
        gates: round.env.gates,
        ignore_claims: policy == Some(&PodUpdatePolicy::InPlaceOnly),
        grace_seconds: 0,
    };
    let status = round
        .set
        .status
        .as_ref()
        .filter(|status| status.update_revision == update.name());
    let decision = predownload(&Rollout {
        owner: &round.owner,
        namespace: round.namespace(),
        selector: &spec.selector,
        current,
        update,
        is_rolling_in_place: policy.is_some_and(|policy| {
            matches!(
                policy,
                PodUpdatePolicy::InPlaceIfPossible | PodUpdatePolicy::InPlaceOnly
            )
        }),
        is_possible_in_place: inplace::decide(current, update, &options).is_ok(),
        replicas: round.goal.replicas as i32,
        partition: round.goal.partition as i32,
        max_unavailable: counts::unavailable_rounded_down(spec) as i32,
        updated_ready: status.map_or(0, |status| status.updated_ready_replicas),
        min_updated_ready: min_updated_ready(round, strategy),
        parallelism: strategy.image_pre_download_parallelism.as_ref(),
        timeout_seconds: strategy.image_pre_download_timeout_seconds,
    });
    match decision {
        Predownload::Decided | Predownload::Wait => {}
        Predownload::Ignore { label } => plan.push(note(round, label)),
        Predownload::Create { jobs, label } => {
            let mut step = step(Pace::InOrder);
            for job in jobs.into_iter().filter(|job| !exists(round, job)) {
                step.push(create(round, job));
            }
            plan.push(step);
            plan.push(note(round, label));
        }
    }
}

/// Updated Pods that have to be ready first. The field has no percentages; the annotation of v1alpha1, which stays on the object, has.
fn min_updated_ready(round: &Round<'_>, strategy: &InPlaceUpdateStrategy) -> i32 {
    let annotations = round.set.metadata.annotations.as_ref();
    let percentage = || {
        let text = annotations?.get(annotation::PRE_DOWNLOAD_MIN_UPDATED_READY)?;
        Some(Percent::parse(text).ok()?.ceil_of(round.goal.replicas as i32))
    };
    let field = strategy.image_pre_download_min_updated_ready_pods;
    field.or_else(percentage).unwrap_or(0)
}

fn exists(round: &Round<'_>, job: &Job) -> bool {
    round
        .observed
        .pull_jobs
        .iter()
        .any(|known| *known.metadata.name == *job.name)
}

fn create(round: &Round<'_>, job: Job) -> Chain {
    let Job { name, image, object } = job;
    let target = Target::new(ObjectKind::ImagePullJob, round.namespace(), &name);
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
fn note(round: &Round<'_>, label: Value) -> Step {
    let meta = &round.revisions.update.object().metadata;
    let action = Action::Patch {
        object: Target::of(ObjectKind::ControllerRevision, meta),
        part: Part::Object,
        patch: Patch::Merge(label),
        preconditions: Preconditions::same(meta),
    };
    let mut step = step(Pace::InOrder);
    step.push(Chain::of(action.into()));
    step
}
