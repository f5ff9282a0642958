//! Asking nodes for the image, by an entry in their NodeImages.
//!
//! - A tag that another job asked for gets this job as one more owner and a higher version, which makes the node pull again. How long and how often
//!   it tries stays as the first job said.
//! - A tag that the node has had before goes on from the version it answered last.
//! - A tag stays for a while after its pull: as long as the job is kept, and some minutes more, not the same on all nodes. For a job that never ends
//!   it is about a day; then the node is asked again, so that an image that was removed comes back.
//! - Secrets are shared by all tags of an image; so is what the container runtime is told about the sandbox, where the last job counts.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_api::imagepulljob::v1beta1::ImagePullJob;
use kruise_api::kind::Kind as _;
use kruise_api::merge_patch;
use kruise_api::nodeimage::v1beta1::{ImageSpec, SecretReference};
use kruise_api::nodeimage::{CachedNodeImage, ImageTagPullPolicy, ImageTagSpec};
use kruise_api::resource::Preconditions;
use kruise_api::shared::completion::CompletionPolicyType;
use serde_json::json;

use super::Observed;
use super::counts::{Counts, is_listed, is_owner};
use crate::plan::{Action, Chain, IdSource, OnFailure, Pace, Phase, Plan, Step, Target};
use crate::shared::image_name::Image;
use crate::shared::image_pull::{BACKOFF_LIMIT, TIMEOUT_SECONDS};
use crate::shared::seconds::truncate;

/// Spread of the time that tags stay, so that nodes are not all written at once.
const SPREAD_SECONDS: u64 = 300;
/// For jobs that never end.
const DAY_SECONDS: i64 = 86_400;
const DAY_SPREAD_SECONDS: u64 = 1200;
const NEVER_DEADLINE_SECONDS: i64 = 1800;

/// Plans the entries of as many nodes as may pull now.
#[allow(clippy::too_many_arguments, reason = "what an entry is made of")]
pub(super) fn step(
    observed: &Observed,
    image: &Image,
    counts: &Counts,
    wanted: &[SecretReference],
    parallelism: i32,
    now: Timestamp,
    ids: &mut IdSource,
    plan: &mut Plan,
) {
    let mut step = Step::new(Phase::Distribute, Pace::Bounded, OnFailure::Skip);
    let slots = usize::try_from(parallelism.saturating_sub(counts.active)).unwrap_or_default();
    for node in counts.waiting.iter().take(slots) {
        let entry = asked_for(&observed.job, node, image, wanted, now, observed.tag_ttl_seconds, ids);
        step.push(write(node, image, &entry));
    }
    for node in &counts.without_secret {
        let mut entry = node.spec.images.get(&image.name).cloned().unwrap_or_default();
        add_secrets(&mut entry, wanted);
        step.push(write(node, image, &entry));
    }
    plan.push(step);
}

/// The entry of the image with what the job asks for.
fn asked_for(
    job: &ImagePullJob,
    node: &CachedNodeImage,
    image: &Image,
    wanted: &[SecretReference],
    now: Timestamp,
    ttl: i64,
    ids: &mut IdSource,
) -> ImageSpec {
    let now = Time(truncate(now));
    let mut entry = node.spec.images.get(&image.name).cloned().unwrap_or_default();
    entry.sandbox_config.clone_from(&job.spec.sandbox_config);
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    match entry.tags.iter_mut().find(|known| known.tag == image.tag) {
        Some(tag) if is_owner(tag, uid) => {}
        Some(tag) => {
            tag.version += 1;
            tag.owner_references.push(reference(job));
            tag.created_at = Some(now);
            tag.image_pull_policy = job.spec.image_pull_policy.clone();
        }
        None => {
            let answers = node
                .status
                .image_statuses
                .get(&image.name)
                .map(|image| image.tags.as_slice());
            let answered = answers.unwrap_or_default().iter().find(|known| known.tag == image.tag);
            entry.tags.push(ImageTagSpec {
                tag: image.tag.clone(),
                created_at: Some(now),
                version: answered.map_or(0, |answer| answer.version + 1),
                pull_policy: Some(pull_policy(job, ttl, ids)),
                owner_references: vec![reference(job)],
                image_pull_policy: job.spec.image_pull_policy.clone(),
            });
        }
    }
    add_secrets(&mut entry, wanted);
    entry.tags.sort_by(|one, other| one.tag.cmp(&other.tag));
    entry
}

fn add_secrets(entry: &mut ImageSpec, wanted: &[SecretReference]) {
    for secret in wanted {
        if !is_listed(&entry.pull_secrets, secret) {
            entry.pull_secrets.push(secret.clone());
        }
    }
}

fn reference(job: &ImagePullJob) -> ObjectReference {
    ObjectReference {
        api_version: Some(ImagePullJob::API_VERSION.to_owned()),
        kind: Some(ImagePullJob::KIND.to_owned()),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

fn pull_policy(job: &ImagePullJob, ttl: i64, ids: &mut IdSource) -> ImageTagPullPolicy {
    let given = job.spec.pull_policy.clone().unwrap_or_default();
    let timeout = given.timeout_seconds.unwrap_or(TIMEOUT_SECONDS);
    let backoff = given.backoff_limit.unwrap_or(BACKOFF_LIMIT);
    let completion = &job.spec.completion_policy;
    let spread = |ids: &mut IdSource, bound: u64| i64::try_from(ids.below(bound)).unwrap_or_default();
    let (ttl, deadline) = if completion.type_ == CompletionPolicyType::Never {
        let half = i64::try_from(DAY_SPREAD_SECONDS / 2).unwrap_or_default();
        let day = DAY_SECONDS - half + spread(ids, DAY_SPREAD_SECONDS);
        (day, Some(NEVER_DEADLINE_SECONDS.max(i64::from(timeout))))
    } else {
        let kept = completion.ttl_seconds_after_finished.map(i64::from);
        let kept = kept.or(completion.active_deadline_seconds);
        let kept = kept.unwrap_or_else(|| i64::from(timeout).saturating_mul(i64::from(backoff)));
        let ttl = kept.saturating_add(ttl).saturating_add(spread(ids, SPREAD_SECONDS));
        (ttl, completion.active_deadline_seconds)
    };
    ImageTagPullPolicy {
        timeout_seconds: Some(timeout),
        backoff_limit: Some(backoff),
        ttl_seconds_after_finished: Some(i32::try_from(ttl.max(0)).unwrap_or(i32::MAX)),
        active_deadline_seconds: deadline,
    }
}

fn write(node: &CachedNodeImage, image: &Image, entry: &ImageSpec) -> Chain {
    let old = node.spec.images.get(&image.name);
    let patch = match old {
        Some(old) => merge_patch::changes(old, entry).ok().flatten(),
        None => serde_json::to_value(entry).ok(),
    };
    let Some(patch) = patch else {
        return Chain::default();
    };
    let object = Target::of(node);
    let patch = json!({"spec": {"images": {(image.name.as_str()): patch}}});
    let action = Action::merge(object, None, patch, Preconditions::unchanged(&node.metadata));
    Chain::of(action.into())
}
