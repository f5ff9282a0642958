//! NodePodProbe: the custom probes that the daemon of one node runs, and what they found. One object per node, with
//! the node's name. The manager writes the spec, the daemon answers in the status. There is only v1alpha1.

use k8s_openapi::api::core::v1::Probe;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use serde::Deserialize;

use crate::meta::Meta;
use crate::registry::{KindInfo, VersionInfo};
use crate::shared::probing::ProbeState;
use crate::wire::or_empty;

/// The registry's entry.
pub const KIND: KindInfo = KindInfo::of::<v1alpha1::NodePodProbe>(&[VersionInfo::of::<v1alpha1::NodePodProbe>(&[])]);

/// What controllers keep of a NodePodProbe: all but most of the metadata. There is one for each node, so they are many.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CachedNodePodProbe {
    /// Name, labels and so on.
    #[serde(deserialize_with = "or_empty")]
    pub metadata: Meta,
    /// The probes to run.
    #[serde(deserialize_with = "or_empty")]
    pub spec: NodePodProbeSpec,
    /// What they found.
    #[serde(deserialize_with = "or_empty")]
    pub status: NodePodProbeStatus,
}

projection!(CachedNodePodProbe, of: v1alpha1::NodePodProbe);

/// Version v1alpha1.
pub mod v1alpha1 {
    use super::{NodePodProbeSpec, NodePodProbeStatus};

    kind! {
        /// The custom probes to run on a node, and what they found.
        pub struct NodePodProbe {
            group: apps, version: v1alpha1, plural: "nodepodprobes", scope: Cluster,
            spec: NodePodProbeSpec, status: NodePodProbeStatus,
        }
    }
}

api! {
    /// The probes to run.
    pub struct NodePodProbeSpec {
        /// The Pods of the node that are probed.
        pod_probes: Vec<PodProbe>,
    }

    /// The probes of a Pod.
    pub struct PodProbe {
        /// Name of the Pod.
        required name: String,
        /// Namespace of the Pod.
        required namespace: String,
        /// UID of the Pod.
        required uid: String,
        /// Address of the Pod.
        #[serde(rename = "IP")]
        required ip: String,
        /// The probes to run.
        probes: Vec<ContainerProbe>,
    }

    /// A probe of a container.
    pub struct ContainerProbe {
        /// Name of the PodProbeMarker and of its probe, with `#` between.
        required name: String,
        /// Name of the container.
        required container_name: String,
        /// What to check and how often; ports are numbers.
        required probe: Probe,
    }

    /// What the probes found.
    pub struct NodePodProbeStatus {
        /// The Pods of the node that are probed.
        pod_probe_statuses: Vec<PodProbeStatus>,
    }

    /// What the probes of a Pod found.
    pub struct PodProbeStatus {
        /// Name of the Pod.
        required name: String,
        /// Namespace of the Pod.
        required namespace: String,
        /// UID of the Pod.
        required uid: String,
        /// What each probe found.
        probe_states: Vec<ContainerProbeState>,
    }

    /// What a probe found.
    pub struct ContainerProbeState {
        /// Name of the PodProbeMarker and of its probe, with `#` between.
        required name: String,
        /// `Succeeded`, `Failed` or `Unknown`.
        required state: ProbeState,
        /// When the last check was made.
        last_probe_time: Option<Time>,
        /// When the state last changed.
        last_transition_time: Option<Time>,
        /// What the last check said.
        message: String,
    }
}
