//! Kubernetes' strategic merge patch, applied to Pods and Pod templates by ourselves.
//!
//! - Maps are merged key by key; `null` removes. Everything else replaces what is there.
//! - Lists of containers, volumes and the like are merged by the key of their items; items that are not there yet come last. Finalizers are merged as texts.
//! - `$patch: replace` puts what follows in the place of what is there, `$patch: delete` removes it. `$deleteFromPrimitiveList/…` removes texts,
//!   `$setElementOrder/…` orders a list, `$retainKeys` keeps the named keys only.

use serde_json::{Map, Value};
use std::cmp::Ordering;

/// Why a patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The patch is no JSON object.
    #[error("invalid JSON document: a patch has to be an object")]
    NotAnObject,
    /// An item of a list cannot be told from others.
    #[error("an item of the list {list} has no {key}, by which its items are merged")]
    NoKey {
        /// Name of the list.
        list: String,
        /// The key that its items need.
        key: &'static str,
    },
    /// A directive that does not exist.
    #[error("unknown directive $patch: {0}")]
    Directive(String),
}

/// Lists whose items are merged, and by which key.
const MERGED: [(&str, &str); 15] = [
    ("conditions", "type"),
    ("containers", "name"),
    ("env", "name"),
    ("ephemeralContainers", "name"),
    ("hostAliases", "ip"),
    ("imagePullSecrets", "name"),
    ("initContainers", "name"),
    ("ownerReferences", "uid"),
    ("ports", "containerPort"),
    ("resourceClaims", "name"),
    ("schedulingGates", "name"),
    ("topologySpreadConstraints", "topologyKey"),
    ("volumeDevices", "devicePath"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];
/// The list of texts that is merged.
const FINALIZERS: &str = "finalizers";
const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// Applies a patch to a Pod or a Pod template.
///
/// # Errors
/// When the patch is none; the object may then have some of it.
pub fn apply(object: &mut Value, patch: &Value) -> Result<(), MergeError> {
    let patch = patch.as_object().ok_or(MergeError::NotAnObject)?;
    merge_field(object, patch)
}

/// Merges a map into whatever stands there.
fn merge_field(target: &mut Value, patch: &Map<String, Value>) -> Result<(), MergeError> {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    match target.as_object_mut() {
        Some(map) => merge(map, patch),
        None => Ok(()),
    }
}

fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), MergeError> {
    match directive(patch)? {
        Directive::Merge => {}
        Directive::Replace => {
            target.clear();
        }
        Directive::Delete => {
            target.clear();
            return Ok(());
        }
    }
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        match value {
            Value::Null => {
                target.remove(name);
            }
            Value::Object(value) => merge_field(target.entry(name.as_str()).or_insert(Value::Null), value)?,
            Value::Array(items) => {
                let list = target.entry(name.as_str()).or_insert(Value::Null);
                merge_list(name, list, items)?;
            }
            _ => {
                target.insert(name.clone(), value.clone());
            }
        }
    }
    for (name, value) in patch {
        let items = value.as_array().map_or(&[] as &[Value], Vec::as_slice);
        let list = |name: &str, prefix: &str| name.strip_prefix(prefix).map(str::to_owned);
        if let Some(name) = list(name, DELETE_FROM) {
            if let Some(list) = target.get_mut(&name).and_then(Value::as_array_mut) {
                list.retain(|item| !items.contains(item));
            }
        } else if let Some(name) = list(name, ORDER) {
            if let Some(list) = target.get_mut(&name).and_then(Value::as_array_mut) {
                order(list, items, key_of(&name));
            }
        }
    }
    if let Some(kept) = patch.get(RETAIN).and_then(Value::as_array) {
        target.retain(|name, _| kept.iter().any(|kept| kept == name));
    }
    Ok(())
}

fn merge_list(name: &str, target: &mut Value, items: &[Value]) -> Result<(), MergeError> {
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Value::Array(list) = target else { return Ok(()) };
    if name == FINALIZERS {
        for item in items {
            if !list.contains(item) {
                list.push(item.clone());
            }
        }
        return Ok(());
    }
    let Some(key) = key_of(name) else {
        *list = items.to_vec();
        return Ok(());
    };
    let replaces = |item: &Value| item.get(DIRECTIVE).is_some_and(|said| said == "replace") && item.get(key).is_none();
    if items.iter().any(replaces) {
        list.clear();
    }
    for item in items.iter().filter(|item| !replaces(item)) {
        merge_item(name, key, list, item)?;
    }
    Ok(())
}

fn merge_item(name: &str, key: &'static str, list: &mut Vec<Value>, item: &Value) -> Result<(), MergeError> {
    let no_key = || MergeError::NoKey {
        list: name.to_owned(),
        key,
    };
    let fields = item.as_object().ok_or_else(no_key)?;
    let id = fields.get(key).ok_or_else(no_key)?;
    let found = list.iter().position(|known| known.get(key) == Some(id));
    match (directive(fields)?, found) {
        (Directive::Delete, _) => list.retain(|known| known.get(key) != Some(id)),
        (_, Some(index)) => {
            if let Some(known) = list.get_mut(index) {
                merge_field(known, fields)?;
            }
        }
        (_, None) => {
            let mut new = Value::Null;
            merge_field(&mut new, fields)?;
            list.push(new);
        }
    }
    Ok(())
}

/// Brings the named items into their order; others stay behind them.
fn order(list: &mut [Value], wanted: &[Value], key: Option<&str>) {
    let place = |item: &Value| {
        let is_it = |wanted: &Value| match key {
            Some(key) => wanted.get(key).is_some() && wanted.get(key) == item.get(key),
            None => wanted == item,
        };
        wanted.iter().position(is_it)
    };
    list.sort_by(|one, other| match (place(one), place(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    });
}

fn key_of(list: &str) -> Option<&'static str> {
    MERGED.iter().find(|(name, _)| *name == list).map(|(_, key)| *key)
}

enum Directive {
    Merge,
    Replace,
    Delete,
}

fn directive(patch: &Map<String, Value>) -> Result<Directive, MergeError> {
    match patch.get(DIRECTIVE).map(|said| said.as_str().unwrap_or_default()) {
        None | Some("merge") => Ok(Directive::Merge),
        Some("replace") => Ok(Directive::Replace),
        Some("delete") => Ok(Directive::Delete),
        Some(other) => Err(MergeError::Directive(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn applied(mut object: Value, patch: &Value) -> Value {
        apply(&mut object, patch).unwrap();
        object
    }

    #[test]
    fn given_patches_then_pods_change_as_the_api_server_would_change_them() {
        let pod = json!({
            "metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x"]},
            "spec": {
                "priorityClassName": "low",
                "containers": [
                    {"name": "main", "image": "i:1", "env": [{"name": "A", "value": "1"}], "args": ["x"]},
                    {"name": "side", "image": "s:1", "ports": [{"containerPort": 80}]},
                ],
                "tolerations": [{"key": "t"}],
            },
        });
        for (what, patch, pointer, expected) in [
            (
                "maps merge",
                json!({"metadata": {"labels": {"b": null, "c": "3"}}}),
                "/metadata/labels",
                json!({"a": "1", "c": "3"}),
            ),
            (
                "items merge by their key",
                json!({"spec": {"containers": [{"name": "main", "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "9"}]}]}}),
                "/spec/containers/0",
                json!({"name": "main", "image": "i:1", "env": [{"name": "A", "value": "9"}, {"name": "B", "value": "2"}], "args": ["x"]}),
            ),
            (
                "new items come last, without their nulls",
                json!({"spec": {"containers": [{"name": "new", "image": "n", "args": null}]}}),
                "/spec/containers/2",
                json!({"name": "new", "image": "n"}),
            ),
            (
                "ports by their number",
                json!({"spec": {"containers": [{"name": "side", "ports": [{"containerPort": 81}]}]}}),
                "/spec/containers/1/ports",
                json!([{"containerPort": 80}, {"containerPort": 81}]),
            ),
            (
                "plain lists are replaced",
                json!({"spec": {"containers": [{"name": "main", "args": ["y", "z"]}]}}),
                "/spec/containers/0/args",
                json!(["y", "z"]),
            ),
            (
                "tolerations are a plain list",
                json!({"spec": {"tolerations": [{"key": "u"}]}}),
                "/spec/tolerations",
                json!([{"key": "u"}]),
            ),
            (
                "items can go",
                json!({"spec": {"containers": [{"name": "main", "$patch": "delete"}]}}),
                "/spec/containers/0/name",
                json!("side"),
            ),
            (
                "maps can be replaced",
                json!({"metadata": {"labels": {"$patch": "replace", "z": "26"}}}),
                "/metadata/labels",
                json!({"z": "26"}),
            ),
            (
                "lists can be replaced",
                json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "only"}]}}),
                "/spec/containers",
                json!([{"name": "only"}]),
            ),
            (
                "texts are merged",
                json!({"metadata": {"finalizers": ["y", "x"]}}),
                "/metadata/finalizers",
                json!(["x", "y"]),
            ),
            (
                "texts can go",
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}),
                "/metadata/finalizers",
                json!([]),
            ),
            (
                "items can be ordered",
                json!({"spec": {"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}]}}),
                "/spec/containers/0/name",
                json!("side"),
            ),
            (
                "only these keys",
                json!({"spec": {"$retainKeys": ["tolerations"]}}),
                "/spec",
                json!({"tolerations": [{"key": "t"}]}),
            ),
            (
                "a wrong type is replaced",
                json!({"spec": {"containers": "x"}}),
                "/spec/containers",
                json!("x"),
            ),
            (
                "a map where there was none",
                json!({"spec": {"nodeSelector": {"a": "b", "c": null}}}),
                "/spec/nodeSelector",
                json!({"a": "b"}),
            ),
            ("nothing", json!({}), "/spec/priorityClassName", json!("low")),
        ] {
            assert_eq!(applied(pod.clone(), &patch).pointer(pointer), Some(&expected), "{what}");
        }
    }

    #[test]
    fn given_what_is_no_patch_then_it_is_refused_with_a_reason() {
        for (patch, part) in [
            (json!("text"), "has to be an object"),
            (json!([]), "has to be an object"),
            (json!({"spec": {"containers": [{"image": "x"}]}}), "has no name"),
            (json!({"spec": {"containers": [7]}}), "has no name"),
            (json!({"spec": {"$patch": "burn"}}), "burn"),
        ] {
            let error = apply(&mut json!({"spec": {}}), &patch).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    fn anything() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i8>().prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
            Just(json!("replace")),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let key = prop_oneof![
                Just("name".to_owned()),
                Just("containers".to_owned()),
                Just("env".to_owned()),
                Just("$patch".to_owned()),
                Just("finalizers".to_owned()),
                Just("$setElementOrder/containers".to_owned()),
                Just("$retainKeys".to_owned()),
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key, inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn given_anything_then_no_panic_and_twice_is_as_once(object in anything(), patch in anything()) {
            let mut once = object;
            if apply(&mut once, &patch).is_ok() {
                let mut twice = once.clone();
                prop_assert!(apply(&mut twice, &patch).is_ok());
                prop_assert_eq!(once, twice);
            }
        }
    }
}
