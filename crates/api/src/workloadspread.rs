//! WorkloadSpread: spreads the Pods of a workload over subsets of nodes without changing the workload.
//!
//! The versions differ in two names and in the conditions: `requiredNodeSelectorTerm` and `preferredNodeSelectorTerms`
//! in v1alpha1 are `requiredNodeSelector` and `preferredNodeSelector` in v1beta1, whose conditions are Kubernetes'
//! standard ones.

use k8s_openapi::api::core::v1::NodeSelectorTerm;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::registry::{Column, Conversion, KindInfo, VersionInfo};

/// The registry's entry.
pub const KIND: KindInfo = KindInfo {
    short_names: &["ws"],
    conversion: Conversion::Webhook,
    ..KindInfo::of::<v1beta1::WorkloadSpread>(&[
        VersionInfo::of::<v1alpha1::WorkloadSpread>(COLUMNS),
        VersionInfo::of::<v1beta1::WorkloadSpread>(COLUMNS),
    ])
};

const COLUMNS: &[Column] = &[
    Column::string("WorkloadName", ".spec.targetRef.name"),
    Column::string("WorkloadKind", ".spec.targetRef.kind"),
    Column::boolean("Adaptive", r#".spec.scheduleStrategy.type[?(@ == "Adaptive")]"#),
    Column::date("Age", ".metadata.creationTimestamp"),
];

/// Version v1alpha1.
pub mod v1alpha1 {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{NodeSelectorTerm, Toleration};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::{PreferredNodes, ScheduleStrategy, TargetFilter};
    use crate::raw::AnyJson;
    use crate::shared::IntOrPercent;
    use crate::shared::conditions::Condition;
    use crate::shared::target::TargetReference;

    kind! {
        /// Spreads the Pods of a workload over subsets of nodes.
        pub struct WorkloadSpread {
            group: apps, version: v1alpha1, plural: "workloadspreads", scope: Namespaced,
            spec: WorkloadSpreadSpec, status: WorkloadSpreadStatus,
        }
    }

    api! {
        /// Which Pods to spread, and how.
        pub struct WorkloadSpreadSpec {
            /// The workload; another one cannot be named later.
            required target_ref: Option<TargetReference>,
            /// Spread only some of the workload's Pods.
            target_filter: Option<TargetFilter>,
            /// The subsets, the one to fill first in front.
            required subsets: Vec<WorkloadSpreadSubset>,
            /// What to do with Pods that find no place in their subset.
            schedule_strategy: ScheduleStrategy,
        }

        /// A part of the cluster, and how many Pods go there.
        pub struct WorkloadSpreadSubset {
            /// Name of the subset, unique in this object.
            required name: String,
            /// Pods of the subset run only on these nodes.
            required_node_selector_term: Option<NodeSelectorTerm>,
            /// Pods of the subset run on these nodes, if they can.
            preferred_node_selector_terms: Vec<PreferredNodes>,
            /// Taints that Pods of the subset tolerate.
            tolerations: Vec<Toleration>,
            /// Most Pods, as a number or a percentage of the workload's, rounded up; no limit when not given.
            max_replicas: Option<IntOrPercent>,
            /// Strategic merge patch for Pods of the subset.
            patch: AnyJson,
        }

        /// How the Pods are spread.
        pub struct WorkloadSpreadStatus {
            /// Generation of the object that the status is about.
            observed_generation: i64,
            /// The subsets, in the order of the spec.
            subset_statuses: Vec<SubsetStatus>,
            /// The same for each version of the Pods; new Pods are placed by this.
            versioned_subset_statuses: BTreeMap<String, Vec<SubsetStatus>>,
        }

        /// The Pods of a subset.
        pub struct SubsetStatus {
            /// Name of the subset.
            required name: String,
            /// Pods that there are.
            required replicas: i32,
            /// `Schedulable` says whether Pods found a place in the subset.
            conditions: Vec<Condition>,
            /// How many more Pods fit; `-1` is no limit.
            required missing_replicas: i32,
            /// Pods that were let in and have not been seen yet, with the time.
            creating_pods: BTreeMap<String, Time>,
            /// Pods whose deletion was let through and has not been seen yet, with the time.
            deleting_pods: BTreeMap<String, Time>,
        }
    }
}

/// Version v1beta1.
pub mod v1beta1 {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{NodeSelectorTerm, Toleration};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::{PreferredNodes, ScheduleStrategy, TargetFilter};
    use crate::raw::AnyJson;
    use crate::shared::IntOrPercent;
    use crate::shared::standard_condition::StandardCondition;
    use crate::shared::target::TargetReference;

    kind! {
        /// Spreads the Pods of a workload over subsets of nodes.
        pub struct WorkloadSpread {
            group: apps, version: v1beta1, plural: "workloadspreads", scope: Namespaced,
            spec: WorkloadSpreadSpec, status: WorkloadSpreadStatus,
        }
    }

    api! {
        /// Which Pods to spread, and how.
        pub struct WorkloadSpreadSpec {
            /// The workload; another one cannot be named later.
            required target_ref: Option<TargetReference>,
            /// Spread only some of the workload's Pods.
            target_filter: Option<TargetFilter>,
            /// The subsets, the one to fill first in front.
            required subsets: Vec<WorkloadSpreadSubset>,
            /// What to do with Pods that find no place in their subset.
            schedule_strategy: ScheduleStrategy,
        }

        /// A part of the cluster, and how many Pods go there.
        pub struct WorkloadSpreadSubset {
            /// Name of the subset, unique in this object.
            required name: String,
            /// Pods of the subset run only on these nodes.
            required_node_selector: Option<NodeSelectorTerm>,
            /// Pods of the subset run on these nodes, if they can.
            preferred_node_selector: Vec<PreferredNodes>,
            /// Taints that Pods of the subset tolerate.
            tolerations: Vec<Toleration>,
            /// Most Pods, as a number or a percentage of the workload's, rounded up; no limit when not given.
            max_replicas: Option<IntOrPercent>,
            /// Strategic merge patch for Pods of the subset.
            patch: AnyJson,
        }

        /// How the Pods are spread.
        pub struct WorkloadSpreadStatus {
            /// Generation of the object that the status is about.
            observed_generation: i64,
            /// The subsets, in the order of the spec.
            subset_statuses: Vec<SubsetStatus>,
            /// The same for each version of the Pods; new Pods are placed by this.
            versioned_subset_statuses: BTreeMap<String, Vec<SubsetStatus>>,
        }

        /// The Pods of a subset.
        pub struct SubsetStatus {
            /// Name of the subset.
            required name: String,
            /// Pods that there are.
            required replicas: i32,
            /// `Schedulable` says whether Pods found a place in the subset.
            #[schema(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<StandardCondition>,
            /// How many more Pods fit; `-1` is no limit.
            required missing_replicas: i32,
            /// Pods that were let in and have not been seen yet, with the time.
            creating_pods: BTreeMap<String, Time>,
            /// Pods whose deletion was let through and has not been seen yet, with the time.
            deleting_pods: BTreeMap<String, Time>,
        }
    }
}

words! {
    /// What to do with Pods that find no place in their subset.
    pub enum ScheduleStrategyType {
        /// Put them into a later subset.
        Adaptive,
        /// Leave them.
        Fixed,
    }
}

api! {
    /// Some of the workload's Pods, and how to count them.
    pub struct TargetFilter {
        /// The Pods to spread; all when not given.
        selector: Option<LabelSelector>,
        /// Paths in the workload, such as `spec.groups.0.replicas`, whose sum is the number of Pods.
        replicas_path_list: Vec<String>,
    }

    /// What to do with Pods that find no place in their subset.
    pub struct ScheduleStrategy {
        /// `Fixed` (when empty) leaves them waiting, `Adaptive` puts them into a later subset.
        #[schema(extend("enum" = ["Adaptive", "Fixed", ""]))]
        #[serde(rename = "type")]
        type_: ScheduleStrategyType,
        /// Settings of `Adaptive`.
        adaptive: Option<AdaptiveStrategy>,
    }

    /// Settings of `Adaptive`.
    pub struct AdaptiveStrategy {
        /// Without effect; kept for old objects.
        disable_simulation_schedule: bool,
        /// Seconds after which a Pod without a place is made again in a later subset; never when not given.
        reschedule_critical_seconds: Option<i32>,
    }

    /// Nodes, and how much they count.
    pub struct PreferredNodes {
        /// How much the term counts against others, 1 to 100.
        required weight: i32,
        /// The nodes.
        required preference: NodeSelectorTerm,
    }
}
