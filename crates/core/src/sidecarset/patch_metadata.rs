//! Annotations that a SidecarSet puts on Pods.
//!
//! - `Retain`, also when nothing or something unknown is said: only where the Pod does not have the key.
//! - `Overwrite`: always.
//! - `MergePatchJson`: the value is merged into the one that is there (RFC 7386). Both have to be JSON, and the new one an object or a list.

use std::collections::BTreeMap;

use kruise_api::merge_patch;
use kruise_api::sidecarset::{PatchPodMetadata, PatchPolicy};
use serde_json::Value;
use thiserror::Error;

use crate::shared::go_json;

/// What cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("annotation {key}: {reason}")]
pub struct Fault {
    /// Key of the annotation.
    pub key: String,
    /// Why.
    pub reason: String,
}

/// Returns the annotations that change; `present` are those of the Pod.
///
/// # Errors
/// When something is to be merged that is not JSON.
pub fn changes(
    patches: &[PatchPodMetadata],
    present: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Fault> {
    let mut changed: BTreeMap<String, String> = BTreeMap::new();
    for patch in patches {
        for (key, value) in &patch.annotations {
            let before = changed.get(key).or_else(|| present.get(key));
            let after = match (&patch.patch_policy, before) {
                (PatchPolicy::Overwrite, _) | (_, None) => value.clone(),
                (PatchPolicy::MergePatchJson, Some(before)) if before.is_empty() => value.clone(),
                (PatchPolicy::MergePatchJson, Some(before)) => merged(before, value).map_err(|reason| Fault {
                    key: key.clone(),
                    reason,
                })?,
                (_, Some(_)) => continue,
            };
            if before != Some(&after) {
                changed.insert(key.clone(), after);
            }
        }
    }
    Ok(changed)
}

/// Whether more has to be known of a Pod than what the cache keeps.
pub fn looks_at_annotations(patches: &[PatchPodMetadata]) -> bool {
    patches
        .iter()
        .any(|patch| patch.patch_policy != PatchPolicy::Overwrite && !patch.annotations.is_empty())
}

fn merged(before: &str, patch: &str) -> Result<String, String> {
    let read = |what: &str, text: &str| {
        serde_json::from_str::<Value>(text).map_err(|error| format!("{what} is not JSON: {error}"))
    };
    let mut value = read("the value", before)?;
    let patch = read("the patch", patch)?;
    if !patch.is_object() && !patch.is_array() {
        return Err("the patch is neither an object nor a list".to_owned());
    }
    merge_patch::merge(&mut value, &patch);
    Ok(go_json::to_string(&value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(policy: &str, before: Option<&str>, value: &str) -> Result<Option<String>, Fault> {
        let patches: Vec<PatchPodMetadata> =
            serde_json::from_value(json!([{"annotations": {"k": value}, "patchPolicy": policy}])).unwrap();
        let present = before.map(|before| ("k".to_owned(), before.to_owned()));
        changes(&patches, &present.into_iter().collect()).map(|mut changed| changed.remove("k"))
    }

    #[test]
    fn annotations_follow_their_policy() {
        for (policy, before, value, after) in [
            ("Retain", None, "1", Some("1")),
            ("Retain", Some("0"), "1", None),
            ("", Some("0"), "1", None),
            ("Unheard", Some("0"), "1", None),
            ("Overwrite", Some("0"), "1", Some("1")),
            ("Overwrite", Some("1"), "1", None),
            ("MergePatchJson", None, "anything", Some("anything")),
            ("MergePatchJson", Some(""), "anything", Some("anything")),
            (
                "MergePatchJson",
                Some(r#"{"a":1}"#),
                r#"{"b": 2}"#,
                Some(r#"{"a":1,"b":2}"#),
            ),
            ("MergePatchJson", Some(r#"{"a":1}"#), r#"{"a":null}"#, Some("{}")),
        ] {
            assert_eq!(
                patched(policy, before, value),
                Ok(after.map(str::to_owned)),
                "{policy} {before:?} {value}"
            );
        }
        for (before, value) in [("x", "{}"), ("{}", "x"), ("{}", "1")] {
            assert!(
                patched("MergePatchJson", Some(before), value).is_err(),
                "{before} {value}"
            );
        }
    }
}
