//! The slice of any workload that says how many Pods it should have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;

use crate::meta::Meta;
use crate::statefulset::v1beta1::ReservedOrdinals;
use crate::wire::or_empty;

/// What is read of a workload that can be scaled. For reading only.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Scaled {
    /// Name, owners and so on.
    #[serde(deserialize_with = "crate::meta::known")]
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "or_empty")]
    pub spec: ScaledSpec,
}

has_meta!(Scaled);

/// What is read of its spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScaledSpec {
    /// Pods that there should be.
    pub replicas: Option<i32>,
    /// The labels of its Pods.
    pub selector: Option<LabelSelector>,
    /// Where ordinals start, of kinds whose Pods have some.
    pub ordinals: Option<ScaledOrdinals>,
    /// Ordinals that are left out.
    #[serde(deserialize_with = "or_empty")]
    pub reserve_ordinals: Box<[ReservedOrdinals]>,
}

/// Where ordinals start.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ScaledOrdinals {
    /// The first one.
    #[serde(deserialize_with = "or_empty")]
    pub start: i32,
}
