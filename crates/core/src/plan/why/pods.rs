//! What a workload waits for of its Pods.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::PodNames;

/// Pods that somebody else has to do something for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "reason")]
pub enum Pods {
    /// Pods wait for somebody to act on a lifecycle hook.
    HookWaiting {
        /// The hook.
        hook: Hook,
        /// The Pods.
        pods: PodNames,
    },
    /// New Pods wait for a node.
    NotScheduled {
        /// The Pods.
        pods: PodNames,
    },
    /// Pods are not ready, or not for long enough.
    NotAvailable {
        /// The Pods.
        pods: PodNames,
    },
    /// A Pod is not changed before its grace period ends.
    InGrace {
        /// The Pods.
        pods: PodNames,
        /// When the first grace period ends.
        until: Timestamp,
    },
    /// Containers have not been restarted with their new image, environment or resources.
    WaitingForContainers {
        /// The Pods.
        pods: PodNames,
    },
    /// What a Pod carries about its update cannot be read.
    Unreadable {
        /// The Pods.
        pods: PodNames,
        /// What is wrong.
        message: String,
    },
    /// Pods cannot be read at all. As long as it is not known what they are, none is created or deleted.
    PodsUnreadable {
        /// The Pods.
        pods: PodNames,
    },
    /// Pods should have containers of a SidecarSet and do not, because nobody answered or the set did not apply when they were made.
    WithoutSidecars {
        /// The Pods.
        pods: PodNames,
    },
    /// Of containers of a SidecarSet Pods have those that another set brought under the same name. Only that one updates them.
    SidecarsOfOthers {
        /// The Pods.
        pods: PodNames,
    },
    /// New Pods are refused: the revision that injection names is gone.
    RevisionGone {
        /// What it is named by.
        revision: String,
    },
}

impl fmt::Display for Pods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HookWaiting { hook, pods } => {
                let (name, what) = hook.explained();
                write!(
                    f,
                    "Waiting for the {name} hook, whose labels or finalizers have {what}: {pods}."
                )
            }
            Self::NotScheduled { pods } => write!(f, "Without a node: {pods}."),
            Self::NotAvailable { pods } => write!(f, "Not available: {pods}."),
            Self::InGrace { pods, until } => write!(f, "In the grace period, the first until {until}: {pods}."),
            Self::WaitingForContainers { pods } => {
                write!(f, "Containers do not run yet as the update wants them: {pods}.")
            }
            Self::Unreadable { pods, message } => write!(f, "Not worked on, because of {message}: {pods}."),
            Self::PodsUnreadable { pods } => {
                write!(f, "No Pod is created or deleted while these cannot be read: {pods}.")
            }
            Self::WithoutSidecars { pods } => {
                write!(
                    f,
                    "Without the containers of the set, as nobody answered or it did not apply when they were made: {pods}."
                )
            }
            Self::SidecarsOfOthers { pods } => {
                write!(
                    f,
                    "With containers of another SidecarSet that had these names first, and that alone updates them: {pods}."
                )
            }
            Self::RevisionGone { revision } => {
                write!(
                    f,
                    "New Pods are refused: there is no {revision}, which injectionStrategy names."
                )
            }
        }
    }
}

/// A moment at which a Pod waits for somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Hook {
    /// Before the Pod is deleted: somebody has to remove its labels or finalizers.
    PreDelete,
    /// Before it is updated in place: the same.
    PreUpdate,
    /// After it was updated in place: somebody has to put them back.
    PostUpdate,
    /// Before a new Pod counts as available: somebody has to put them on.
    PreNormal,
}

impl Hook {
    fn explained(self) -> (&'static str, &'static str) {
        match self {
            Self::PreDelete => ("preDelete", "to be removed before the deletion"),
            Self::PreUpdate => ("inPlaceUpdate", "to be removed before the update"),
            Self::PostUpdate => ("inPlaceUpdate", "to be put back after the update"),
            Self::PreNormal => ("preNormal", "to be put on"),
        }
    }
}
