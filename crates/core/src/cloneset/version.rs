//! A CloneSet in the version in which a user submitted it.
//!
//! The two versions say the same at different places; [`Submitted`] is one look at both, with the places as the user knows them.

use crate::admission::Version;
use crate::field_error::Path;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kruise_api::{
    cloneset::{v1alpha1, v1beta1},
    raw::{PodTemplate, VolumeClaimTemplates},
    shared::{
        IntOrPercent,
        in_place::{InPlaceUpdateStrategy, PodUpdatePolicy},
        scatter::ScatterTerm,
        update_priority::UpdatePriorityStrategy,
    },
};

/// A CloneSet as it was submitted.
#[derive(Debug, Clone, PartialEq)]
pub enum Submitted {
    V1alpha1(Box<v1alpha1::CloneSet>),
    V1beta1(Box<v1beta1::CloneSet>),
}

/// The rules of a rolling update, and where they stand.
#[derive(Debug)]
pub(super) struct Rolling<'a> {
    pub(super) path: Path,
    pub(super) in_place_only: bool,
    pub(super) partition: Option<&'a IntOrPercent>,
    pub(super) max_unavailable: Option<&'a IntOrPercent>,
    pub(super) max_surge: Option<&'a IntOrPercent>,
    pub(super) priority: Option<&'a UpdatePriorityStrategy>,
    pub(super) scatter: &'a [ScatterTerm],
    /// How an update in place goes; v1alpha1 says the part that has rules in annotations.
    pub(super) in_place: Option<&'a InPlaceUpdateStrategy>,
}

impl Submitted {
    pub fn version(&self) -> Version {
        match self {
            Self::V1alpha1(_) => Version::V1alpha1,
            Self::V1beta1(_) => Version::V1beta1,
        }
    }

    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::V1alpha1(set) => &set.metadata,
            Self::V1beta1(set) => &set.metadata,
        }
    }

    /// Wanted Pods; one when nothing is said.
    pub fn replicas(&self) -> i32 {
        let replicas = match self {
            Self::V1alpha1(set) => set.spec.replicas,
            Self::V1beta1(set) => set.spec.replicas,
        };
        replicas.unwrap_or(1)
    }

    pub fn selector(&self) -> &LabelSelector {
        match self {
            Self::V1alpha1(set) => &set.spec.selector,
            Self::V1beta1(set) => &set.spec.selector,
        }
    }

    pub fn template(&self) -> &PodTemplate {
        match self {
            Self::V1alpha1(set) => &set.spec.template,
            Self::V1beta1(set) => &set.spec.template,
        }
    }

    pub fn claims(&self) -> &VolumeClaimTemplates {
        match self {
            Self::V1alpha1(set) => &set.spec.volume_claim_templates,
            Self::V1beta1(set) => &set.spec.volume_claim_templates,
        }
    }

    pub fn pods_to_delete(&self) -> &[String] {
        match self {
            Self::V1alpha1(set) => &set.spec.scale_strategy.pods_to_delete,
            Self::V1beta1(set) => &set.spec.scale_strategy.pods_to_delete,
        }
    }

    /// The rules of the rolling update; none for v1beta1's `OnDelete` without any.
    pub(super) fn rolling(&self) -> Option<Rolling<'_>> {
        let path = Path::new("spec").child("updateStrategy");
        match self {
            Self::V1alpha1(set) => {
                let update = &set.spec.update_strategy;
                Some(Rolling {
                    path,
                    in_place_only: update.type_ == v1alpha1::UpdateStrategyType::InPlaceOnly,
                    partition: update.partition.as_ref(),
                    max_unavailable: update.max_unavailable.as_ref(),
                    max_surge: update.max_surge.as_ref(),
                    priority: update.priority_strategy.as_ref(),
                    scatter: &update.scatter_strategy,
                    in_place: None,
                })
            }
            Self::V1beta1(set) => {
                let rolling = set.spec.update_strategy.rolling_update.as_ref()?;
                Some(Rolling {
                    path: path.child("rollingUpdate"),
                    in_place_only: rolling.pod_update_policy == PodUpdatePolicy::InPlaceOnly,
                    partition: rolling.partition.as_ref(),
                    max_unavailable: rolling.max_unavailable.as_ref(),
                    max_surge: rolling.max_surge.as_ref(),
                    priority: rolling.priority_strategy.as_ref(),
                    scatter: &rolling.scatter_strategy,
                    in_place: rolling.in_place_update_strategy.as_ref(),
                })
            }
        }
    }
}
