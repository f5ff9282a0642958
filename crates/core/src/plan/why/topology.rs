//! What keeps a PersistentPodState from remembering.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::PodNames;

/// What is not remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "reason")]
pub enum Topology {
    /// The workload is not there, or on its way out.
    TargetMissing,
    /// Nobody knows about the workload.
    TargetUnknown {
        /// Why.
        message: String,
    },
    /// Pods are not ready, and keep what is remembered of them.
    NotReady {
        /// The Pods.
        pods: PodNames,
    },
    /// What is to be remembered of Pods could not be read.
    NodesUnknown {
        /// The Pods.
        pods: PodNames,
    },
    /// A workload asks for one of this name, and there is one about another workload.
    NameTaken,
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TargetMissing => write!(f, "The workload is not there or being deleted; nothing is remembered."),
            Self::TargetUnknown { message } => write!(f, "The workload is not known: {message}."),
            Self::NotReady { pods } => write!(f, "Not ready, so that nothing new is remembered of them: {pods}."),
            Self::NodesUnknown { pods } => write!(f, "Their nodes or annotations could not be read yet: {pods}."),
            Self::NameTaken => write!(
                f,
                "A workload of this name asks for a PersistentPodState, but this one is about another workload."
            ),
        }
    }
}
