//! What no longer belongs into a NodeImage goes.
//!
//! - Labels are those of the node, and no others.
//! - Owners that are ImagePullJobs are dropped when the job is gone, or is another one of the same name; other owners are not ours to judge. A tag whose
//!   owners are all gone goes; one that never had any stays.
//! - A tag goes when its time after the pull is over. Only an answer to what is asked for now counts: an older one must not end a new pull.
//! - Secrets without a mode are dropped when they are gone; shared copies stay as long as the image.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use kruise_api::imagepulljob::v1beta1::ImagePullJob;
use kruise_api::kind::Kind as _;
use kruise_api::merge_patch;
use kruise_api::meta::group_of;
use kruise_api::node::Node;
use kruise_api::nodeimage::v1beta1::{ImageSpec, SecretMode};
use kruise_api::nodeimage::{CachedNodeImage, ImageTagSpec};
use kruise_api::resource::Preconditions;
use serde_json::{Map, Value};

use super::{Observed, labels, single};
use crate::plan::{Action, Env, Plan, Target};
use crate::shared::seconds::whole_seconds;
use crate::shared::time_to_live::after;

pub(super) fn plan(observed: &Observed, images: &CachedNodeImage, node: Option<&Node>, env: &Env, plan: &mut Plan) {
    let kept: BTreeMap<String, ImageSpec> = images
        .spec
        .images
        .iter()
        .filter_map(|(name, image)| Some((name.clone(), kept_image(observed, images, name, image, env, plan)?)))
        .collect();
    let mut patch = Map::new();
    if let Some(node) = node
        && let Some(labels) = merge_patch::diff(&labels(&images.metadata), &labels(&node.metadata))
    {
        patch.insert(
            "metadata".to_owned(),
            Value::Object(Map::from_iter([("labels".to_owned(), labels)])),
        );
    }
    if let Ok(Some(changes)) = merge_patch::changes(&images.spec.images, &kept) {
        patch.insert(
            "spec".to_owned(),
            Value::Object(Map::from_iter([("images".to_owned(), changes)])),
        );
    }
    if !patch.is_empty() {
        let object = Target::of(images);
        let unchanged = Preconditions::unchanged(&images.metadata);
        plan.push(single(Action::merge(object, None, Value::Object(patch), unchanged)));
    }
}

/// What stays of an image; nothing when no tag does.
fn kept_image(
    observed: &Observed,
    images: &CachedNodeImage,
    name: &str,
    image: &ImageSpec,
    env: &Env,
    plan: &mut Plan,
) -> Option<ImageSpec> {
    let tags: Vec<ImageTagSpec> = image
        .tags
        .iter()
        .filter_map(|tag| kept_tag(observed, images, name, tag, env, plan))
        .collect();
    if tags.is_empty() {
        return None;
    }
    let mut kept = ImageSpec { tags, ..image.clone() };
    kept.pull_secrets.retain(|secret| {
        let is_shared = secret.mode == SecretMode::Batch;
        is_shared
            || !observed
                .gone_secrets
                .contains(&(secret.namespace.clone(), secret.name.clone()))
    });
    Some(kept)
}

fn kept_tag(
    observed: &Observed,
    images: &CachedNodeImage,
    name: &str,
    tag: &ImageTagSpec,
    env: &Env,
    plan: &mut Plan,
) -> Option<ImageTagSpec> {
    tag.created_at.as_ref()?;
    let mut kept = tag.clone();
    kept.owner_references.retain(|owner| !is_gone(observed, owner));
    if kept.owner_references.is_empty() && !tag.owner_references.is_empty() {
        return None;
    }
    let ttl = tag
        .pull_policy
        .as_ref()
        .and_then(|policy| policy.ttl_seconds_after_finished);
    let ended = images
        .answer(name, tag)
        .and_then(|answer| answer.completion_time.as_ref());
    if let (Some(ttl), Some(ended)) = (ttl, ended) {
        let end = after(ended.0, i64::from(ttl));
        if end <= env.now {
            return None;
        }
        plan.wake(whole_seconds(end.duration_since(env.now)));
    }
    Some(kept)
}

/// Whether an owner is a job, as far as its reference says.
pub(super) fn job_of(owner: &ObjectReference) -> Option<(String, String)> {
    let group = group_of(owner.api_version.as_deref()?);
    let is_job = group == ImagePullJob::GROUP && owner.kind.as_deref() == Some(ImagePullJob::KIND);
    is_job.then(|| {
        (
            owner.namespace.clone().unwrap_or_default(),
            owner.name.clone().unwrap_or_default(),
        )
    })
}

fn is_gone(observed: &Observed, owner: &ObjectReference) -> bool {
    let Some(job) = job_of(owner) else { return false };
    // A job nobody looked up is not judged.
    observed.jobs.get(&job).is_some_and(|uid| *uid != owner.uid)
}

/// The jobs that have to be looked up for [`Observed::jobs`].
pub(super) fn jobs(images: &CachedNodeImage) -> impl Iterator<Item = (String, String)> + '_ {
    let tags = images.spec.images.values().flat_map(|image| &image.tags);
    tags.flat_map(|tag| &tag.owner_references).filter_map(job_of)
}
