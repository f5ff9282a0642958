//! CloneSet: Pods that are all alike, owned directly, and updated in place where possible.
//!
//! The versions differ in how the rollout is described: v1alpha1 has it flat under `updateStrategy`, v1beta1 under
//! `updateStrategy.rollingUpdate`. Controllers work on v1beta1.

pub mod v1alpha1;
pub mod v1beta1;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::registry::{Column, Conversion, KindInfo, VersionInfo};
use crate::shared::conditions::ConditionStatus;

/// The registry's entry.
pub const KIND: KindInfo = KindInfo {
    short_names: &["clone"],
    conversion: Conversion::Webhook,
    ..KindInfo::of::<v1beta1::CloneSet>(&[
        VersionInfo::of::<v1alpha1::CloneSet>(COLUMNS).scalable(),
        VersionInfo::of::<v1beta1::CloneSet>(COLUMNS).scalable(),
    ])
};

const COLUMNS: &[Column] = &[
    Column::integer("DESIRED", ".spec.replicas"),
    Column::integer("UPDATED", ".status.updatedReplicas"),
    Column::integer("UPDATED_READY", ".status.updatedReadyReplicas"),
    Column::integer("UPDATED_AVAILABLE", ".status.updatedAvailableReplicas"),
    Column::integer("READY", ".status.readyReplicas"),
    Column::integer("TOTAL", ".status.replicas"),
    Column::AGE,
    Column::CONTAINERS,
    Column::IMAGES,
    Column::string("SELECTOR", ".status.labelSelector").wide(),
];

api! {
    /// How far the rollout has come.
    pub struct CloneSetStatus {
        /// Generation of the spec that this status is about.
        observed_generation: i64,
        /// Pods there are, of any revision.
        required replicas: i32,
        /// Pods that are ready.
        required ready_replicas: i32,
        /// Pods that have been ready for `minReadySeconds`.
        required available_replicas: i32,
        /// Pods at the update revision.
        required updated_replicas: i32,
        /// Pods at the update revision that are ready.
        required updated_ready_replicas: i32,
        /// Pods at the update revision that have been ready for `minReadySeconds`.
        updated_available_replicas: i32,
        /// Pods that should be at the update revision: all but the partition.
        expected_updated_replicas: i32,
        /// Name of the revision that the spec asks for.
        update_revision: String,
        /// Name of the revision that the last finished rollout reached.
        current_revision: String,
        /// Times a revision's name was already taken by another content.
        collision_count: Option<i32>,
        /// `FailedScale`, `FailedUpdate` and `Progressing`.
        conditions: Vec<CloneSetCondition>,
        /// Selector of the Pods as a string, for autoscalers.
        label_selector: String,
    }

    /// One aspect of the state of a CloneSet.
    pub struct CloneSetCondition {
        /// What the condition is about.
        #[serde(rename = "type")]
        required type_: String,
        /// `True`, `False` or `Unknown`.
        required status: ConditionStatus,
        /// When the status last changed.
        last_transition_time: Option<Time>,
        /// When the condition was last written.
        last_update_time: Option<Time>,
        /// Why the status is what it is, in one word.
        reason: String,
        /// Details for people.
        message: String,
    }
}
