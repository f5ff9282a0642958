//! What happens to every Pod when it is created.
//!
//! The steps run in this order, each on what the one before left; the first that fails refuses the Pod and nothing is changed.
//!
//! | step | for | does |
//! |---|---|---|
//! | readiness gate | Pods of our workloads; with gate `KruisePodReadinessGate` every Pod | adds the readiness gate `KruisePodReady` |
//! | workload spread | Pods of a workload that is spread | chooses a subset, and puts in what it adds |
//! | sidecars | Pods that SidecarSets apply to | injects containers, volumes, secrets, annotations |
//! | launch priority | Pods whose containers have an order | holds each container until those before it are ready |
//! | related budget | Pods that a PodUnavailableBudget covers | says which one |
//! | persistent states | Pods of StatefulSets of which a PersistentPodState remembers the topology | brings them back there |
//! | liveness | Pods of our workloads that ask for it, with gate `EnhancedLivenessProbe` | sets liveness probes aside |
//! | probes | Pods that PodProbeMarkers choose, with gate `EnablePodProbeMarkerOnServerless` | has the Pod carry its probes |
//!
//! The order is part of the contract: sidecars take part in the launch order only because they are injected before it.
//! Steps change the Pod also in a dry run.
//!
//! This runs for every Pod of the cluster, most of which need nothing. Therefore a Pod is not read as a whole until a step
//! asks for that, see [`Draft`].
//!
//! A step of a kind is one file. What it has to know of the cluster it reads through a [`View`], to which each step adds a trait of its own. A view that does not
//! have something yet says what is missing ([`Missing`]); the step passes that on, and is run again on the Pod as it came once that has been read from the API
//! server. So steps stay pure, and no Pod is refused or missed because a cache was not ready. A step that has to note something elsewhere before a Pod may
//! pass asks for it in the same way: what is missing is then the note.

mod draft;
mod launch_priority;
mod liveness;
mod persistent_states;
mod probes;
mod readiness_gate;
mod related_budget;
mod sidecars;
mod view;
mod workload_spread;

pub use draft::Draft;
pub use persistent_states::PersistentPodStates;
pub use probes::ProbeMarkers;
pub use related_budget::Budgets;
pub use sidecars::SidecarSets;
pub use view::{Empty, Missing, View};
pub use workload_spread::{Above, Placement, WorkloadSpreads};

use crate::json_patch::Operation;
use crate::sidecarset::inject::InjectError;
use crate::workloadspread::ledger;
use jiff::Timestamp;
use kruise_api::gates::Gates;
use std::fmt;
use thiserror::Error;

/// Under which circumstances a Pod is created.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    pub gates: Gates,
    pub now: Timestamp,
    /// At random, and different for each request.
    pub chance: u64,
    /// What is known of the cluster.
    pub view: &'a dyn View,
    /// The namespace of the request; the Pod itself may leave it out.
    pub namespace: &'a str,
    /// Nothing will come of it: what a step writes elsewhere must not be written.
    pub dry_run: bool,
    /// Five random characters with which a generated name ends, when a step has to fix it.
    pub name_suffix: &'a str,
}

impl fmt::Debug for Env<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env")
            .field("namespace", &self.namespace)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}

/// Why a Pod cannot be judged.
#[derive(Debug, Error)]
pub enum PodError {
    /// Something has to be read first; the Pod is then judged again.
    #[error("{0} has not been read")]
    Missing(Missing),
    /// A WorkloadSpread has to be asked for a subset, which notes the Pod; the Pod is then judged again.
    #[error("WorkloadSpread {} has not been asked", .0.spread)]
    Unplaced(Box<ledger::Ask>),
    /// The Pod cannot be given a subset.
    #[error("the Pod cannot be spread: {0}")]
    Spread(String),
    /// What SidecarSets bring cannot be injected.
    #[error(transparent)]
    Sidecars(#[from] InjectError),
    /// What an administrator configured cannot be read.
    #[error("{0}")]
    Configuration(String),
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
            Self::Missing(_)
            | Self::Unplaced(_)
            | Self::Spread(_)
            | Self::Sidecars(_)
            | Self::Configuration(_)
            | Self::Priority { .. } => 500,
        }
    }
}

impl From<Missing> for PodError {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

type Step = fn(&mut Draft<'_>, &Env<'_>) -> Result<(), PodError>;

const STEPS: &[Step] = &[
    readiness_gate::add,
    workload_spread::add,
    sidecars::add,
    launch_priority::add,
    related_budget::add,
    persistent_states::add,
    liveness::set_aside,
    probes::announce,
];

/// Runs all steps on a new Pod, given as JSON, and tells what to change.
pub fn mutate(pod: &str, env: &Env<'_>) -> Result<Vec<Operation>, PodError> {
    let mut draft = Draft::read(pod)?;
    for step in STEPS {
        step(&mut draft, env)?;
    }
    Ok(draft.finish())
}
