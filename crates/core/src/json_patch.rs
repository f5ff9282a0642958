//! JSON Patch (RFC 6902): the way a webhook tells the API server what to change.
//!
//! [`diff`] finds the operations that turn one document into another. Lists are compared from both ends, so that an item
//! put in or taken out anywhere is one operation. Where items were only put in, others stay as they are; else what stands between is compared position by
//! position.

use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// One step of a patch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Operation {
    Add { path: String, value: Value },
    Replace { path: String, value: Value },
    Remove { path: String },
}

/// The operations that turn `before` into `after`, of which they take what is new.
pub fn diff(before: &Value, mut after: Value) -> Vec<Operation> {
    let mut operations = Vec::new();
    compare(before, &mut after, &mut String::new(), &mut operations);
    operations
}

fn compare(before: &Value, after: &mut Value, path: &mut String, operations: &mut Vec<Operation>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => compare_objects(before, after, path, operations),
        (Value::Array(before), Value::Array(after)) => compare_lists(before, after, path, operations),
        (before, after) if before == after => {}
        (_, after) => operations.push(Operation::Replace {
            path: path.clone(),
            value: after.take(),
        }),
    }
}

fn compare_objects(
    before: &Map<String, Value>,
    after: &mut Map<String, Value>,
    path: &mut String,
    operations: &mut Vec<Operation>,
) {
    for (name, old) in before {
        within(path, name, |path| match after.get_mut(name) {
            Some(new) => compare(old, new, path, operations),
            None => operations.push(Operation::Remove { path: path.clone() }),
        });
    }
    for (name, new) in after.iter_mut().filter(|(name, _)| !before.contains_key(*name)) {
        within(path, name, |path| {
            operations.push(Operation::Add {
                path: path.clone(),
                value: new.take(),
            });
        });
    }
}

fn compare_lists(before: &[Value], after: &mut [Value], path: &mut String, operations: &mut Vec<Operation>) {
    let same = |pair: &(&Value, &Value)| pair.0 == pair.1;
    let start = before.iter().zip(after.iter()).take_while(same).count();
    let shorter = before.len().min(after.len());
    let end = before.iter().rev().zip(after.iter().rev());
    let end = end.take_while(same).count().min(shorter - start);
    let old = before.get(start..before.len() - end).unwrap_or_default();
    let new = start..after.len() - end;
    let new = after.get_mut(new).unwrap_or_default();

    if let Some(added) = put_in(old, new) {
        for (offset, value) in new.iter_mut().enumerate().filter(|(offset, _)| added.contains(offset)) {
            within(path, &(start + offset).to_string(), |path| {
                operations.push(Operation::Add {
                    path: path.clone(),
                    value: value.take(),
                });
            });
        }
        return;
    }
    for (offset, (old, new)) in old.iter().zip(new.iter_mut()).enumerate() {
        within(path, &(start + offset).to_string(), |path| {
            compare(old, new, path, operations);
        });
    }
    for index in (new.len()..old.len()).rev() {
        within(path, &(start + index).to_string(), |path| {
            operations.push(Operation::Remove { path: path.clone() });
        });
    }
    for (index, value) in new.iter_mut().enumerate().skip(old.len()) {
        within(path, &(start + index).to_string(), |path| {
            operations.push(Operation::Add {
                path: path.clone(),
                value: value.take(),
            });
        });
    }
}

/// The places of the items that `new` has more, when all of `old` is there in its order.
fn put_in(old: &[Value], new: &[Value]) -> Option<BTreeSet<usize>> {
    let mut rest = old.iter().peekable();
    let is_added = |(_, value): &(usize, &Value)| rest.next_if(|old| old == value).is_none();
    let added = new
        .iter()
        .enumerate()
        .filter(is_added)
        .map(|(place, _)| place)
        .collect();
    rest.next().is_none().then_some(added)
}

/// Calls `visit` with the path of a field or item below `path`.
fn within(path: &mut String, name: &str, visit: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    for sign in name.chars() {
        match sign {
            '~' => path.push_str("~0"),
            '/' => path.push_str("~1"),
            sign => path.push(sign),
        }
    }
    visit(path);
    path.truncate(length);
}

/// Does to `document` what one operation says. `false` when its path leads nowhere; the document is then as it was.
pub fn apply(document: &mut Value, operation: &Operation) -> bool {
    let (Operation::Add { path, .. } | Operation::Replace { path, .. } | Operation::Remove { path }) = operation;
    let Some((parent, last)) = path.rsplit_once('/') else {
        return match operation {
            Operation::Add { value, .. } | Operation::Replace { value, .. } => {
                *document = value.clone();
                true
            }
            Operation::Remove { .. } => false,
        };
    };
    let name = last.replace("~1", "/").replace("~0", "~");
    match document.pointer_mut(parent) {
        Some(Value::Object(fields)) => apply_to_field(fields, name, operation),
        Some(Value::Array(items)) => apply_to_item(items, &name, operation),
        _ => false,
    }
}

fn apply_to_field(fields: &mut Map<String, Value>, name: String, operation: &Operation) -> bool {
    match operation {
        Operation::Add { value, .. } => {
            fields.insert(name, value.clone());
            true
        }
        Operation::Replace { value, .. } => fields.get_mut(&name).map(|old| *old = value.clone()).is_some(),
        Operation::Remove { .. } => fields.remove(&name).is_some(),
    }
}

fn apply_to_item(items: &mut Vec<Value>, name: &str, operation: &Operation) -> bool {
    let index = match name {
        "-" => Some(items.len()),
        name => name.parse().ok(),
    };
    let Some(index) = index else { return false };
    match operation {
        Operation::Add { value, .. } if index <= items.len() => {
            items.insert(index, value.clone());
            true
        }
        Operation::Replace { value, .. } => items.get_mut(index).map(|old| *old = value.clone()).is_some(),
        Operation::Remove { .. } if index < items.len() => {
            items.remove(index);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
