//! Small moves on JSON objects: find, move and drop fields by path, without ever failing on a wrong type.
//!
//! A path is written as in the field lists of the API: `spec.subsets[].name` (list items), `status.podStates{}.nodeName`
//! (values of a map). A value of another type than the path expects is simply not there; nothing is overwritten to
//! make a path fit.

use serde_json::{Map, Value};

/// A JSON object as it came from the wire.
pub type Object = Map<String, Value>;

/// Calls `visit` for every object that `path` leads to, with the name of the path's last field, present or not.
pub fn each(object: &mut Object, path: &str, visit: &mut dyn FnMut(&mut Object, &str)) {
    let Some((head, rest)) = path.split_once('.') else {
        visit(object, path);
        return;
    };
    let (name, hops) = head.find(['[', '{']).map_or((head, ""), |at| head.split_at(at));
    if let Some(value) = object.get_mut(name) {
        hop(value, hops, rest, visit);
    }
}

fn hop(value: &mut Value, hops: &str, rest: &str, visit: &mut dyn FnMut(&mut Object, &str)) {
    match (value, hops.get(..2), hops.get(2..)) {
        (Value::Array(items), Some("[]"), Some(next)) => {
            for item in items {
                hop(item, next, rest, visit);
            }
        }
        (Value::Object(map), Some("{}"), Some(next)) => {
            for item in map.values_mut() {
                hop(item, next, rest, visit);
            }
        }
        (Value::Object(object), None, _) => each(object, rest, visit),
        _ => {}
    }
}

/// Removes the fields that `path` leads to.
pub fn drop_field(object: &mut Object, path: &str) {
    each(object, path, &mut |parent, name| {
        parent.remove(name);
    });
}

/// Removes what `path` leads to where it is an empty object.
pub fn drop_empty(object: &mut Object, path: &str) {
    each(object, path, &mut |parent, name| {
        if parent.get(name).and_then(Value::as_object).is_some_and(Map::is_empty) {
            parent.remove(name);
        }
    });
}

/// Renames the last field of `path` to `new`. What stood there is gone, also when there is nothing to rename.
pub fn rename(object: &mut Object, path: &str, new: &str) {
    each(object, path, &mut |parent, old| replace(parent, old, new));
}

/// Undoes [`rename`]: the same arguments, the other direction.
pub fn rename_back(object: &mut Object, path: &str, new: &str) {
    each(object, path, &mut |parent, old| replace(parent, new, old));
}

fn replace(parent: &mut Object, from: &str, to: &str) {
    parent.remove(to);
    if let Some(value) = parent.remove(from) {
        parent.insert(to.to_owned(), value);
    }
}

/// The object in field `name`, if it is one.
pub fn child<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    object.get_mut(name).and_then(Value::as_object_mut)
}

/// The object in field `name`, made when it is absent or null. `None` when something else stands there.
pub fn child_or_new<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    let value = object.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// Takes an object out of field `name`; leaves anything else there.
pub fn take_child(object: &mut Object, name: &str) -> Option<Object> {
    child(object, name)?;
    match object.remove(name) {
        Some(Value::Object(taken)) => Some(taken),
        _ => None,
    }
}

/// A label's or annotation's value: `map` is `"labels"` or `"annotations"`.
pub fn metadata<'a>(object: &'a Object, map: &str, name: &str) -> Option<&'a str> {
    object.get("metadata")?.get(map)?.get(name)?.as_str()
}

/// Sets a label or annotation.
pub fn set_metadata(object: &mut Object, map: &str, name: &str, value: String) {
    if let Some(entries) = child_or_new(object, "metadata").and_then(|metadata| child_or_new(metadata, map)) {
        entries.insert(name.to_owned(), Value::String(value));
    }
}

/// Writes a value where there is none, or an empty text where a text belongs. Says whether there was anything to write.
pub fn fill(object: &mut Object, name: &str, value: Value) -> bool {
    if object.get(name).and_then(Value::as_str) == Some("") && value.is_string() {
        object.remove(name);
    }
    fill_missing(object, name, value)
}

/// Writes a value where there is none. Says whether there was anything to write.
pub fn fill_missing(object: &mut Object, name: &str, value: Value) -> bool {
    let missing = object.get(name).is_none_or(Value::is_null);
    if missing {
        object.insert(name.to_owned(), value);
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        match value {
            Value::Object(object) => object,
            other => panic!("not an object: {other}"),
        }
    }

    #[test]
    fn paths_lead_through_lists_and_maps() {
        let mut tree = object(json!({"a": {"x": [{"b": 1}, {"b": 2, "c": 3}], "y": "text", "z": [[{"b": 4}]]}}));
        drop_field(&mut tree, "a{}[].b");
        assert_eq!(
            tree,
            object(json!({"a": {"x": [{}, {"c": 3}], "y": "text", "z": [[{"b": 4}]]}}))
        );
        rename(&mut tree, "a.x[].c", "d");
        drop_field(&mut tree, "a.z[][].b");
        assert_eq!(
            tree,
            object(json!({"a": {"x": [{}, {"d": 3}], "y": "text", "z": [[{}]]}}))
        );
        rename_back(&mut tree, "a.x[].c", "d");
        assert_eq!(
            tree,
            object(json!({"a": {"x": [{}, {"c": 3}], "y": "text", "z": [[{}]]}}))
        );
    }

    #[test]
    fn a_value_of_another_type_is_left_alone() {
        let mut tree = object(json!({"a": "text", "b": null, "c": {}}));
        for path in ["a.x", "a[].x", "b.x", "a{}.x", "c[].x", "c.x"] {
            drop_field(&mut tree, path);
            rename(&mut tree, path, "y");
        }
        drop_empty(&mut tree, "a");
        assert!(child_or_new(&mut tree, "a").is_none());
        assert!(take_child(&mut tree, "a").is_none());
        assert_eq!(tree, object(json!({"a": "text", "b": null, "c": {}})));
        assert!(child_or_new(&mut tree, "b").is_some());
        drop_empty(&mut tree, "c");
        assert_eq!(tree, object(json!({"a": "text", "b": {}})));
    }
}
