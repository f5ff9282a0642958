//! StatefulSet in version v1alpha1: served for the users of releases before 0.7.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{PodManagementPolicy, UpdateStrategy};
use crate::raw::{PodTemplate, VolumeClaimTemplates};
use crate::shared::conditions::Condition;

kind! {
    /// Keeps Pods with ordinals and volumes of their own and rolls changes through them.
    pub struct StatefulSet {
        group: apps, version: v1alpha1, plural: "statefulsets", scope: Namespaced,
        spec: StatefulSetSpec, status: StatefulSetStatus,
    }
}

api! {
    /// The Pods that are wanted, and how to get there.
    pub struct StatefulSetSpec {
        /// Wanted number of Pods; 1 when not given.
        replicas: Option<i32>,
        /// Which Pods belong to this set; must match the template's labels and cannot be changed.
        required selector: LabelSelector,
        /// The Pod to make.
        required template: PodTemplate,
        /// Claims to make for each ordinal.
        volume_claim_templates: VolumeClaimTemplates,
        /// Name of the Service that gives the Pods their DNS names; cannot be changed.
        service_name: String,
        /// `OrderedReady` adds and removes Pods one by one, `Parallel` all at once; cannot be changed.
        pod_management_policy: PodManagementPolicy,
        /// How Pods are brought to a new template.
        update_strategy: UpdateStrategy,
        /// Old revisions to keep; 10 when not given.
        revision_history_limit: Option<i32>,
    }

    /// How far the rollout has come.
    pub struct StatefulSetStatus {
        /// Generation of the spec that this status is about.
        observed_generation: i64,
        /// Pods there are, of any revision.
        required replicas: i32,
        /// Pods that are ready.
        required ready_replicas: i32,
        /// Pods that have been ready for `minReadySeconds`.
        required available_replicas: i32,
        /// Pods at the current revision.
        required current_replicas: i32,
        /// Pods at the update revision.
        required updated_replicas: i32,
        /// Name of the revision that the last finished rollout reached.
        current_revision: String,
        /// Name of the revision that the spec asks for.
        update_revision: String,
        /// Times a revision's name was already taken by another content.
        collision_count: Option<i32>,
        /// `FailedCreatePod` and `FailedUpdatePod`, while they last.
        conditions: Vec<Condition>,
        /// Selector of the Pods as a string, for autoscalers.
        label_selector: String,
    }
}
