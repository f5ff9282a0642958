//! What the live page shows of objects: named fields, and nothing else.
//!
//! - Whoever may list objects of a kind sees them here. What nobody sees are values of environment variables, commands, arguments, annotations and all that a Pod template
//!   has beyond the fields that are named here: people put passwords there.
//! - A view is made from one object as the cache has it, and from nothing else: no clock, no other object. Ages are for the reader's clock.
//! - A state is one word of a few, with a tone for its colour and shape, and a note in a sentence. Sentences are those of [`crate::plan::Why`] where there is one.

mod budget;
mod history;
mod image;
mod job;
mod pod;
mod workload;

pub use budget::BudgetView;
pub use history::{Change, RevisionView, history};
pub use image::{NodeView, PullJobView};
pub use pod::{ContainerView, PodView, sidecar_pod};
pub use workload::{Details, WorkloadView};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::raw::PodTemplate;
use serde::{Deserialize, Serialize};

/// How urgent a state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Tone {
    /// All is as it should be.
    Good,
    /// On its way there.
    Busy,
    /// It stays as it is until somebody does something.
    Held,
    /// Something is wrong.
    Bad,
    /// It is going away, or of no interest.
    Quiet,
}

/// Where an object stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All Pods are there, updated, ready and available.
    Ready,
    /// Pods are brought to the update revision.
    Updating,
    /// There are fewer or more Pods than wanted.
    Scaling,
    /// The last change of the spec was not looked at yet.
    Unseen,
    /// Some Pods are not available.
    NotReady,
    /// Somebody paused it.
    Paused,
    /// Its strategy keeps Pods at the old revision.
    Held,
    /// It is being deleted.
    Deleting,
    /// It runs.
    Running,
    /// It waits for its time.
    Scheduled,
    /// It has ended well.
    Complete,
    /// It has ended badly.
    Failed,
}

impl State {
    /// Returns the word for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Updating => "Updating",
            Self::Scaling => "Scaling",
            Self::Unseen => "Not seen yet",
            Self::NotReady => "Not ready",
            Self::Paused => "Paused",
            Self::Held => "Held",
            Self::Deleting => "Deleting",
            Self::Running => "Running",
            Self::Scheduled => "Scheduled",
            Self::Complete => "Complete",
            Self::Failed => "Failed",
        }
    }

    /// Returns how urgent it is.
    pub fn tone(self) -> Tone {
        match self {
            Self::Ready | Self::Complete => Tone::Good,
            Self::Updating | Self::Scaling | Self::Unseen | Self::Running => Tone::Busy,
            Self::Paused | Self::Held => Tone::Held,
            Self::NotReady | Self::Failed => Tone::Bad,
            Self::Deleting | Self::Scheduled => Tone::Quiet,
        }
    }
}

/// A state as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StateView {
    /// The word.
    pub label: String,
    /// Its colour and shape.
    pub tone: Tone,
    /// What there is to say about it; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl StateView {
    fn new(state: State, note: impl Into<String>) -> Self {
        Self {
            label: state.label().to_owned(),
            tone: state.tone(),
            note: note.into(),
        }
    }
}

/// A condition of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConditionView {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// Details for people.
    pub message: String,
}

/// Conditions come in several types with the same fields.
macro_rules! conditions {
    ($conditions:expr) => {
        $conditions
            .iter()
            .map(|condition| $crate::view::ConditionView {
                type_: condition.type_.clone(),
                status: condition.status.to_string(),
                reason: condition.reason.clone(),
                message: condition.message.clone(),
            })
            .collect::<Vec<_>>()
    };
}
use conditions;

/// A container and its image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageView {
    /// Name of the container.
    pub container: String,
    /// Its image.
    pub image: String,
}

/// Seconds since 1970 at which an object was made.
fn created(meta: &ObjectMeta) -> Option<i64> {
    meta.creation_timestamp.as_ref().map(|time| time.0.as_second())
}

/// The images of a template. Nothing else of it is read.
fn images(template: &PodTemplate) -> Vec<ImageView> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Template {
        spec: Spec,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Spec {
        containers: Vec<Container>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Container {
        name: String,
        image: String,
    }
    let read: Template = serde_json::from_str(template.json()).unwrap_or_default();
    let view = |container: Container| ImageView {
        container: container.name,
        image: container.image,
    };
    read.spec.containers.into_iter().map(view).collect()
}

#[cfg(test)]
mod tests;
