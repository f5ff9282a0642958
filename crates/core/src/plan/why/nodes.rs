//! What keeps the Pods of a workload with one Pod per node away from nodes.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::PodNames;

/// Nodes without a Pod, or without a new one. They are listed as Pods are: the first few, and how many more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "reason")]
pub enum Nodes {
    /// Nodes are none for the Pods.
    NodesNotEligible {
        /// What forbids it.
        because: String,
        /// The nodes.
        nodes: PodNames,
    },
    /// Pods that are on nodes stay there, and no new one would come.
    NodesOnlyKeepPods {
        /// What forbids it.
        because: String,
        /// The nodes.
        nodes: PodNames,
    },
    /// The scheduler does not place Pods on their nodes.
    NotPlaced {
        /// What it says.
        message: String,
        /// The nodes.
        nodes: PodNames,
    },
    /// Nodes wait until their old Pod is gone.
    PodsTerminating {
        /// The nodes.
        nodes: PodNames,
    },
    /// Failed Pods are left where they are for a while.
    FailedPodsBackOff {
        /// The nodes.
        nodes: PodNames,
        /// When the first of them goes.
        until: Timestamp,
    },
    /// The partition lets no more Pods be created.
    CreationPartitioned {
        /// The nodes.
        nodes: PodNames,
    },
    /// So many Pods are created or deleted at a time, and others wait for the next time.
    BurstLimited {
        /// So many.
        limit: i32,
        /// The nodes.
        nodes: PodNames,
    },
    /// Nodes have an old Pod and are not chosen by the selector of the update.
    NodesNotSelected {
        /// The nodes.
        nodes: PodNames,
    },
    /// Pods to be updated wait: `maxSurge` allows no more nodes with two Pods.
    SurgeBudget {
        /// Nodes that may have two Pods.
        allowed: i32,
        /// Nodes that have.
        surging: i32,
        /// Nodes that wait.
        waiting: i32,
    },
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodesNotEligible { because, nodes } => write!(f, "Nodes without a Pod, because {because}: {nodes}."),
            Self::NodesOnlyKeepPods { because, nodes } => {
                write!(f, "Nodes that get no new Pod, because {because}: {nodes}.")
            }
            Self::NotPlaced { message, nodes } => {
                write!(f, "Nodes where the scheduler places no Pod ({message}): {nodes}.")
            }
            Self::PodsTerminating { nodes } => write!(f, "Nodes that wait until their old Pod is gone: {nodes}."),
            Self::FailedPodsBackOff { nodes, until } => {
                write!(
                    f,
                    "Nodes with a failed Pod that is replaced later, the first at {until}: {nodes}."
                )
            }
            Self::CreationPartitioned { nodes } => {
                write!(f, "Nodes that get no Pod before the partition is lowered: {nodes}.")
            }
            Self::BurstLimited { limit, nodes } => {
                write!(
                    f,
                    "Nodes that wait for their turn, as burstReplicas allows {limit} at a time: {nodes}."
                )
            }
            Self::NodesNotSelected { nodes } => {
                write!(f, "Nodes that the selector of the update does not choose: {nodes}.")
            }
            Self::SurgeBudget {
                allowed,
                surging,
                waiting,
            } => write!(
                f,
                "Nodes still to be updated: {waiting}; with two Pods now: {surging}, allowed: {allowed}."
            ),
        }
    }
}
