//! What a workload waits for whose Pods have ordinals.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::PodNames;

/// Pods that come one after the other, and names that are not free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "reason")]
pub enum Ordinals {
    /// Pods come and go one after the other, and one of them holds up the others.
    InOrder {
        /// The Pod that is waited for.
        pod: String,
        /// What it is at.
        state: OrdinalState,
        /// Pods that are not created or deleted before.
        waiting: PodNames,
    },
    /// Pods cannot be created: somebody else has Pods of these names.
    NamesOfOthers {
        /// The names.
        pods: PodNames,
    },
    /// Pods cannot be created: the revision at which they begin has been replaced by something else.
    RevisionUnreadable {
        /// The revision.
        revision: String,
        /// The Pods.
        pods: PodNames,
    },
    /// Pods are on their way out; until they are gone nothing can take their names.
    Terminating {
        /// The Pods.
        pods: PodNames,
    },
    /// Pods are on their way out on a node that cannot let them go.
    NodeLost {
        /// The node.
        node: String,
        /// The Pods.
        pods: PodNames,
    },
}

/// What a Pod is at that others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OrdinalState {
    /// It is not there yet.
    Missing,
    /// It is on its way out.
    Terminating,
    /// It ran to an end.
    Ended,
    /// It is not ready, or not for long enough.
    NotAvailable,
}

impl fmt::Display for Ordinals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InOrder { pod, state, waiting } => {
                let state = match state {
                    OrdinalState::Missing => "is not there yet",
                    OrdinalState::Terminating => "is terminating",
                    OrdinalState::Ended => "has ended and is replaced",
                    OrdinalState::NotAvailable => "is not available",
                };
                write!(f, "One after the other (OrderedReady): {pod} {state}")?;
                if waiting.is_empty() {
                    write!(f, ", and updates wait for it.")
                } else {
                    write!(f, ", and these wait for it: {waiting}.")
                }
            }
            Self::NamesOfOthers { pods } => {
                write!(
                    f,
                    "Not created, because Pods of these names belong to somebody else: {pods}."
                )
            }
            Self::RevisionUnreadable { revision, pods } => {
                write!(
                    f,
                    "Not created, because ControllerRevision {revision}, at which they begin, has no Pod template; deleted, it is replaced by that of the update: {pods}."
                )
            }
            Self::Terminating { pods } => write!(f, "Terminating, and waited for: {pods}."),
            Self::NodeLost { node, pods } => {
                write!(
                    f,
                    "Terminating on node {node}, which is gone or does not answer; not forced, because they may still run there: {pods}."
                )
            }
        }
    }
}
