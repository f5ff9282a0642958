//! CloneSet in version v1alpha1: served for the users of 1.9 and older.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::CloneSetStatus;
use crate::raw::{PodTemplate, VolumeClaimTemplates};
use crate::shared::IntOrPercent;
use crate::shared::in_place::InPlaceUpdateStrategy;
use crate::shared::lifecycle::Lifecycle;
use crate::shared::scatter::ScatterTerm;
use crate::shared::update_priority::UpdatePriorityStrategy;

kind! {
    /// Keeps a number of identical Pods and rolls changes through them, in place where possible.
    pub struct CloneSet {
        group: apps, version: v1alpha1, plural: "clonesets", scope: Namespaced,
        spec: CloneSetSpec, status: CloneSetStatus,
    }
}

words! {
    /// How Pods are brought to a new template.
    pub enum UpdateStrategyType {
        /// They are deleted and made anew.
        ReCreate,
        /// In place when the change allows it, otherwise made anew.
        InPlaceIfPossible,
        /// In place, or not at all.
        InPlaceOnly,
        /// By the user, who deletes them.
        OnDelete,
    }
}

api! {
    /// The Pods that are wanted, and how to get there.
    pub struct CloneSetSpec {
        /// Wanted number of Pods; 1 when not given.
        replicas: Option<i32>,
        /// Which Pods belong to this set; must match the template's labels and cannot be changed.
        required selector: LabelSelector,
        /// The Pod to make.
        required template: PodTemplate,
        /// Claims to make for each Pod; changes count for new Pods only.
        volume_claim_templates: VolumeClaimTemplates,
        /// How Pods are added and removed.
        scale_strategy: ScaleStrategy,
        /// How Pods are brought to a new template.
        update_strategy: UpdateStrategy,
        /// Old revisions to keep; 10 when not given.
        revision_history_limit: Option<i32>,
        /// Seconds a Pod has to be ready before it counts as available.
        min_ready_seconds: i32,
        /// Hooks that hold a Pod back at certain moments.
        lifecycle: Option<Lifecycle>,
        /// Seconds without progress after which the rollout is reported as stuck; not watched when not given.
        progress_deadline_seconds: Option<i32>,
    }

    /// How Pods are added and removed.
    pub struct ScaleStrategy {
        /// Names of Pods to remove first; a name leaves the list once its Pod is gone.
        pods_to_delete: Vec<String>,
        /// Most Pods that may be unavailable while Pods are added; no limit when not given.
        max_unavailable: Option<IntOrPercent>,
        /// True keeps a new Pod from taking the claims of one that was deleted.
        #[serde(rename = "disablePVCReuse")]
        disable_pvc_reuse: bool,
    }

    /// How Pods are brought to a new template.
    pub struct UpdateStrategy {
        /// How a Pod is updated: `ReCreate`, `InPlaceIfPossible` or `InPlaceOnly`.
        #[serde(rename = "type")]
        type_: UpdateStrategyType,
        /// Pods that stay at the old revision, as a number or a percentage.
        partition: Option<IntOrPercent>,
        /// Most Pods that may be unavailable during the update; 20% when not given.
        max_unavailable: Option<IntOrPercent>,
        /// Most Pods there may be above `replicas` during the update.
        max_surge: Option<IntOrPercent>,
        /// True stops the update where it is.
        paused: bool,
        /// Which Pods are updated first.
        priority_strategy: Option<UpdatePriorityStrategy>,
        /// Labels whose Pods are spread over the rollout.
        scatter_strategy: Vec<ScatterTerm>,
        /// How an update in place goes.
        in_place_update_strategy: Option<InPlaceUpdateStrategy>,
    }
}
