//! Changing an object without losing what was not understood.
//!
//! A typed object knows only the fields of this release. Whoever writes it back whole deletes the others. A [`Document`]
//! keeps the JSON beside the typed view; [`Document::edit`] changes the view, carries over what changed, and answers with the
//! JSON merge patch that says just that. Fields, list elements and words of a newer release stay as they came, at any depth.
//!
//! Not for the cache: it costs the JSON on top of the type. Controllers that only set fields of their own compare two typed
//! values with [`changes`].

use std::ops::Deref;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::read::{self, ReadError};

/// An object, and the JSON it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Document<T> {
    json: Value,
    typed: T,
}

impl<T: Serialize + DeserializeOwned> Document<T> {
    /// Reads an object from JSON.
    pub fn read(json: &[u8]) -> Result<Self, ReadError> {
        Self::from_value(read::from_slice(json)?)
    }

    /// Takes an object that has been parsed already.
    pub fn from_value(json: Value) -> Result<Self, ReadError> {
        let typed = read::from_value(&json)?;
        Ok(Self { json, typed })
    }

    /// The object as JSON, with all that was not understood.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// Gives up the typed view.
    pub fn into_json(self) -> Value {
        self.json
    }

    /// Changes the object. The answer is a JSON merge patch of what changed; none when nothing did.
    ///
    /// List elements are recognised by their `name`, `key`, `type` or the like, otherwise by their place.
    pub fn edit(&mut self, change: impl FnOnce(&mut T)) -> Result<Option<Value>, ReadError> {
        let before = read::to_value(&self.typed)?;
        change(&mut self.typed);
        let after = read::to_value(&self.typed)?;
        let mut json = self.json.clone();
        carry_over(&mut json, &before, &after);
        let patch = merge_patch(&self.json, &json);
        self.json = json;
        Ok(patch)
    }
}

impl<T> Deref for Document<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.typed
    }
}

/// The JSON merge patch that turns one typed value into another; none when they say the same.
pub fn changes<T: Serialize>(before: &T, after: &T) -> Result<Option<Value>, ReadError> {
    Ok(merge_patch(&read::to_value(before)?, &read::to_value(after)?))
}

/// The JSON merge patch (RFC 7386) that turns one document into another; none when they are the same.
pub fn merge_patch(before: &Value, after: &Value) -> Option<Value> {
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
            Some(old) => merge_patch(old, value)?,
            None => value.clone(),
        };
        Some((key.clone(), patch))
    });
    Some(Value::Object(gone.chain(changed).collect()))
}

/// Applies a JSON merge patch (RFC 7386): what is there replaces, `null` removes, lists are replaced as a whole.
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

/// Writes the difference between two typed values into the JSON that the first one was read from.
fn carry_over(json: &mut Value, before: &Value, after: &Value) {
    if before == after {
        return;
    }
    match (json, before, after) {
        (Value::Object(json), Value::Object(before), Value::Object(after)) => carry_over_fields(json, before, after),
        (Value::Array(json), Value::Array(before), Value::Array(after)) if json.len() == before.len() => {
            *json = carry_over_elements(json, before, after);
        }
        (json, _, after) => *json = after.clone(),
    }
}

fn carry_over_fields(json: &mut Map<String, Value>, before: &Map<String, Value>, after: &Map<String, Value>) {
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        json.remove(key);
    }
    // A field that was empty is missing in `before`, yet the JSON may have it, with something unknown inside.
    let empty = Value::Object(Map::new());
    for (key, after) in after.iter().filter(|(key, after)| before.get(*key) != Some(after)) {
        match json.get_mut(key) {
            Some(json) => carry_over(json, before.get(key).unwrap_or(&empty), after),
            None => {
                json.insert(key.clone(), after.clone());
            }
        }
    }
}

/// Each element of the new list on top of the one it was before, where there was one.
fn carry_over_elements(json: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    let mut free: Vec<usize> = (0..before.len()).collect();
    let mut origins: Vec<Option<usize>> = vec![None; after.len()];
    let same_place = before.len() == after.len();

    // Unchanged elements first, so that a changed one cannot take their place.
    for matches in [PartialEq::eq, same_identity] as [fn(&Value, &Value) -> bool; 2] {
        for (origin, element) in origins.iter_mut().zip(after).filter(|(origin, _)| origin.is_none()) {
            let found = free
                .iter()
                .position(|&index| before.get(index).is_some_and(|old| matches(old, element)));
            *origin = found.map(|place| free.remove(place));
        }
    }
    for (index, origin) in origins
        .iter_mut()
        .enumerate()
        .filter(|(_, origin)| same_place && origin.is_none())
    {
        let found = free.iter().position(|&free| free == index);
        *origin = found.map(|place| free.remove(place));
    }

    let element = |(origin, after): (Option<usize>, &Value)| {
        let Some((json, before)) = origin.and_then(|index| json.get(index).zip(before.get(index))) else {
            return after.clone();
        };
        let mut json = json.clone();
        carry_over(&mut json, before, after);
        json
    };
    origins.into_iter().zip(after).map(element).collect()
}

/// The fields by which the API tells the elements of its lists apart.
const IDENTITY: &[&str] = &[
    "name",
    "key",
    "type",
    "uid",
    "tag",
    "volumeClaimName",
    "orderedKey",
    "state",
];

fn same_identity(one: &Value, other: &Value) -> bool {
    let identity = IDENTITY
        .iter()
        .find(|field| one.get(field).is_some() && other.get(field).is_some());
    identity.is_some_and(|field| one.get(field) == other.get(field))
}

#[cfg(test)]
mod tests;
