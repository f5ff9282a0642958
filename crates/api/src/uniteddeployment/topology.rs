//! The subsets of a UnitedDeployment, and how Pods are divided among them.

use k8s_openapi::api::core::v1::{NodeSelectorTerm, Toleration};

use crate::raw::AnyJson;
use crate::shared::IntOrPercent;

words! {
    /// Whether Pods move on when a subset has no room.
    pub enum ScheduleStrategyType {
        /// They do.
        Adaptive,
        /// They do not.
        Fixed,
    }
}

api! {
    /// The subsets, and how Pods are divided among them.
    pub struct Topology {
        /// The subsets, in order of preference.
        subsets: Vec<Subset>,
        /// What happens when a subset has no room.
        schedule_strategy: ScheduleStrategy,
    }

    /// A part of the cluster with a workload of its own.
    pub struct Subset {
        /// Name of the subset, unique in this object.
        required name: String,
        /// Nodes of the subset; cannot be changed.
        node_selector_term: Option<NodeSelectorTerm>,
        /// Taints that the subset's Pods tolerate; cannot be changed.
        tolerations: Vec<Toleration>,
        /// Pods of the subset, as a number or a percentage; not together with `minReplicas` and `maxReplicas`.
        replicas: Option<IntOrPercent>,
        /// Pods that the subset gets before others get more than theirs.
        min_replicas: Option<IntOrPercent>,
        /// Most Pods of the subset; no limit when not given.
        max_replicas: Option<IntOrPercent>,
        /// A strategic merge patch for the subset's Pod template.
        patch: AnyJson,
    }

    /// What happens when a subset has no room.
    pub struct ScheduleStrategy {
        /// `Fixed`: its Pods wait. `Adaptive`: other subsets make up for them.
        #[schema(extend("enum" = ["Adaptive", "Fixed", ""]))]
        #[serde(rename = "type")]
        type_: ScheduleStrategyType,
        /// When other subsets make up for waiting Pods.
        adaptive: Option<AdaptiveStrategy>,
    }

    /// When other subsets make up for waiting Pods.
    pub struct AdaptiveStrategy {
        /// Seconds a Pod may wait for a node; 30 when not given.
        reschedule_critical_seconds: Option<i32>,
        /// Seconds until a subset without room is tried again; 300 when not given.
        unschedulable_duration: Option<i32>,
        /// True keeps waiting Pods, and gives back what was made up for once they run.
        reserve_unschedulable_pods: bool,
    }
}
