//! DaemonSet in version v1beta1: stored, and the one controllers work on.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::UpdateStrategy;
use crate::raw::PodTemplate;
use crate::shared::IntOrPercent;
use crate::shared::conditions::Condition;
use crate::shared::lifecycle::Lifecycle;

kind! {
    /// Runs one Pod on every node that fits and rolls changes through them.
    pub struct DaemonSet {
        group: apps, version: v1beta1, plural: "daemonsets", scope: Namespaced,
        spec: DaemonSetSpec, status: DaemonSetStatus,
    }
}

api! {
    /// The Pod that is wanted on each node, and how to get there.
    pub struct DaemonSetSpec {
        /// Which Pods belong to this set; must match the template's labels and cannot be changed.
        required selector: LabelSelector,
        /// The Pod to run on each node.
        required template: PodTemplate,
        /// How Pods are brought to a new template.
        update_strategy: UpdateStrategy,
        /// How Pods are added.
        scale_strategy: Option<ScaleStrategy>,
        /// Seconds a Pod has to be ready before it counts as available.
        min_ready_seconds: i32,
        /// Most Pods that are made or deleted in one go; 250 when not given.
        burst_replicas: Option<IntOrPercent>,
        /// Old revisions to keep; 10 when not given.
        revision_history_limit: Option<i32>,
        /// Hooks that hold a Pod back at certain moments; only `preDelete` is followed.
        lifecycle: Option<Lifecycle>,
    }

    /// How Pods are added.
    pub struct ScaleStrategy {
        /// True makes new Pods only on as many nodes as the partition lets through.
        partitioned_scaling: bool,
    }

    /// On how many nodes the Pod runs, and at which revision.
    pub struct DaemonSetStatus {
        /// Generation of the spec that this status is about.
        observed_generation: i64,
        /// Nodes that should run the Pod.
        required desired_number_scheduled: i32,
        /// Nodes that run the Pod and should.
        required current_number_scheduled: i32,
        /// Nodes that run the Pod and should not.
        required number_misscheduled: i32,
        /// Nodes whose Pod is ready.
        required number_ready: i32,
        /// Nodes whose Pod is at the new revision.
        required updated_number_scheduled: i32,
        /// Nodes whose Pod has been ready for `minReadySeconds`.
        number_available: i32,
        /// Nodes that should have an available Pod and do not.
        number_unavailable: i32,
        /// Times a revision's name was already taken by another content.
        collision_count: Option<i32>,
        /// Not used by the controller.
        conditions: Vec<Condition>,
        /// Hash of the revision that the spec asks for.
        update_revision: String,
    }
}
