//! JSON merge patches (RFC 7386): what has to be written so that one value becomes another.
//!
//! A typed object knows only the fields of this release, and whoever writes it back whole deletes the others. So controllers compare
//! two typed values and write the difference only: what neither of them knows stays as it is.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::read::{self, ReadError};

/// Returns the patch that turns one typed value into another; none when they say the same.
///
/// # Errors
///
/// Fails for a type that JSON cannot hold; the API has none.
pub fn changes<T: Serialize>(before: &T, after: &T) -> Result<Option<Value>, ReadError> {
    Ok(diff(&read::to_value(before)?, &read::to_value(after)?))
}

/// Returns the patch that turns one document into another; none when they are the same.
pub fn diff(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return Some(after.clone());
    };
    let gone = before
        .keys()
        .filter(|key| !after.contains_key(*key))
        .map(|key| (key.clone(), Value::Null));
    let changed = after.iter().filter_map(|(key, value)| {
        let patch = match before.get(key) {
            Some(old) => diff(old, value)?,
            None => value.clone(),
        };
        Some((key.clone(), patch))
    });
    Some(Value::Object(gone.chain(changed).collect()))
}

/// Applies a patch: what is there replaces, `null` removes, lists are replaced as a whole.
pub fn merge(json: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *json = patch.clone();
        return;
    };
    if !json.is_object() {
        *json = Value::Object(Map::new());
    }
    let Value::Object(json) = json else { return };
    for (key, value) in patch {
        if value.is_null() {
            json.remove(key);
        } else {
            merge(json.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::cloneset::v1beta1::CloneSet;

    const CLONESET: &str = include_str!("../tests/fixtures/documents/clonesets.v1beta1.json");

    #[test]
    fn given_two_typed_values_then_the_patch_says_how_they_differ() {
        let before: CloneSet = serde_json::from_str(CLONESET).unwrap();
        let mut after = before.clone();
        let status = after.status.as_mut().unwrap();
        status.replicas = 0;
        status.current_revision.clear();
        assert_eq!(changes(&before, &before).unwrap(), None);
        let wanted = json!({ "status": { "replicas": 0, "currentRevision": null } });
        assert_eq!(changes(&before, &after).unwrap(), Some(wanted));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..3).prop_map(Value::from),
            "[ab]?".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[abc]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_merge_patch_leads_from_one_document_to_the_other(before in any_json(), after in any_json()) {
            let mut patched = before.clone();
            if let Some(patch) = diff(&before, &after) {
                merge(&mut patched, &patch);
            }
            prop_assert_eq!(patched, after);
        }
    }
}
