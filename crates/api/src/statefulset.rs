//! StatefulSet: Pods with ordinals and volumes of their own, a superset of the StatefulSet of Kubernetes.
//!
//! v1beta1 adds hooks, reserved ordinals, paced scaling and care for claims to v1alpha1; what both have is the same.

pub mod v1alpha1;
pub mod v1beta1;

use crate::registry::{Column, Conversion, KindInfo, VersionInfo};
use crate::shared::IntOrPercent;
use crate::shared::in_place::{InPlaceUpdateStrategy, PodUpdatePolicy};
use crate::shared::update_priority::UpdatePriorityStrategy;

/// The registry's entry.
pub const KIND: KindInfo = KindInfo {
    short_names: &["sts", "asts"],
    conversion: Conversion::Webhook,
    ..KindInfo::of::<v1beta1::StatefulSet>(&[
        VersionInfo::of::<v1alpha1::StatefulSet>(COLUMNS).scalable(),
        VersionInfo::of::<v1beta1::StatefulSet>(COLUMNS).scalable(),
    ])
};

const COLUMNS: &[Column] = &[
    Column::integer("DESIRED", ".spec.replicas"),
    Column::integer("CURRENT", ".status.replicas"),
    Column::integer("UPDATED", ".status.updatedReplicas"),
    Column::integer("READY", ".status.readyReplicas"),
    Column::AGE,
    Column::CONTAINERS,
    Column::IMAGES,
];

words! {
    /// In which order Pods come and go.
    pub enum PodManagementPolicy {
        /// One by one, each waiting for the one before.
        OrderedReady,
        /// All at once.
        Parallel,
    }

    /// Who replaces outdated Pods.
    pub enum UpdateStrategyType {
        /// The controller, step by step.
        RollingUpdate,
        /// The user, by deleting them.
        OnDelete,
    }
}

api! {
    /// How Pods are brought to a new template.
    pub struct UpdateStrategy {
        /// `RollingUpdate` goes step by step, `OnDelete` waits until Pods are deleted.
        #[serde(rename = "type")]
        type_: UpdateStrategyType,
        /// The steps of a rolling update.
        rolling_update: Option<RollingUpdate>,
    }

    /// The steps of a rolling update.
    pub struct RollingUpdate {
        /// Pods that stay at the old revision, lowest ordinals first.
        partition: Option<i32>,
        /// Most Pods that may be unavailable during the update; more than 1 needs the `Parallel` policy.
        max_unavailable: Option<IntOrPercent>,
        /// How a Pod is updated: `ReCreate`, `InPlaceIfPossible` or `InPlaceOnly`.
        pod_update_policy: PodUpdatePolicy,
        /// True stops the update where it is.
        paused: bool,
        /// Updates by priority instead of from the highest ordinal down, even when empty; needs the `Parallel` policy.
        unordered_update: Option<UnorderedUpdate>,
        /// How an update in place goes.
        in_place_update_strategy: Option<InPlaceUpdateStrategy>,
        /// Seconds a Pod has to be ready before it counts as available, at most 300.
        min_ready_seconds: Option<i32>,
    }

    /// An update that does not follow the ordinals.
    pub struct UnorderedUpdate {
        /// Which Pods are updated first.
        priority_strategy: Option<UpdatePriorityStrategy>,
    }
}
