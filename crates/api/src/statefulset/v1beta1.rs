//! StatefulSet in version v1beta1: stored, and the one controllers work on.

use std::ops::RangeInclusive;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{PodManagementPolicy, UpdateStrategy};
use crate::raw::{PodTemplate, VolumeClaimTemplates};
use crate::shared::IntOrPercent;
use crate::shared::conditions::Condition;
use crate::shared::lifecycle::Lifecycle;

kind! {
    /// Keeps Pods with ordinals and volumes of their own and rolls changes through them.
    pub struct StatefulSet {
        group: apps, version: v1beta1, plural: "statefulsets", scope: Namespaced,
        spec: StatefulSetSpec, status: StatefulSetStatus,
    }
}

words! {
    /// What happens to a claim whose Pod is no longer wanted.
    pub enum ClaimRetention {
        /// It stays.
        Retain,
        /// It is deleted.
        Delete,
    }

    /// When claims follow a change of their templates.
    pub enum ClaimUpdateType {
        /// Together with the Pod's update.
        OnPodRollingUpdate,
        /// When the user deletes the claim.
        OnDelete,
    }
}

int_or_text! {
    /// Ordinals to leave out: one, `3`, or an inclusive range, `"5-7"`.
    pub enum ReservedOrdinals, expecting "an ordinal or a range of ordinals"
}

/// Why a text is not a range of ordinals.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a range of ordinals such as \"5-7\"")]
pub struct NotARange(Box<str>);

impl ReservedOrdinals {
    /// The ordinals, both ends included.
    pub fn range(&self) -> Result<RangeInclusive<i32>, NotARange> {
        let wrong = |text: &str| NotARange(text.into());
        match self {
            Self::Int(ordinal) => Ok(*ordinal..=*ordinal),
            Self::Text(text) => {
                let (from, to) = text.split_once('-').ok_or_else(|| wrong(text))?;
                let digits = |part: &str| -> Option<i32> {
                    part.bytes()
                        .all(|byte| byte.is_ascii_digit())
                        .then(|| part.parse().ok())
                        .flatten()
                };
                match (digits(from), digits(to)) {
                    (Some(from), Some(to)) if from <= to => Ok(from..=to),
                    _ => Err(wrong(text)),
                }
            }
        }
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
        /// When claims follow a change of their templates.
        volume_claim_update_strategy: VolumeClaimUpdateStrategy,
        /// Name of the Service that gives the Pods their DNS names; cannot be changed.
        service_name: String,
        /// `OrderedReady` adds and removes Pods one by one, `Parallel` all at once; cannot be changed.
        pod_management_policy: PodManagementPolicy,
        /// How Pods are brought to a new template.
        update_strategy: UpdateStrategy,
        /// Old revisions to keep; 10 when not given.
        revision_history_limit: Option<i32>,
        /// Ordinals to leave out: numbers, or ranges such as `"5-7"`.
        reserve_ordinals: Vec<ReservedOrdinals>,
        /// Hooks that hold a Pod back at certain moments.
        lifecycle: Option<Lifecycle>,
        /// How Pods are added and removed.
        scale_strategy: Option<ScaleStrategy>,
        /// What happens to claims whose Pod is no longer wanted.
        persistent_volume_claim_retention_policy: Option<ClaimRetentionPolicy>,
        /// Where the ordinals start.
        ordinals: Option<Ordinals>,
    }

    /// When claims follow a change of their templates.
    pub struct VolumeClaimUpdateStrategy {
        /// `OnPodRollingUpdate` updates claims with their Pods, `OnDelete` only when they are deleted.
        #[serde(rename = "type")]
        type_: ClaimUpdateType,
    }

    /// How Pods are added and removed.
    pub struct ScaleStrategy {
        /// Most Pods that may be unavailable while Pods are added or removed.
        max_unavailable: Option<IntOrPercent>,
    }

    /// What happens to claims whose Pod is no longer wanted.
    pub struct ClaimRetentionPolicy {
        /// `Retain` or `Delete` claims when the set is deleted.
        when_deleted: ClaimRetention,
        /// `Retain` or `Delete` a claim when its Pod is removed by scaling in.
        when_scaled: ClaimRetention,
    }

    /// Where the ordinals start.
    pub struct Ordinals {
        /// Ordinal of the first Pod.
        always start: i32,
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
        /// Pods at the update revision that are ready.
        updated_ready_replicas: i32,
        /// Pods at the update revision that have been ready for `minReadySeconds`.
        updated_available_replicas: i32,
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
        /// How far claims follow their templates, per template.
        volume_claims: Vec<VolumeClaimStatus>,
    }

    /// How far claims follow their template.
    pub struct VolumeClaimStatus {
        /// Name of the claim template.
        required volume_claim_name: String,
        /// Claims that fit the template.
        required compatible_replicas: i32,
        /// Claims that fit the template and have their new size.
        required compatible_ready_replicas: i32,
    }
}
