//! A ConfigMap as controllers read it: never its content, only whether two have the same.

use serde::Deserialize;

use crate::content::read_digest;
use crate::meta::{Meta, known};
use crate::wire::or_empty;

/// What controllers read of a ConfigMap. For reading only.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConfigMap {
    /// Name, labels and so on.
    #[serde(deserialize_with = "known")]
    pub metadata: Meta,
    /// A number that is the same for the same `data`, within one process.
    #[serde(deserialize_with = "read_digest")]
    pub data: u64,
    /// The same for `binaryData`.
    #[serde(deserialize_with = "read_digest")]
    pub binary_data: u64,
    /// Its content cannot be changed.
    #[serde(deserialize_with = "or_empty")]
    pub immutable: bool,
}

projection!(ConfigMap, of: k8s_openapi::api::core::v1::ConfigMap);
