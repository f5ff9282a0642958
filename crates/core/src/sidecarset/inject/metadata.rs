//! Annotations that a set puts on its Pods.
//!
//! | policy | effect on each key |
//! |---|---|
//! | `Retain`, or none | written when it is not there |
//! | `Overwrite` | written always |
//! | `MergePatchJson` | merged into the JSON that is there (RFC 7386), written as it is where there is nothing |

use super::InjectError;
use crate::shared::go_json;
use crate::shared::tree::{Object, child_or_new};
use kruise_api::sidecarset::{PatchPodMetadata, PatchPolicy};
use serde_json::Value;

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
    for patch in patches {
        for (key, value) in &patch.annotations {
            write(annotations, key, value, &patch.patch_policy).map_err(|reason| InjectError::Metadata {
                set: set.to_owned(),
                key: key.clone(),
                reason,
            })?;
        }
    }
    Ok(())
}

fn write(annotations: &mut Object, key: &str, value: &str, policy: &PatchPolicy) -> Result<(), String> {
    let there = annotations.get(key).and_then(Value::as_str);
    let new = match policy {
        PatchPolicy::Overwrite => value.to_owned(),
        PatchPolicy::MergePatchJson => match there {
            None | Some("") => value.to_owned(),
            Some(there) => merged(there, value)?,
        },
        _ if annotations.contains_key(key) => return Ok(()),
        _ => value.to_owned(),
    };
    annotations.insert(key.to_owned(), Value::String(new));
    Ok(())
}

fn merged(there: &str, patch: &str) -> Result<String, String> {
    let mut target: Value =
        serde_json::from_str(there).map_err(|error| format!("what the Pod has is not JSON: {error}"))?;
    let patch: Value = serde_json::from_str(patch).map_err(|error| format!("the patch is not JSON: {error}"))?;
    match patch {
        Value::Object(patch) => merge(&mut target, patch),
        Value::Array(_) => target = patch,
        _ => return Err("the patch is neither an object nor a list".to_owned()),
    }
    Ok(go_json::to_string(&target))
}

/// RFC 7386. Nothing recurses deeper than the reader of JSON does.
fn merge(target: &mut Value, patch: Object) {
    if !target.is_object() {
        *target = Value::Object(Object::new());
    }
    let Value::Object(fields) = target else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                fields.remove(&key);
            }
            Value::Object(patch) => merge(fields.entry(key).or_insert(Value::Null), patch),
            value => {
                fields.insert(key, value);
            }
        }
    }
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
