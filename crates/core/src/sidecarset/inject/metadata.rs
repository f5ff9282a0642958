//! Annotations that a set puts on its Pods.
//!
//! | policy | effect on each key |
//! |---|---|
//! | `Retain`, or none | written when it is not there |
//! | `Overwrite` | written always |
//! | `MergePatchJson` | merged into the JSON that is there (RFC 7386), written as it is where there is nothing |

use super::InjectError;
use crate::shared::tree::child_or_new;
use crate::sidecarset::patch_metadata::changes;
use kruise_api::sidecarset::PatchPodMetadata;
use serde_json::Value;
use std::collections::BTreeMap;

/// Writes the annotations of a set to a Pod.
///
/// # Errors
/// When something is to be merged that is not JSON.
pub fn patch(pod: &mut Value, set: &str, patches: &[PatchPodMetadata]) -> Result<(), InjectError> {
    if patches.iter().all(|patch| patch.annotations.is_empty()) {
        return Ok(());
    }
    let Some(annotations) = pod
        .as_object_mut()
        .and_then(|pod| child_or_new(pod, "metadata"))
        .and_then(|metadata| child_or_new(metadata, "annotations"))
    else {
        return Ok(());
    };
    let keys = patches.iter().flat_map(|patch| patch.annotations.keys());
    let present: BTreeMap<String, String> = keys
        .filter_map(|key| Some((key.clone(), annotations.get(key)?.as_str()?.to_owned())))
        .collect();
    let changed = changes(patches, &present).map_err(|fault| InjectError::Metadata {
        set: set.to_owned(),
        key: fault.key,
        reason: fault.reason,
    })?;
    annotations.extend(changed.into_iter().map(|(key, value)| (key, Value::String(value))));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_a_policy_then_an_annotation_is_kept_overwritten_or_merged() {
        for (there, value, policy, expected) in [
            (None, "x", "Retain", Some("x")),
            (Some("a"), "x", "Retain", Some("a")),
            (Some(""), "x", "", Some("")),
            (Some("a"), "x", "Overwrite", Some("x")),
            (
                Some(r#"{"a":1}"#),
                r#"{"b":2}"#,
                "MergePatchJson",
                Some(r#"{"a":1,"b":2}"#),
            ),
            (
                Some(r#"{"a":{"c":1,"d":2}}"#),
                r#"{ "a": {"c": null} }"#,
                "MergePatchJson",
                Some(r#"{"a":{"d":2}}"#),
            ),
            (None, "{ verbatim", "MergePatchJson", Some("{ verbatim")),
            (Some(""), r#"{ "b": 2 }"#, "MergePatchJson", Some(r#"{ "b": 2 }"#)),
            (Some("text"), r#"{"b":2}"#, "MergePatchJson", None),
            (Some("{}"), "text", "MergePatchJson", None),
            (Some("{}"), "1", "MergePatchJson", None),
            (Some(r#"{"a":"<"}"#), "[1]", "MergePatchJson", Some("[1]")),
        ] {
            let mut pod = json!({"metadata": {}});
            if let Some(there) = there {
                pod["metadata"]["annotations"] = json!({"k": there});
            }
            let patches: Vec<PatchPodMetadata> =
                serde_json::from_value(json!([{"annotations": {"k": value}, "patchPolicy": policy}])).unwrap();
            let done = patch(&mut pod, "log", &patches);
            let found = done
                .is_ok()
                .then(|| pod["metadata"]["annotations"]["k"].as_str().unwrap());
            assert_eq!(found, expected, "{there:?} {value} {policy}");
        }
    }

    #[test]
    fn given_nothing_to_write_then_no_empty_map_appears() {
        let mut pod = json!({"metadata": {}});
        patch(&mut pod, "log", &[PatchPodMetadata::default()]).unwrap();
        assert_eq!(pod, json!({"metadata": {}}));
    }
}
