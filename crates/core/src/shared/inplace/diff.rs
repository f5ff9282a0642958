//! Where two JSON documents differ, as the original sees it.
//!
//! Objects are compared key by key, lists of objects position by position, other lists as a whole. A value where there was `null` is an addition.

use serde_json::Value;

/// What happened at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Replace,
    Remove,
}

/// A difference. The path has the keys and positions that lead to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference<'a> {
    pub(super) operation: Operation,
    pub(super) path: Vec<Step<'a>>,
    /// What is there now.
    pub(super) value: Option<&'a Value>,
}

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// All differences, in the order of the documents.
pub(super) fn differences<'a>(old: &'a Value, new: &'a Value) -> Vec<Difference<'a>> {
    let mut found = Vec::new();
    compare(Some(old), Some(new), &mut Vec::new(), &mut found);
    found
}

fn compare<'a>(
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    path: &mut Vec<Step<'a>>,
    found: &mut Vec<Difference<'a>>,
) {
    let operation = match (old, new) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            for (key, old) in before {
                within(Step::Key(key), path, |path| {
                    compare(Some(old), after.get(key), path, found);
                });
            }
            for (key, new) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
                within(Step::Key(key), path, |path| compare(None, Some(new), path, found));
            }
            return;
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) if before.iter().chain(after).any(Value::is_object) => {
            for index in 0..before.len().max(after.len()) {
                within(Step::Index(index), path, |path| {
                    compare(before.get(index), after.get(index), path, found);
                });
            }
            return;
        }
        (old, new) if old == new => return,
        (None | Some(Value::Null), Some(_)) => Operation::Add,
        (_, Some(_)) => Operation::Replace,
        (_, None) => Operation::Remove,
    };
    found.push(Difference {
        operation,
        path: path.clone(),
        value: new,
    });
}

fn within<'a>(step: Step<'a>, path: &mut Vec<Step<'a>>, visit: impl FnOnce(&mut Vec<Step<'a>>)) {
    path.push(step);
    visit(path);
    path.pop();
}

/// A path as users write it, `spec.template.spec.containers[0].image`.
pub(super) fn shown(path: &[Step<'_>]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) if key.contains(['.', '/']) => text.push_str(&format!("[{key}]")),
            Step::Key(key) => text.push_str(&format!(".{key}")),
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_are_found_where_the_original_finds_them() {
        use Operation::{Add, Remove, Replace};
        for (old, new, expected) in [
            (json!({"a": 1}), json!({"a": 1}), vec![]),
            (json!({"a": 1}), json!({"a": "1"}), vec![(Replace, "a")]),
            (json!({"a": null}), json!({"a": 1}), vec![(Add, "a")]),
            (json!({"a": 1}), json!({"a": null}), vec![(Replace, "a")]),
            (json!({"a": 1}), json!({"b": 1}), vec![(Remove, "a"), (Add, "b")]),
            (json!({"a": ["x", "y"]}), json!({"a": ["y"]}), vec![(Replace, "a")]),
            (
                json!({"a": [{"b": 1}]}),
                json!({"a": [{"b": 2}, {"b": 3}]}),
                vec![(Replace, "a[0].b"), (Add, "a[1]")],
            ),
            (
                json!({"a": [{"b": 1}, {}]}),
                json!({"a": [{"b": 1}]}),
                vec![(Remove, "a[1]")],
            ),
            (
                json!({"a": {"x/y": 1}}),
                json!({"a": {"x/y": 2}}),
                vec![(Replace, "a[x/y]")],
            ),
        ] {
            let found: Vec<_> = differences(&old, &new)
                .into_iter()
                .map(|difference| (difference.operation, shown(&difference.path)))
                .collect();
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(operation, path)| (operation, path.to_owned()))
                .collect();
            assert_eq!(found, expected, "{old} {new}");
        }
    }
}
