//! A namespace as controllers and admission read it: by its labels.

use serde::Deserialize;

use crate::meta::{Meta, known};

/// What is read of a namespace. For reading only.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// Name, labels and so on.
    #[serde(deserialize_with = "known")]
    pub metadata: Meta,
}

projection!(Namespace, of: k8s_openapi::api::core::v1::Namespace);
