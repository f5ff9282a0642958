//! PodUnavailableBudget: refuses deletions, evictions and updates that would leave too few Pods available.
//!
//! v1alpha1 has two of v1beta1's fields in annotations instead, `protectOperations` and `protectTotalReplicas`, and
//! lacks `ignoredPodSelector`.

use crate::registry::{Column, Conversion, KindInfo, VersionInfo};

/// The registry's entry.
pub const KIND: KindInfo = KindInfo {
    short_names: &["pub"],
    conversion: Conversion::Webhook,
    ..KindInfo::of::<v1beta1::PodUnavailableBudget>(&[
        VersionInfo::of::<v1alpha1::PodUnavailableBudget>(COLUMNS),
        VersionInfo::of::<v1beta1::PodUnavailableBudget>(COLUMNS),
    ])
};

const COLUMNS: &[Column] = &[
    Column::integer("Allowed", ".status.unavailableAllowed"),
    Column::integer("Current", ".status.currentAvailable"),
    Column::integer("Desired", ".status.desiredAvailable"),
    Column::integer("Total", ".status.totalReplicas"),
];

/// Version v1alpha1.
pub mod v1alpha1 {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};

    use super::TargetReference;
    use crate::shared::IntOrPercent;

    kind! {
        /// Keeps enough Pods available while they are deleted, evicted or updated.
        pub struct PodUnavailableBudget {
            group: policy, version: v1alpha1, plural: "podunavailablebudgets", scope: Namespaced,
            spec: PodUnavailableBudgetSpec, status: PodUnavailableBudgetStatus,
        }
    }

    api! {
        /// Which Pods to protect, and how many may be away.
        pub struct PodUnavailableBudgetSpec {
            /// The Pods to protect; either this or `targetRef`. Cannot be changed later.
            selector: Option<LabelSelector>,
            /// The workload whose Pods to protect; either this or `selector`. Cannot be changed later.
            target_ref: Option<TargetReference>,
            /// Most Pods that may be unavailable, as a number or a percentage; either this or `minAvailable`.
            max_unavailable: Option<IntOrPercent>,
            /// Fewest Pods that must stay available, as a number or a percentage; either this or `maxUnavailable`.
            min_available: Option<IntOrPercent>,
        }

        /// What is left of the budget.
        pub struct PodUnavailableBudgetStatus {
            /// Generation of the object that the status is about.
            always observed_generation: i64,
            /// Pods whose deletion or eviction was let through and has not been seen yet, with the time.
            disrupted_pods: BTreeMap<String, Time>,
            /// Pods whose update was let through and has not been seen yet, with the time.
            unavailable_pods: BTreeMap<String, Time>,
            /// How many more Pods may become unavailable now.
            required unavailable_allowed: i32,
            /// Pods that are available.
            required current_available: i32,
            /// Fewest Pods that must stay available.
            required desired_available: i32,
            /// Pods that there should be; percentages are of this number.
            required total_replicas: i32,
        }
    }
}

/// Version v1beta1.
pub mod v1beta1 {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};

    use super::TargetReference;
    use crate::shared::IntOrPercent;

    kind! {
        /// Keeps enough Pods available while they are deleted, evicted or updated.
        pub struct PodUnavailableBudget {
            group: policy, version: v1beta1, plural: "podunavailablebudgets", scope: Namespaced,
            spec: PodUnavailableBudgetSpec, status: PodUnavailableBudgetStatus,
        }
    }

    words! {
        /// An operation on a Pod that can be refused.
        pub enum ProtectOperation {
            /// Deleting it.
            Delete = "DELETE",
            /// Changing its spec in place.
            Update = "UPDATE",
            /// Evicting it.
            Evict = "EVICT",
            /// Changing its resources in place without a restart.
            Resize = "RESIZE",
        }
    }

    api! {
        /// Which Pods to protect, against what, and how many may be away.
        pub struct PodUnavailableBudgetSpec {
            /// The Pods to protect; either this or `targetRef`. Cannot be changed later.
            selector: Option<LabelSelector>,
            /// The workload whose Pods to protect; either this or `selector`. Cannot be changed later.
            target_ref: Option<TargetReference>,
            /// Most Pods that may be unavailable, as a number or a percentage; either this or `minAvailable`.
            max_unavailable: Option<IntOrPercent>,
            /// Fewest Pods that must stay available, as a number or a percentage; either this or `maxUnavailable`.
            min_available: Option<IntOrPercent>,
            /// What to protect against: `DELETE`, `UPDATE`, `EVICT`, `RESIZE`; the first three when empty.
            #[schema(extend("items" = { "type": "string", "enum": ["DELETE", "UPDATE", "EVICT", "RESIZE"] }))]
            protect_operations: Vec<ProtectOperation>,
            /// Number of Pods that percentages are of; that of the workload when not given.
            #[schema(extend("minimum" = 1))]
            protect_total_replicas: Option<i32>,
            /// Pods that are never protected.
            ignored_pod_selector: Option<LabelSelector>,
        }

        /// What is left of the budget.
        pub struct PodUnavailableBudgetStatus {
            /// Generation of the object that the status is about.
            observed_generation: i64,
            /// Pods whose deletion or eviction was let through and has not been seen yet, with the time.
            disrupted_pods: BTreeMap<String, Time>,
            /// Pods whose update was let through and has not been seen yet, with the time.
            unavailable_pods: BTreeMap<String, Time>,
            /// How many more Pods may become unavailable now.
            required unavailable_allowed: i32,
            /// Pods that are available.
            required current_available: i32,
            /// Fewest Pods that must stay available.
            required desired_available: i32,
            /// Pods that there should be; percentages are of this number.
            required total_replicas: i32,
        }
    }
}

api! {
    /// Points to a workload in the same namespace; any kind that can be scaled.
    pub struct TargetReference {
        /// Group and version of the workload; another version of the same group means the same workload.
        api_version: String,
        /// Kind of the workload.
        kind: String,
        /// Name of the workload.
        name: String,
    }
}
