//! PersistentPodState: brings the Pods of a StatefulSet back to the topology they ran in before.
//!
//! The versions differ in one name: lists of topology keys are called `nodeTopologyKeys` in v1alpha1, `keys` in
//! v1beta1.

use std::collections::BTreeMap;

use crate::registry::{Conversion, KindInfo, VersionInfo};

/// The registry's entry.
pub const KIND: KindInfo = KindInfo {
    conversion: Conversion::Webhook,
    ..KindInfo::of::<v1beta1::PersistentPodState>(&[
        VersionInfo::of::<v1alpha1::PersistentPodState>(&[]),
        VersionInfo::of::<v1beta1::PersistentPodState>(&[]),
    ])
};

/// Version v1alpha1.
pub mod v1alpha1 {
    use super::{PersistentPodAnnotation, PersistentPodStateStatus, RetentionPolicy};
    use crate::shared::target::TargetReference;

    kind! {
        /// Brings the Pods of a StatefulSet back to the topology they ran in before.
        pub struct PersistentPodState {
            group: apps, version: v1alpha1, plural: "persistentpodstates", scope: Namespaced,
            spec: PersistentPodStateSpec, status: PersistentPodStateStatus,
        }
    }

    api! {
        /// What to remember of which Pods.
        pub struct PersistentPodStateSpec {
            /// The StatefulSet, or a workload like it; cannot be changed later.
            required target_ref: TargetReference,
            /// Annotations of the Pods to note in the status, for others to read.
            persistent_pod_annotations: Vec<PersistentPodAnnotation>,
            /// A Pod comes back only to nodes that have the same values of these labels.
            required_persistent_topology: Option<NodeTopologyTerm>,
            /// A Pod comes back to nodes that have the same values of these labels, if it can.
            preferred_persistent_topology: Vec<PreferredTopologyTerm>,
            /// `WhenScaled` (when not given) forgets Pods that were scaled away, `WhenDeleted` remembers them.
            persistent_pod_state_retention_policy: RetentionPolicy,
        }

        /// Labels of nodes.
        pub struct NodeTopologyTerm {
            /// Keys of the labels.
            required node_topology_keys: Vec<String>,
        }

        /// Labels of nodes, and how much they count.
        pub struct PreferredTopologyTerm {
            /// How much the term counts against others, 1 to 100.
            required weight: i32,
            /// The labels.
            required preference: NodeTopologyTerm,
        }
    }
}

/// Version v1beta1.
pub mod v1beta1 {
    use super::{PersistentPodAnnotation, PersistentPodStateStatus, RetentionPolicy};
    use crate::shared::target::TargetReference;

    kind! {
        /// Brings the Pods of a StatefulSet back to the topology they ran in before.
        pub struct PersistentPodState {
            group: apps, version: v1beta1, plural: "persistentpodstates", scope: Namespaced,
            spec: PersistentPodStateSpec, status: PersistentPodStateStatus,
        }
    }

    api! {
        /// What to remember of which Pods.
        pub struct PersistentPodStateSpec {
            /// The StatefulSet, or a workload like it; cannot be changed later.
            required target_ref: TargetReference,
            /// Annotations of the Pods to note in the status, for others to read.
            persistent_pod_annotations: Vec<PersistentPodAnnotation>,
            /// A Pod comes back only to nodes that have the same values of these labels.
            required_persistent_topology: Option<NodeTopologyTerm>,
            /// A Pod comes back to nodes that have the same values of these labels, if it can.
            preferred_persistent_topology: Vec<PreferredTopologyTerm>,
            /// `WhenScaled` (when not given) forgets Pods that were scaled away, `WhenDeleted` remembers them.
            #[schema(extend("enum" = ["WhenScaled", "WhenDeleted"]))]
            persistent_pod_state_retention_policy: RetentionPolicy,
        }

        /// Labels of nodes.
        pub struct NodeTopologyTerm {
            /// Keys of the labels.
            required keys: Vec<String>,
        }

        /// Labels of nodes, and how much they count.
        pub struct PreferredTopologyTerm {
            /// How much the term counts against others, 1 to 100.
            #[schema(extend("minimum" = 0))]
            required weight: i32,
            /// The labels.
            required preference: NodeTopologyTerm,
        }
    }
}

words! {
    /// When the record of a Pod is dropped.
    pub enum RetentionPolicy {
        /// When the Pod is scaled away.
        WhenScaled,
        /// When the workload is deleted.
        WhenDeleted,
    }
}

api! {
    /// An annotation to note.
    pub struct PersistentPodAnnotation {
        /// Key of the annotation.
        required key: String,
    }

    /// What is remembered.
    pub struct PersistentPodStateStatus {
        /// Generation of the object that the status is about.
        required observed_generation: i64,
        /// What is remembered of each Pod, by its name.
        pod_states: BTreeMap<String, PodState>,
    }

    /// What is remembered of a Pod.
    pub struct PodState {
        /// Node on which the Pod was last ready.
        node_name: String,
        /// Topology labels of that node.
        node_topology_labels: BTreeMap<String, String>,
        /// Annotations of the Pod that were to be noted.
        annotations: BTreeMap<String, String>,
    }
}
