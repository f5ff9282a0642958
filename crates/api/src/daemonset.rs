//! DaemonSet: one Pod on every fitting node, a superset of the DaemonSet of Kubernetes.
//!
//! v1beta1 has progressive creation as a field (an annotation in v1alpha1) and names the revision `updateRevision`.

pub mod v1alpha1;
pub mod v1beta1;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::registry::{Column, Conversion, KindInfo, VersionInfo};
use crate::shared::IntOrPercent;

/// The registry's entry.
pub const KIND: KindInfo = KindInfo {
    short_names: &["daemon", "ads"],
    conversion: Conversion::Webhook,
    ..KindInfo::of::<v1beta1::DaemonSet>(&[
        VersionInfo::of::<v1alpha1::DaemonSet>(COLUMNS),
        VersionInfo::of::<v1beta1::DaemonSet>(COLUMNS),
    ])
};

const COLUMNS: &[Column] = &[
    Column::integer("DESIRED", ".status.desiredNumberScheduled"),
    Column::integer("CURRENT", ".status.currentNumberScheduled"),
    Column::integer("READY", ".status.numberReady"),
    Column::integer("UP-TO-DATE", ".status.updatedNumberScheduled"),
    Column::integer("AVAILABLE", ".status.numberAvailable"),
    Column::AGE,
    Column::CONTAINERS,
    Column::IMAGES,
];

words! {
    /// Who replaces outdated Pods.
    pub enum UpdateStrategyType {
        /// The controller, step by step.
        RollingUpdate,
        /// The user, by deleting them.
        OnDelete,
    }

    /// How a Pod is brought to a new template.
    pub enum RollingUpdateType {
        /// It is deleted and made anew.
        Standard,
        /// The new one comes before the old one goes; only in v1alpha1, and the same as `Standard` with a surge.
        Surging,
        /// In place when the change allows it, otherwise made anew.
        InPlaceIfPossible,
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
        /// How a Pod is updated: `Standard` or `InPlaceIfPossible`.
        rolling_update_type: RollingUpdateType,
        /// Most nodes whose Pod may be unavailable during the update.
        max_unavailable: Option<IntOrPercent>,
        /// Most nodes that may have an old and a new Pod during the update.
        max_surge: Option<IntOrPercent>,
        /// Nodes whose Pods are updated; all when not given.
        selector: Option<LabelSelector>,
        /// Pods that stay at the old revision, as a number or a percentage.
        partition: Option<IntOrPercent>,
        /// True stops the update where it is.
        paused: bool,
    }
}
