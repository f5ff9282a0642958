//! SidecarSet: containers that are put into matching Pods when they are made, and updated in place afterwards.
//!
//! v1beta1 selects namespaces only by selector and has the custom version as a field (a label in v1alpha1).

pub mod container;
pub mod v1alpha1;
pub mod v1beta1;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::registry::{Column, Conversion, KindInfo, VersionInfo};
use crate::shared::IntOrPercent;
use crate::shared::conditions::Condition;
use crate::shared::scatter::ScatterTerm;
use crate::shared::update_priority::UpdatePriorityStrategy;

/// The registry's entry.
pub const KIND: KindInfo = KindInfo {
    conversion: Conversion::Webhook,
    ..KindInfo::of::<v1beta1::SidecarSet>(&[
        VersionInfo::of::<v1alpha1::SidecarSet>(COLUMNS),
        VersionInfo::of::<v1beta1::SidecarSet>(COLUMNS),
    ])
};

const COLUMNS: &[Column] = &[
    Column::integer("MATCHED", ".status.matchedPods"),
    Column::integer("UPDATED", ".status.updatedPods"),
    Column::integer("READY", ".status.readyPods"),
    Column::AGE,
];

words! {
    /// Whether injected containers follow a change.
    pub enum UpdateStrategyType {
        /// They do, step by step.
        RollingUpdate,
        /// They do not; only new Pods get the change.
        NotUpdate,
    }

    /// Which new Pods get a fixed revision.
    pub enum InjectionRevisionPolicy {
        /// All of them.
        Always,
        /// Those that the update strategy leaves at the old revision.
        Partial,
    }

    /// What happens to an annotation that a Pod already has.
    pub enum PatchPolicy {
        /// It stays as it is.
        Retain,
        /// It is overwritten.
        Overwrite,
        /// Both are JSON objects and are merged.
        MergePatchJson,
    }
}

api! {
    /// How injected containers follow a change.
    pub struct UpdateStrategy {
        /// `RollingUpdate` updates Pods step by step, `NotUpdate` leaves them alone.
        #[serde(rename = "type")]
        type_: UpdateStrategyType,
        /// True stops the update where it is.
        paused: bool,
        /// Only Pods with these labels are updated.
        selector: Option<LabelSelector>,
        /// Pods that stay at the old revision, as a number or a percentage.
        partition: Option<IntOrPercent>,
        /// Most Pods that may be unavailable during the update; 1 when not given.
        max_unavailable: Option<IntOrPercent>,
        /// Which Pods are updated first.
        priority_strategy: Option<UpdatePriorityStrategy>,
        /// Labels whose Pods are spread over the rollout.
        scatter_strategy: Vec<ScatterTerm>,
    }

    /// How new Pods get their containers.
    pub struct InjectionStrategy {
        /// True puts nothing into new Pods.
        paused: bool,
        /// A fixed revision for new Pods instead of the newest.
        revision: Option<InjectionRevision>,
    }

    /// A fixed revision for new Pods.
    pub struct InjectionRevision {
        /// The newest revision with this custom version.
        custom_version: Option<String>,
        /// The revision of this name; wins over the custom version.
        revision_name: Option<String>,
        /// `Always`: for all new Pods. `Partial`: for those that the update strategy leaves at the old revision.
        #[schema(extend("x-default" = "Always", "enum" = ["Always", "Partial"]))]
        policy: InjectionRevisionPolicy,
    }

    /// Annotations to put on Pods.
    pub struct PatchPodMetadata {
        /// The annotations.
        annotations: BTreeMap<String, String>,
        /// What happens to one that is already there: `Retain`, `Overwrite` or `MergePatchJson`.
        patch_policy: PatchPolicy,
    }

    /// How far the update has come.
    pub struct SidecarSetStatus {
        /// Generation of the spec that this status is about.
        observed_generation: i64,
        /// Pods with containers of this set.
        required matched_pods: i32,
        /// Pods whose containers are at the newest revision.
        required updated_pods: i32,
        /// Pods whose containers run as wanted and that are ready.
        required ready_pods: i32,
        /// Pods that are both updated and ready.
        updated_ready_pods: i32,
        /// Name of the revision that the spec asks for.
        latest_revision: String,
        /// Times a revision's name was already taken by another content.
        collision_count: Option<i32>,
        /// Pods that should have the containers and do not.
        pods_without_sidecars: i32,
        /// `PodsWithoutSidecars` names the first of them.
        conditions: Vec<Condition>,
    }
}
