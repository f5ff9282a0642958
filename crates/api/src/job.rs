//! A Job of Kubernetes as controllers read it.

use serde::Deserialize;

use crate::meta::{CompactTimestamp, Meta, known};
use crate::pod::status::PodCondition;
use crate::wire::or_empty;

/// What controllers read of a Job. For reading only.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Name, owners and so on.
    #[serde(deserialize_with = "known")]
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "or_empty")]
    pub spec: JobSpec,
    /// What is.
    #[serde(deserialize_with = "or_empty")]
    pub status: JobStatus,
}

/// What controllers read of a Job's spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct JobSpec {
    /// Pods that run at the same time.
    pub parallelism: Option<i32>,
}

projection!(Job, of: k8s_openapi::api::batch::v1::Job);

/// What controllers read of a Job's status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// Conditions; they have the shape of a Pod's.
    #[serde(deserialize_with = "or_empty")]
    pub conditions: Box<[PodCondition]>,
    /// When it began.
    pub start_time: Option<CompactTimestamp>,
}
