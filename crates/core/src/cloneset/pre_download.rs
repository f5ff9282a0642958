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
use super::snapshot::Snapshot;
use crate::plan::{
    Action, Chain, Event, ObjectKind, OnFailure, Pace, Part, Patch, Phase, Plan, Preconditions, Step, Target, Write,
};
use crate::shared::inplace::{self, Options};
use crate::shared::predownload::{Job, Predownload, Rollout, predownload};

/// Plans jobs that pull images, or their end.
pub(super) fn pre_download(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let is_on =
        snapshot.env.gates.enabled(Gate::PreDownloadImageForInPlaceUpdate) && snapshot.env.settings.image_pull_jobs;
    if !is_on {
        return;
    }
    if snapshot.revisions.are_same() {
        plan.push(clean_up(snapshot));
        return;
    }
    // The decision is noted on the revision, so the revision has to be there.
    if snapshot.revisions.is_stored() {
        decide(snapshot, plan);
    }
}

fn clean_up(snapshot: &Snapshot<'_>) -> Step {
    let mut step = step(Pace::Bounded);
    for job in &snapshot.observed.pull_jobs {
        let is_ours = job
            .metadata
            .controller()
            .is_some_and(|controller| controller.uid == snapshot.uid);
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

fn decide(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let spec = &snapshot.set.spec;
    let update = snapshot.revisions.update.object();
    let current = snapshot.revisions.current.object();
    let rolling = spec.update_strategy.rolling_update.as_ref();
    let policy = rolling.map(|rolling| &rolling.pod_update_policy);
    let none = InPlaceUpdateStrategy::default();
    let strategy = rolling
        .and_then(|rolling| rolling.in_place_update_strategy.as_ref())
        .unwrap_or(&none);
    let options = Options {
        gates: snapshot.env.gates,
        ignore_claims: policy == Some(&PodUpdatePolicy::InPlaceOnly),
        grace_seconds: 0,
    };
    let status = snapshot
        .set
        .status
        .as_ref()
        .filter(|status| status.update_revision == update.name());
    let decision = predownload(&Rollout {
        owner: &snapshot.owner,
        namespace: snapshot.namespace(),
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
        replicas: snapshot.desired.replicas as i32,
        partition: snapshot.desired.partition as i32,
        max_unavailable: counts::unavailable_rounded_down(spec) as i32,
        updated_ready: status.map_or(0, |status| status.updated_ready_replicas),
        min_updated_ready: min_updated_ready(snapshot, strategy),
        parallelism: strategy.image_pre_download_parallelism.as_ref(),
        timeout_seconds: strategy.image_pre_download_timeout_seconds,
    });
    match decision {
        Predownload::Decided | Predownload::Wait => {}
        Predownload::Ignore { label } => plan.push(note(snapshot, label)),
        Predownload::Create { jobs, label } => {
            let mut step = step(Pace::InOrder);
            for job in jobs.into_iter().filter(|job| !exists(snapshot, job)) {
                step.push(create(snapshot, job));
            }
            plan.push(step);
            plan.push(note(snapshot, label));
        }
    }
}

/// Updated Pods that have to be ready first. The field has no percentages; the annotation of v1alpha1, which stays on the object, has.
fn min_updated_ready(snapshot: &Snapshot<'_>, strategy: &InPlaceUpdateStrategy) -> i32 {
    let annotations = snapshot.set.metadata.annotations.as_ref();
    let percentage = || {
        let text = annotations?.get(annotation::PRE_DOWNLOAD_MIN_UPDATED_READY)?;
        Some(Percent::parse(text).ok()?.ceil_of(snapshot.desired.replicas as i32))
    };
    let field = strategy.image_pre_download_min_updated_ready_pods;
    field.or_else(percentage).unwrap_or(0)
}

fn exists(snapshot: &Snapshot<'_>, job: &Job) -> bool {
    snapshot
        .observed
        .pull_jobs
        .iter()
        .any(|known| *known.metadata.name == *job.name)
}

fn create(snapshot: &Snapshot<'_>, job: Job) -> Chain {
    let Job { name, image, object } = job;
    let target = Target::new(ObjectKind::ImagePullJob, snapshot.namespace(), &name);
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
fn note(snapshot: &Snapshot<'_>, label: Value) -> Step {
    let meta = &snapshot.revisions.update.object().metadata;
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
