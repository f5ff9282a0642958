//! What came of a plan. The next round's planner reads it: a refusal is a fact about the cluster like any other.

use serde::Serialize;

use super::{Phase, Target};

/// What came of the last plan; empty when all went well, or when there was none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// What failed, in the order in which it did.
    pub failures: Vec<Failure>,
    /// Pods whose PodUnavailableBudget refused an update.
    pub refused: Vec<String>,
}

impl Outcome {
    /// The first failure in this phase that another look at the cluster does not mend.
    pub fn first(&self, phase: Phase) -> Option<&Failure> {
        self.failures
            .iter()
            .find(|failure| failure.phase == phase && !failure.class.is_passing())
    }
}

/// A write that did not happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// What the write was for.
    pub phase: Phase,
    /// The object.
    pub object: Target,
    /// What kind of failure.
    pub class: FailureClass,
    /// The server's message.
    pub message: String,
}

/// Kinds of failures, as the writer tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureClass {
    /// No answer, or the server is busy.
    Transient,
    /// The object changed meanwhile.
    Conflict,
    /// There is an object of that name already.
    Exists,
    /// No right, quota, or an admission webhook said no.
    Denied,
    /// The write itself is wrong.
    Permanent,
    /// The object is no more.
    Gone,
}

impl FailureClass {
    /// True when the picture of the cluster was old: the next one gives another plan, and nobody has to be told.
    pub fn is_passing(self) -> bool {
        matches!(self, Self::Conflict | Self::Exists | Self::Gone)
    }
}
