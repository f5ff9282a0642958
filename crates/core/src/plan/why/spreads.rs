//! What keeps Pods of a WorkloadSpread out of their subsets.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::PodNames;

/// A WorkloadSpread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "reason")]
pub enum Spreads {
    /// Pods of a subset found no node, and it takes no new ones.
    SubsetUnschedulable {
        /// The subset.
        subset: String,
        /// Pods that wait.
        waiting: PodNames,
    },
    /// Pods are in no subset: theirs is no more, or none suits their node, or they have none.
    InNoSubset {
        /// The Pods.
        pods: PodNames,
    },
    /// A subset has more Pods than it may; those too many go first.
    TooMany {
        /// The subset.
        subset: String,
        /// Pods that there are.
        active: i32,
        /// Most that there may be.
        most: i32,
    },
    /// Which Pods are the newest is not known.
    NoRevision,
}

impl fmt::Display for Spreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SubsetUnschedulable { subset, waiting } => {
                write!(f, "Subset {subset} takes no new Pods for now: some found no node.")?;
                if !waiting.is_empty() {
                    write!(f, " They are made again in another subset: {waiting}.")?;
                }
                Ok(())
            }
            Self::InNoSubset { pods } => write!(f, "In no subset, and first to go: {pods}."),
            Self::TooMany { subset, active, most } => {
                write!(
                    f,
                    "Subset {subset} has {active} Pods and may have {most}; those too many are first to go."
                )
            }
            Self::NoRevision => write!(f, "The workload does not say which of its revisions is the newest."),
        }
    }
}
