//! Nodes that do not answer.
//!
//! - A tag that the node's daemon has said nothing about ten minutes after it was asked for has failed.
//! - So has one that is not done ten minutes after its deadline: a daemon that lives says so itself.
//!
//! Either is told to those who asked and on the NodeImage.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_api::merge_patch;
use kruise_api::names::event;
use kruise_api::nodeimage::{CachedNodeImage, ImagePullPhase, ImageTagSpec, ImageTagStatus, NodeImageStatus};
use kruise_api::resource::{Preconditions, Subresource};
use serde_json::{Value, json};

use crate::plan::why;
use crate::plan::{About, Action, Env, Event, Plan, Target};
use crate::shared::image_name::reference;
use crate::shared::seconds::{truncate, whole_seconds};
use crate::shared::time_to_live::after;

/// How long an answer is waited for.
const PATIENCE_SECONDS: i64 = 600;

pub(super) fn plan(images: &CachedNodeImage, env: &Env, plan: &mut Plan) {
    let mut new = images.status.clone();
    let mut first: Option<Timestamp> = None;
    let mut found = false;
    for (name, image) in &images.spec.images {
        for tag in &image.tags {
            let Some((due, message)) = overdue(images, name, tag) else {
                continue;
            };
            if due > env.now {
                first = Some(first.map_or(due, |earlier| earlier.min(due)));
                continue;
            }
            found = true;
            give_up(&mut new, name, tag, message, env.now);
            record_event(images, name, tag, message, plan);
        }
    }
    if let Some(due) = first {
        plan.because(why::Images::DaemonSilent { until: due });
        plan.wake(whole_seconds(due.duration_since(env.now)));
    }
    if !found {
        return;
    }
    count(images, &mut new);
    if let Ok(Some(Value::Object(mut patch))) = merge_patch::changes(&images.status, &new) {
        // The answer of a node that never gave one has to be complete.
        let counts = [
            ("desired", new.desired),
            ("succeeded", new.succeeded),
            ("failed", new.failed),
            ("pulling", new.pulling),
            ("waiting", new.waiting),
        ];
        patch.extend(counts.map(|(field, count)| (field.to_owned(), json!(count))));
        let object = Target::of(images);
        let unchanged = Preconditions::unchanged(&images.metadata);
        let patch = json!({ "status": patch });
        plan.status = Some(Action::merge(object, Some(Subresource::Status), patch, unchanged));
    }
}

/// When the pull of a tag has failed for want of an answer, and why; nothing when it is done, or nobody set a time.
fn overdue(images: &CachedNodeImage, name: &str, tag: &ImageTagSpec) -> Option<(Timestamp, &'static str)> {
    let asked = tag.created_at.as_ref()?.0;
    let Some(answer) = images.answer(name, tag) else {
        return Some((after(asked, PATIENCE_SECONDS), "node has not responded for a long time"));
    };
    if answer.completion_time.is_some() || matches!(answer.phase, ImagePullPhase::Succeeded | ImagePullPhase::Failed) {
        return None;
    }
    let deadline = tag
        .pull_policy
        .as_ref()
        .and_then(|policy| policy.active_deadline_seconds)?;
    let due = after(asked, deadline.saturating_add(PATIENCE_SECONDS));
    Some((due, "pulling exceeds the activeDeadlineSeconds"))
}

fn give_up(status: &mut NodeImageStatus, name: &str, tag: &ImageTagSpec, message: &str, now: Timestamp) {
    let tags = &mut status.image_statuses.entry(name.to_owned()).or_default().tags;
    let old = tags
        .iter()
        .position(|known| known.tag == tag.tag)
        .map(|place| tags.remove(place));
    let began = old
        .filter(|old| old.version == tag.version)
        .and_then(|old| old.start_time);
    tags.push(ImageTagStatus {
        tag: tag.tag.clone(),
        phase: ImagePullPhase::Failed,
        start_time: began,
        completion_time: Some(Time(truncate(now))),
        version: tag.version,
        message: message.to_owned(),
        ..ImageTagStatus::default()
    });
    tags.sort_by(|one, other| one.tag.cmp(&other.tag));
}

/// Drops answers nobody asked for, and counts the others.
fn count(images: &CachedNodeImage, status: &mut NodeImageStatus) {
    let wanted = &images.spec.images;
    status.image_statuses.retain(|name, image| {
        let asked = wanted.get(name).map(|image| image.tags.as_slice()).unwrap_or_default();
        image.tags.retain(|known| asked.iter().any(|tag| tag.tag == known.tag));
        !image.tags.is_empty()
    });
    let phases = || {
        status
            .image_statuses
            .values()
            .flat_map(|image| &image.tags)
            .map(|tag| &tag.phase)
    };
    let number =
        |phase: &ImagePullPhase| i32::try_from(phases().filter(|known| *known == phase).count()).unwrap_or(i32::MAX);
    let desired: usize = wanted.values().map(|image| image.tags.len()).sum();
    let counted = [
        number(&ImagePullPhase::Succeeded),
        number(&ImagePullPhase::Failed),
        number(&ImagePullPhase::Pulling),
        number(&ImagePullPhase::Waiting),
    ];
    [status.succeeded, status.failed, status.pulling, status.waiting] = counted;
    status.desired = i32::try_from(desired).unwrap_or(i32::MAX);
}

fn record_event(images: &CachedNodeImage, name: &str, tag: &ImageTagSpec, message: &str, plan: &mut Plan) {
    let (image, node) = (reference(name, &tag.tag), &images.metadata.name);
    let text = format!("Failed to pull image {image} on node {node} for {message}");
    plan.events.push(Event::warning(event::PULL_IMAGE_FAILED, text.clone()));
    for owner in &tag.owner_references {
        let given = |field: &Option<String>| field.clone().unwrap_or_default();
        let about = About {
            api_version: given(&owner.api_version),
            kind: given(&owner.kind),
            namespace: given(&owner.namespace),
            name: given(&owner.name),
            uid: given(&owner.uid),
        };
        let event = Event::warning(event::PULL_IMAGE_FAILED, text.clone());
        plan.events.push(Event {
            about: Some(about),
            ..event
        });
    }
}
