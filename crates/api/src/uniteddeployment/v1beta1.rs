//! UnitedDeployment in version v1beta1: stored, and the one controllers work on.

use super::{SubsetStatus, UnitedDeploymentCondition, UnitedDeploymentSpec};

kind! {
    /// Runs one workload per subset of the cluster and divides the Pods among them.
    pub struct UnitedDeployment {
        group: apps, version: v1beta1, plural: "uniteddeployments", scope: Namespaced,
        spec: UnitedDeploymentSpec, status: UnitedDeploymentStatus,
    }
}

api! {
    /// How far the rollout has come.
    pub struct UnitedDeploymentStatus {
        /// Generation of the spec that this status is about.
        observed_generation: i64,
        /// Pods there are over all subsets.
        required replicas: i32,
        /// Pods that are ready.
        ready_replicas: i32,
        /// Pods at the newest revision.
        required updated_replicas: i32,
        /// Pods at the newest revision that are ready.
        updated_ready_replicas: i32,
        /// Pods that wait for a node and are made up for in other subsets.
        reserved_pods: i32,
        /// Times a revision's name was already taken by another content.
        collision_count: Option<i32>,
        /// Name of the revision that the last finished rollout reached.
        required current_revision: String,
        /// Name of the newest revision.
        updated_revision: String,
        /// How each subset stands.
        subset_statuses: Vec<SubsetStatus>,
        /// How the last steps went.
        conditions: Vec<UnitedDeploymentCondition>,
        /// Selector of the Pods as a string, for autoscalers.
        label_selector: String,
    }
}
