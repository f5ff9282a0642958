//! ImagePullJob: pulls one image onto many nodes ahead of time.

pub mod default;
pub mod validate;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::imagepulljob::ImagePullJobSpec;
use serde::Deserialize;

/// An ImagePullJob as a user sent it; both versions have the same shape.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Sent {
    /// Name, labels and so on.
    pub metadata: ObjectMeta,
    /// What the user wants.
    pub spec: ImagePullJobSpec,
}
