//! What holds back probes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::PodNames;

/// Probes that are not made, or whose outcome is not known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "reason")]
pub enum Probes {
    /// Pods whose init containers have not finished, or that have no node.
    NotInitialized {
        /// The Pods.
        pods: PodNames,
    },
    /// The nodes of Pods are not known.
    NodeUnknown {
        /// The Pods.
        pods: PodNames,
    },
    /// The nodes of Pods have no NodePodProbe yet.
    NoNodePodProbe {
        /// The nodes.
        nodes: PodNames,
    },
    /// Pods on virtual nodes, where no daemon probes.
    VirtualNode {
        /// The Pods.
        pods: PodNames,
    },
    /// Pods that have no container of the name that a probe says.
    NoSuchContainer {
        /// The probe.
        probe: String,
        /// The container.
        container: String,
        /// The Pods.
        pods: PodNames,
    },
    /// Pods whose container has no port of the name that a probe says.
    NoSuchPort {
        /// The probe.
        probe: String,
        /// The Pods.
        pods: PodNames,
    },
    /// The daemon of the node has not said anything about probes of these Pods.
    NoResult {
        /// The Pods.
        pods: PodNames,
    },
}

impl fmt::Display for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInitialized { pods } => {
                write!(f, "Not probed before they have a node and are initialized: {pods}.")
            }
            Self::NodeUnknown { pods } => write!(f, "Not probed, because their nodes do not exist: {pods}."),
            Self::NoNodePodProbe { nodes } => {
                write!(
                    f,
                    "Nodes without a NodePodProbe, which they get when they are ready: {nodes}."
                )
            }
            Self::VirtualNode { pods } => {
                write!(f, "On virtual nodes, where the daemon does not probe: {pods}.")
            }
            Self::NoSuchContainer { probe, container, pods } => {
                write!(
                    f,
                    "Probe {probe} is for container {container}, which these do not have: {pods}."
                )
            }
            Self::NoSuchPort { probe, pods } => {
                write!(
                    f,
                    "Probe {probe} names a port that the container of these does not have: {pods}."
                )
            }
            Self::NoResult { pods } => {
                write!(f, "The daemon of the node has not reported on all probes of {pods}.")
            }
        }
    }
}
