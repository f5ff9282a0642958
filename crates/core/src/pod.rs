//! What happens to every Pod when it is created.
//!
//! The steps run in this order, each on what the one before left; the first that fails refuses the Pod and nothing is changed.
//!
//! | step | for | does |
//! |---|---|---|
//! | readiness gate | Pods of our workloads; with gate `KruisePodReadinessGate` every Pod | adds the readiness gate `KruisePodReady` |
//! | launch priority | Pods whose containers have an order | holds each container until those before it are ready |
//!
//! The order is part of the contract: sidecars take part in the launch order only because they are injected before it.
//! Steps change the Pod also in a dry run.
//!
//! This runs for every Pod of the cluster, most of which need nothing. Therefore a Pod is not read as a whole until a step
//! asks for that, see [`Draft`].

mod draft;
mod launch_priority;
mod readiness_gate;

pub use draft::Draft;

use crate::json_patch::Operation;
use kruise_api::gates::Gates;
use thiserror::Error;

/// Under which circumstances a Pod is created.
#[derive(Debug, Clone, Copy)]
pub struct Env<'a> {
    pub gates: Gates,
    /// The namespace of the request; the Pod itself may leave it out.
    pub namespace: &'a str,
    /// Nothing will come of it: what a step writes elsewhere must not be written.
    pub dry_run: bool,
    /// Five random characters with which a generated name ends, when a step has to fix it.
    pub name_suffix: &'a str,
}

/// Why a Pod cannot be judged.
#[derive(Debug, Error)]
pub enum PodError {
    /// Not a Pod: the request is bad.
    #[error("the object is not a Pod: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Not even an object.
    #[error("the object is not a Pod: it does not begin with a brace")]
    NotAnObject,
    /// A launch priority that is not a number.
    #[error("container {container:?} has the launch priority {value:?}, which is not an integer")]
    Priority {
        /// The container.
        container: String,
        /// What it says.
        value: String,
    },
}

impl PodError {
    /// The HTTP status with which the Pod is refused.
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) | Self::NotAnObject => 400,
            Self::Priority { .. } => 500,
        }
    }
}

type Step = fn(&mut Draft<'_>, &Env<'_>) -> Result<(), PodError>;

const STEPS: &[Step] = &[readiness_gate::add, launch_priority::add];

/// Runs all steps on a new Pod, given as JSON, and tells what to change.
pub fn mutate(pod: &str, env: &Env<'_>) -> Result<Vec<Operation>, PodError> {
    let mut draft = Draft::read(pod)?;
    for step in STEPS {
        step(&mut draft, env)?;
    }
    Ok(draft.finish())
}
