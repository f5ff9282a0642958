//! Protection of workloads against deletion by mistake, with gate `ResourcesDeletionProtection`.
//!
//! | label `policy.kruise.io/delete-protection` | may be deleted |
//! |---|---|
//! | `Always` | never |
//! | `Cascading` | when it is scaled to zero |
//! | anything else, or none | yes |
//!
//! What is being deleted already is not kept from going.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::{
    gates::{Gate, Gates},
    names::label::{DELETE_PROTECTION, DELETE_PROTECTION_ALWAYS, DELETE_PROTECTION_CASCADING},
};

/// Returns why a workload may not be deleted.
pub fn refusal(metadata: &ObjectMeta, replicas: i32, gates: Gates) -> Option<String> {
    if !gates.enabled(Gate::ResourcesDeletionProtection) || metadata.deletion_timestamp.is_some() {
        return None;
    }
    let protection = metadata.labels.as_ref()?.get(DELETE_PROTECTION)?.as_str();
    let refused = format!("forbidden by ResourcesProtectionDeletion for {DELETE_PROTECTION}={protection}");
    match protection {
        DELETE_PROTECTION_ALWAYS => Some(refused),
        DELETE_PROTECTION_CASCADING if replicas > 0 => Some(format!("{refused} and replicas {replicas}>0")),
        _ => None,
    }
}
