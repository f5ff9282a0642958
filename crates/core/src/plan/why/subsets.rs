//! What holds back the subsets of a UnitedDeployment.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Count, PodNames};

/// A workload whose Pods are divided among subsets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "reason")]
pub enum Subsets {
    /// There are no subsets.
    NoSubsets,
    /// The Pods cannot be divided as the subsets ask.
    Indivisible {
        /// Why not.
        message: String,
    },
    /// Workloads of its own do not say their subset.
    SubsetUnknown {
        /// The workloads.
        workloads: PodNames,
    },
    /// Workloads are on their way out, and nothing takes their place before.
    WorkloadsDeleting {
        /// The workloads.
        workloads: PodNames,
    },
    /// A subset takes no Pods.
    NoRoom {
        /// The subset.
        subset: String,
        /// When it is tried again; not by time when not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// Pods that wait for a node.
        pods: PodNames,
    },
    /// Pods of a subset are reserved, and made up for elsewhere.
    Reserved {
        /// The subset.
        subset: String,
        /// The Pods.
        pods: PodNames,
    },
    /// Pods find no place: the subsets that have room are full.
    Unplaced {
        /// How many.
        pods: i32,
    },
    /// The partition of a subset keeps Pods at the old revision.
    SubsetPartition {
        /// The subset.
        subset: String,
        /// Pods it keeps.
        keeps: i32,
    },
    /// The workload of a subset has not come to what is asked of it.
    SubsetUnderWay {
        /// The subset.
        subset: String,
        /// Its workload.
        workload: String,
        /// Pods that it should have.
        replicas: i32,
        /// Pods that are ready.
        ready: i32,
        /// Pods at the wanted revision.
        updated: i32,
    },
}

impl fmt::Display for Subsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSubsets => write!(f, "spec.topology.subsets is empty, so there is nowhere to run Pods."),
            Self::Indivisible { message } => write!(f, "The Pods cannot be divided: {message}."),
            Self::SubsetUnknown { workloads } => write!(
                f,
                "These workloads do not say their subset, give them their label back or delete them: {workloads}."
            ),
            Self::WorkloadsDeleting { workloads } => {
                write!(f, "New workloads come once these are gone: {workloads}.")
            }
            Self::NoRoom { subset, until, pods } => {
                write!(f, "Subset {subset} takes no Pods")?;
                if let Some(until) = until {
                    write!(f, ", it is tried again at {until}")?;
                }
                if pods.is_empty() {
                    write!(f, ".")
                } else {
                    write!(f, "; without a node for too long: {pods}.")
                }
            }
            Self::Reserved { subset, pods } => {
                write!(f, "Reserved in subset {subset}, and made up for elsewhere: {pods}.")
            }
            Self::Unplaced { pods } => write!(f, "Not placed, as no subset has room for them: {}.", Count(*pods)),
            Self::SubsetPartition { subset, keeps } => {
                let keeps = Count(*keeps);
                write!(f, "The partition of subset {subset} keeps {keeps} at the old revision.")
            }
            Self::SubsetUnderWay {
                subset,
                workload,
                replicas,
                ready,
                updated,
            } => write!(
                f,
                "Subset {subset} ({workload}): {updated} of {} updated, {ready} ready.",
                Count(*replicas)
            ),
        }
    }
}
