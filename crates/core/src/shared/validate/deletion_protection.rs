//! Protection of objects against deletion by mistake, with gate `ResourcesDeletionProtection`.
//!
//! | label `policy.kruise.io/delete-protection` | may be deleted |
//! |---|---|
//! | `Always` | never |
//! | `Cascading` | when it has no children: replicas of a workload, active Pods and bound claims of a namespace, objects of a CRD |
//! | anything else, or none | yes |
//!
//! Services and Ingresses have no children. What is being deleted already is not kept from going.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::{
    gates::{Gate, Gates},
    names::label::{DELETE_PROTECTION, DELETE_PROTECTION_ALWAYS, DELETE_PROTECTION_CASCADING},
};

/// How an object is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    Always,
    /// While it has children.
    Cascading,
}

/// Returns how an object is protected.
pub fn protection(metadata: &ObjectMeta, gates: Gates) -> Option<Protection> {
    if !gates.enabled(Gate::ResourcesDeletionProtection) || metadata.deletion_timestamp.is_some() {
        return None;
    }
    match metadata.labels.as_ref()?.get(DELETE_PROTECTION)?.as_str() {
        DELETE_PROTECTION_ALWAYS => Some(Protection::Always),
        DELETE_PROTECTION_CASCADING => Some(Protection::Cascading),
        _ => None,
    }
}

/// Returns the refusal to delete an object that is always protected.
pub fn always() -> String {
    format!("{FORBIDDEN} {DELETE_PROTECTION}={DELETE_PROTECTION_ALWAYS}")
}

/// Returns the refusal to delete an object that has so many children; none when there are none.
pub fn has_children(children: &str, count: i64) -> Option<String> {
    (count > 0)
        .then(|| format!("{FORBIDDEN} {DELETE_PROTECTION}={DELETE_PROTECTION_CASCADING} and {children} {count}>0"))
}

/// Returns the refusal to delete an object whose children could not be listed.
pub fn unknown_children(children: &str, error: &str) -> String {
    format!("{FORBIDDEN} list {children} error: {error}")
}

/// Users look for these words.
const FORBIDDEN: &str = "forbidden by ResourcesProtectionDeletion for";

/// Returns why a workload may not be deleted.
pub fn refusal(metadata: &ObjectMeta, replicas: i32, gates: Gates) -> Option<String> {
    match protection(metadata, gates)? {
        Protection::Always => Some(always()),
        Protection::Cascading => has_children("replicas", replicas.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_labels_then_only_the_two_exact_words_protect() {
        let gates = Gates::default().with(Gate::ResourcesDeletionProtection, true);
        let labelled = |value: &str| serde_json::from_value(json!({"labels": {(DELETE_PROTECTION): value}})).unwrap();
        for (value, protects) in [
            ("Always", Some(Protection::Always)),
            ("Cascading", Some(Protection::Cascading)),
            ("always", None),
            ("", None),
        ] {
            assert_eq!(protection(&labelled(value), gates), protects, "{value}");
            assert_eq!(protection(&labelled(value), Gates::default()), None, "the gate is off");
        }
        let mut leaving: ObjectMeta = labelled("Always");
        leaving.deletion_timestamp = serde_json::from_value(json!("2024-05-01T10:00:00Z")).unwrap();
        assert_eq!(protection(&leaving, gates), None);
        let annotated: ObjectMeta =
            serde_json::from_value(json!({"annotations": {(DELETE_PROTECTION): "Always"}})).unwrap();
        assert_eq!(protection(&annotated, gates), None);
    }

    #[test]
    fn given_refusals_then_they_are_worded_as_tools_expect() {
        let start = "forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=";
        assert_eq!(always(), format!("{start}Always"));
        assert_eq!(
            has_children("replicas", 3),
            Some(format!("{start}Cascading and replicas 3>0"))
        );
        assert_eq!(has_children("active pods", 0), None);
        assert_eq!(
            unknown_children("pods", "no"),
            "forbidden by ResourcesProtectionDeletion for list pods error: no"
        );
    }
}
