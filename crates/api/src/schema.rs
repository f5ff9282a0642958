//! From types to CRDs. Only for the generator: binaries are built without the feature `schema`.
//!
//! - [`structural`] turns what schemars derives into the structural schema that the API server wants.
//! - [`standard`] has the shapes of the Kubernetes types that appear in our kinds.
//! - [`crd`] puts a kind's versions together.
//! - [`tree`] prints a version as one line per field, to compare it with the contract.

pub mod crd;
pub mod standard;
pub mod structural;
pub mod tree;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, json_schema};

/// The schema of a type, as schemars sees it.
pub(crate) fn root<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<T>()
}

/// The schema of a field that takes an integer or a string.
pub(crate) fn int_or_string() -> Schema {
    json_schema!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "x-kubernetes-int-or-string": true,
    })
}
