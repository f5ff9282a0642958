//! NodeImage: which images a node shall hold.

pub mod convert;
pub mod default;
pub mod validate;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::nodeimage::v1beta1::NodeImageSpec;
use serde::Deserialize;

/// A NodeImage as somebody sent it; v1beta1 only adds a word that no rule looks at.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Sent {
    /// Name, labels and so on.
    pub metadata: ObjectMeta,
    /// The images.
    pub spec: NodeImageSpec,
}
