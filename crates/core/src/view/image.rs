//! Images that nodes pull ahead of time, by node and by job.

use super::{State, StateView, Tone};
use crate::shared::image_name::reference;
use kruise_api::{
    imagepulljob::v1beta1::ImagePullJob,
    nodeimage::{CachedNodeImage, ImagePullPhase, ImageTagStatus},
};
use serde::Serialize;

/// A node with the images that it is to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// How many images it is to have.
    pub desired: i32,
    /// How many it has.
    pub succeeded: i32,
    /// How many it pulls.
    pub pulling: i32,
    /// How many it could not pull.
    pub failed: i32,
    /// The images one by one.
    pub images: Vec<PullView>,
}

/// An image on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PullView {
    /// The image with its tag or digest.
    pub image: String,
    /// How far the pull is, in one word.
    pub phase: String,
    /// Colour and shape of that.
    pub tone: Tone,
    /// Percentage that has been pulled.
    pub progress: i32,
    /// Why it failed; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl From<&CachedNodeImage> for NodeView {
    fn from(node: &CachedNodeImage) -> Self {
        let mut images = Vec::new();
        for (name, image) in &node.spec.images {
            for tag in &image.tags {
                images.push(pull(reference(name, &tag.tag), node.answer(name, tag)));
            }
        }
        Self {
            name: node.metadata.name.to_string(),
            desired: node.status.desired,
            succeeded: node.status.succeeded,
            pulling: node.status.pulling,
            failed: node.status.failed,
            images,
        }
    }
}

fn pull(image: String, answer: Option<&ImageTagStatus>) -> PullView {
    let (phase, tone) = match answer.map(|answer| &answer.phase) {
        None | Some(ImagePullPhase::Unset | ImagePullPhase::Waiting) => ("Waiting", Tone::Quiet),
        Some(ImagePullPhase::Pulling) => ("Pulling", Tone::Busy),
        Some(ImagePullPhase::Succeeded) => ("Pulled", Tone::Good),
        Some(ImagePullPhase::Failed) => ("Failed", Tone::Bad),
        Some(ImagePullPhase::Other(_)) => ("Unknown", Tone::Quiet),
    };
    PullView {
        image,
        phase: phase.to_owned(),
        tone,
        progress: answer.map_or(0, |answer| answer.progress),
        message: answer.map(|answer| answer.message.clone()).unwrap_or_default(),
    }
}

/// An ImagePullJob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PullJobView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The image.
    pub image: String,
    /// Where it stands.
    pub state: StateView,
    /// Nodes that are chosen.
    pub desired: i32,
    /// Nodes that are pulling.
    pub active: i32,
    /// Nodes that have the image.
    pub succeeded: i32,
    /// Nodes that gave up.
    pub failed: i32,
}

impl From<&ImagePullJob> for PullJobView {
    fn from(job: &ImagePullJob) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let state = if job.metadata.deletion_timestamp.is_some() {
            State::Deleting
        } else if job.status.is_none() {
            State::Unseen
        } else if status.completion_time.is_none() {
            State::Running
        } else if status.failed > 0 {
            State::Failed
        } else {
            State::Complete
        };
        Self {
            namespace: job.metadata.namespace.clone().unwrap_or_default(),
            name: job.metadata.name.clone().unwrap_or_default(),
            image: job.spec.image.clone(),
            state: StateView::new(state, status.message),
            desired: status.desired,
            active: status.active,
            succeeded: status.succeeded,
            failed: status.failed,
        }
    }
}
