//! How recordings of the original are written down: the first state of an object as a whole, later ones as what differs.

use serde_json::Value;

/// Goes from one state to the next, as a merge patch does it. Other than there, lists and objects of a new state may be empty, and a change that is nothing
/// changes nothing.
pub fn merge(state: &mut Value, change: &Value) {
    match (state, change) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (name, change) in changes {
                match fields.get_mut(name) {
                    _ if change.is_null() => drop(fields.remove(name)),
                    Some(field) => merge(field, change),
                    None => drop(fields.insert(name.clone(), change.clone())),
                }
            }
        }
        (_, Value::Null) => {}
        (state, change) => *state = change.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_changes_then_fields_come_go_and_become_others() {
        let mut state = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        for (change, then) in [
            (json!(null), json!({"a": {"b": 1, "c": 2}, "d": [1]})),
            (
                json!({"a": {"b": null}, "e": {}}),
                json!({"a": {"c": 2}, "d": [1], "e": {}}),
            ),
            (json!({"d": [2, 3], "a": null}), json!({"d": [2, 3], "e": {}})),
            (json!("gone"), json!("gone")),
        ] {
            merge(&mut state, &change);
            assert_eq!(state, then, "after {change}");
        }
    }
}
