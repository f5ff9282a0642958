//! PodProbeMarker: custom probes whose outcome becomes a condition, labels or annotations of the Pod. There is only
//! v1alpha1.
//!
//! A missing selector is kept apart from an empty one: nothing instead of every Pod of the namespace.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Probe;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::registry::{KindInfo, VersionInfo};
use crate::shared::probing::ProbeState;

/// The registry's entry.
pub const KIND: KindInfo =
    KindInfo::of::<v1alpha1::PodProbeMarker>(&[VersionInfo::of::<v1alpha1::PodProbeMarker>(&[])]);

/// Version v1alpha1.
pub mod v1alpha1 {
    use super::{PodProbeMarkerSpec, PodProbeMarkerStatus};

    kind! {
        /// Probes containers and marks their Pods with the outcome.
        pub struct PodProbeMarker {
            group: apps, version: v1alpha1, plural: "podprobemarkers", scope: Namespaced,
            spec: PodProbeMarkerSpec, status: PodProbeMarkerStatus,
        }
    }
}

api! {
    /// What to probe in which Pods.
    pub struct PodProbeMarkerSpec {
        /// The Pods of this namespace to probe; cannot be changed later.
        required selector: Option<LabelSelector>,
        /// The probes, each name once.
        required probes: Vec<PodContainerProbe>,
    }

    /// A probe, and how its outcome is shown on the Pod.
    pub struct PodContainerProbe {
        /// Name of the probe, unique in this object, without `#`.
        required name: String,
        /// Name of the container to probe.
        required container_name: String,
        /// What to check and how often; one of `exec`, `httpGet` and `tcpSocket`.
        required probe: Probe,
        /// Labels and annotations to set on the Pod by outcome.
        marker_policy: Vec<MarkerPolicy>,
        /// Type of the Pod condition that shows the outcome.
        pod_condition_type: String,
    }

    /// Labels and annotations that a Pod has while a probe has one outcome.
    pub struct MarkerPolicy {
        /// The outcome, `Succeeded` or `Failed`.
        required state: ProbeState,
        /// Labels to set; removed again with the other outcome.
        labels: BTreeMap<String, String>,
        /// Annotations to set; removed again with the other outcome.
        annotations: BTreeMap<String, String>,
    }

    /// What the controller has seen.
    pub struct PodProbeMarkerStatus {
        /// Generation of the object that the status is about.
        required observed_generation: i64,
        /// Pods that match and run on a node.
        matched_pods: i64,
    }
}
