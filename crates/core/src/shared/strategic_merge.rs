//! Kubernetes' own kind of patch, for a Pod template: like a JSON merge patch, but lists of things with names are merged by name.
//!
//! - An item that is there is merged with the one of its key in the patch; one that is not comes before those that the patch does not mention.
//!   What is not in this module's table is replaced as a whole.
//! - `null` removes a field. `$patch: delete` removes an item or an object, `$patch: replace` puts what follows in its place.
//! - `$deleteFromPrimitiveList/f` takes texts out of list `f`, `$retainKeys` drops all other fields, `$setElementOrder/f` gives the order.
//! - A patch that is no object changes nothing, [`apply`] says so.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::tree::Object;

const PATCH: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_TEXTS: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// How a list is merged.
#[derive(Clone, Copy)]
enum By {
    /// Its items are told apart by this field.
    Key(&'static str),
    /// It is a set of texts.
    Text,
}

/// Lists of a Pod template that are merged, by the name of the field.
fn rule(field: &str) -> Option<By> {
    Some(match field {
        "conditions" => By::Key("type"),
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "resourceClaims"
        | "schedulingGates"
        | "secrets" => By::Key("name"),
        "ports" => By::Key("containerPort"),
        "volumeMounts" => By::Key("mountPath"),
        "volumeDevices" => By::Key("devicePath"),
        "hostAliases" => By::Key("ip"),
        "topologySpreadConstraints" => By::Key("topologyKey"),
        "ownerReferences" => By::Key("uid"),
        "finalizers" => By::Text,
        _ => return None,
    })
}

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

/// Applies a patch that a user wrote to a Pod or a Pod template.
///
/// # Errors
/// When the patch is none. The object is as it was then.
pub fn apply(object: &mut Value, patch: &Value) -> Result<(), MergeError> {
    check(patch.as_object().ok_or(MergeError::NotAnObject)?)?;
    merge(object, patch);
    Ok(())
}

fn check(patch: &Object) -> Result<(), MergeError> {
    if let Some(word) = patch.get(PATCH)
        && !matches!(word.as_str(), Some("merge" | "replace" | "delete"))
    {
        return Err(MergeError::Directive(word.as_str().unwrap_or_default().to_owned()));
    }
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        match (value, rule(name)) {
            (Value::Object(inner), _) => check(inner)?,
            (Value::Array(items), Some(By::Key(key))) => {
                for item in items {
                    let fields = item.as_object();
                    let replaces = fields.is_some_and(|item| directive(item) == Some("replace"));
                    let fields = fields.filter(|item| replaces || item.contains_key(key));
                    let list = name.clone();
                    check(fields.ok_or(MergeError::NoKey { list, key })?)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Applies a patch to a Pod template.
pub fn merge(template: &mut Value, patch: &Value) {
    if let Value::Object(patch) = patch {
        merge_object(template, patch);
    }
}

fn directive(patch: &Object) -> Option<&str> {
    patch.get(PATCH).and_then(Value::as_str)
}

/// The patch as what it says, for a place where nothing is yet.
fn plain(patch: &Value) -> Value {
    match patch {
        Value::Object(_) => {
            let mut made = Value::Null;
            merge(&mut made, patch);
            made
        }
        other => other.clone(),
    }
}

fn merge_object(target: &mut Value, patch: &Object) {
    match directive(patch) {
        Some("delete") => {
            *target = Value::Object(Map::new());
            return;
        }
        Some("replace") => {
            let fields = patch
                .iter()
                .filter(|(name, value)| !name.starts_with('$') && !value.is_null());
            *target = Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect());
            return;
        }
        _ => {}
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    if let Some(kept) = patch.get(RETAIN).and_then(Value::as_array) {
        fields.retain(|name, _| kept.iter().any(|kept| kept == name));
    }
    for (name, value) in patch {
        if let Some(field) = name.strip_prefix(DELETE_TEXTS) {
            if let (Some(list), Value::Array(gone)) = (fields.get_mut(field).and_then(Value::as_array_mut), value) {
                list.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if name.starts_with('$') {
            continue;
        }
        match (value, rule(name)) {
            (Value::Null, _) => {
                fields.remove(name);
            }
            (Value::Object(inner), _) if directive(inner) == Some("delete") => {
                fields.remove(name);
            }
            (Value::Object(inner), _) => merge_object(fields.entry(name.clone()).or_insert(Value::Null), inner),
            (Value::Array(items), Some(by)) => {
                let list = fields.entry(name.clone()).or_insert(Value::Null);
                let old = list.as_array().cloned().unwrap_or_default();
                let order = patch.get(&format!("{ORDER}{name}")).and_then(Value::as_array);
                *list = Value::Array(merge_list(&old, items, by, order));
            }
            (other, _) => {
                fields.insert(name.clone(), other.clone());
            }
        }
    }
}

fn key_of(item: &Value, by: By) -> Option<&Value> {
    match by {
        By::Key(field) => item.get(field),
        By::Text => Some(item),
    }
}

fn merge_list(old: &[Value], items: &[Value], by: By, order: Option<&Vec<Value>>) -> Vec<Value> {
    let directive_of = |item: &Value| item.as_object().and_then(directive).map(str::to_owned);
    let replaces = items
        .iter()
        .any(|item| directive_of(item).as_deref() == Some("replace") && key_of(item, by).is_none());
    let mut kept = if replaces { Vec::new() } else { old.to_vec() };
    let mut patched: Vec<Value> = Vec::new();
    for item in items {
        let key = key_of(item, by);
        let word = directive_of(item);
        if word.as_deref() == Some("delete") {
            kept.retain(|known| key.is_none() || key_of(known, by) != key);
            continue;
        }
        if word.as_deref() == Some("replace") && key.is_none() {
            continue;
        }
        let at = kept.iter().position(|known| key.is_some() && key_of(known, by) == key);
        let mut merged = at.map(|at| kept.remove(at));
        match (&mut merged, item) {
            (Some(known), Value::Object(patch)) => merge_object(known, patch),
            (Some(_), _) => {}
            (None, item) => merged = Some(plain(item)),
        }
        patched.extend(merged);
    }
    if let Some(order) = order {
        let wanted = |item: &Value| {
            order
                .iter()
                .position(|wanted| key_of(wanted, by).is_some() && key_of(wanted, by) == key_of(item, by))
        };
        patched.sort_by(|one, other| match (wanted(one), wanted(other)) {
            (Some(one), Some(other)) => one.cmp(&other),
            _ => Ordering::Equal,
        });
    }
    interleave(patched, kept, old, by)
}

/// Items of the patch keep their order, and so do the others; where both were there before, the earlier one comes first.
fn interleave(patched: Vec<Value>, others: Vec<Value>, old: &[Value], by: By) -> Vec<Value> {
    let place = |item: &Value| old.iter().position(|known| key_of(known, by) == key_of(item, by));
    let mut all = Vec::with_capacity(patched.len() + others.len());
    let mut others = others.into_iter().peekable();
    for item in patched {
        if let Some(at) = place(&item) {
            while let Some(other) = others.next_if(|other| place(other).is_some_and(|before| before < at)) {
                all.push(other);
            }
        }
        all.push(item);
    }
    all.extend(others);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn given_patches_then_lists_are_merged_by_their_keys() {
        for (template, patch, expected) in [
            (
                json!({"spec": {"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}]}}),
                json!({"spec": {"containers": [{"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}]}]}}),
                json!({"spec": {"containers": [
                    {"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]}, {"name": "b"}
                ]}}),
            ),
            // A new container comes first, as kubectl shows it.
            (
                json!({"spec": {"containers": [{"name": "a"}]}}),
                json!({"spec": {"containers": [{"name": "new"}]}}),
                json!({"spec": {"containers": [{"name": "new"}, {"name": "a"}]}}),
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}}),
                json!({"spec": {"containers": [{"name": "c", "image": "1"}, {"name": "a", "$patch": "delete"}]}}),
                json!({"spec": {"containers": [{"name": "b"}, {"name": "c", "image": "1"}]}}),
            ),
            // Lists without keys, and lists of unlike things, are replaced.
            (
                json!({"spec": {"tolerations": [{"key": "a"}], "containers": [{"name": "a", "args": ["1", "2"]}]}}),
                json!({"spec": {"tolerations": [{"key": "b"}], "containers": [{"name": "a", "args": ["3"]}]}}),
                json!({"spec": {"tolerations": [{"key": "b"}], "containers": [{"name": "a", "args": ["3"]}]}}),
            ),
            (
                json!({"metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x"]}}),
                json!({"metadata": {"labels": {"a": null, "c": "3"}, "finalizers": ["y", "x"], "$deleteFromPrimitiveList/finalizers": []}}),
                json!({"metadata": {"labels": {"b": "2", "c": "3"}, "finalizers": ["y", "x"]}}),
            ),
            (
                json!({"spec": {"nodeSelector": {"a": "1"}, "volumes": [{"name": "v", "emptyDir": {}}]}}),
                json!({"spec": {"nodeSelector": {"$patch": "replace", "b": "2"}, "volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}}),
                json!({"spec": {"nodeSelector": {"b": "2"}, "volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}),
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}]}}),
                json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "b"}]}}),
                json!({"spec": {"containers": [{"name": "b"}]}}),
            ),
            (
                json!({"spec": {"affinity": {"nodeAffinity": {}}}}),
                json!({"spec": {"affinity": {"$patch": "delete"}, "new": {"deep": {"gone": null}}}}),
                json!({"spec": {"new": {"deep": {}}}}),
            ),
            (json!({"a": 1}), json!("text"), json!({"a": 1})),
        ] {
            let mut merged = template.clone();
            merge(&mut merged, &patch);
            assert_eq!(merged, expected, "{template} {patch}");
        }
    }

    #[test]
    fn given_an_order_then_items_of_the_patch_follow_it() {
        let mut template = json!({"spec": {"containers": [{"name": "a"}]}});
        let patch = json!({"spec": {
            "containers": [{"name": "c"}, {"name": "b"}],
            "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}],
        }});
        merge(&mut template, &patch);
        assert_eq!(
            template,
            json!({"spec": {"containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}]}})
        );
    }

    #[test]
    fn given_what_is_no_patch_then_it_is_refused_with_a_reason_and_changes_nothing() {
        for (patch, part) in [
            (json!("text"), "has to be an object"),
            (json!([]), "has to be an object"),
            (json!({"spec": {"containers": [{"image": "x"}]}}), "has no name"),
            (json!({"spec": {"containers": [7]}}), "has no name"),
            (json!({"spec": {"$patch": "burn"}}), "burn"),
        ] {
            let mut object = json!({"spec": {}});
            let error = apply(&mut object, &patch).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert_eq!(object, json!({"spec": {}}));
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
        fn given_anything_then_nothing_panics(object in anything(), patch in anything()) {
            let mut object = object;
            let _ = apply(&mut object, &patch);
            merge(&mut object, &patch);
        }
    }
}
