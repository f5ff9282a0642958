//! ImageListPullJob: pulls several images onto many nodes ahead of time, by one ImagePullJob for each.

pub mod default;
pub mod validate;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::imagelistpulljob::ImageListPullJobSpec;
use serde::Deserialize;

/// An ImageListPullJob as a user sent it; both versions have the same shape.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Sent {
    /// Name, labels and so on.
    pub metadata: ObjectMeta,
    /// What the user wants.
    pub spec: ImageListPullJobSpec,
}
