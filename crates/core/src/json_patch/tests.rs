use super::*;
use proptest::prelude::*;
use serde_json::json;

fn patch(before: &Value, after: &Value) -> Value {
    serde_json::to_value(diff(before, after.clone())).unwrap()
}

#[test]
fn given_equal_documents_then_there_is_nothing_to_do() {
    let document = json!({"a": [1, {"b": null}], "c": "x"});
    assert_eq!(diff(&document, document.clone()), []);
}

#[test]
fn fields_are_added_replaced_and_removed() {
    assert_eq!(
        patch(
            &json!({"a": 1, "b": {"x": 1, "y": 2}, "c": []}),
            &json!({"b": {"x": 3, "y": 2}, "c": [], "d/e~f": 1})
        ),
        json!([
            {"op": "remove", "path": "/a"},
            {"op": "replace", "path": "/b/x", "value": 3},
            {"op": "add", "path": "/d~1e~0f", "value": 1},
        ])
    );
    assert_eq!(
        patch(&json!({"a": {}}), &json!({"a": []})),
        json!([{"op": "replace", "path": "/a", "value": []}])
    );
}

#[test]
fn given_an_item_is_put_in_or_taken_out_anywhere_then_that_is_one_operation() {
    for (before, after, operation) in [
        (
            json!([1, 2]),
            json!([0, 1, 2]),
            json!({"op": "add", "path": "/0", "value": 0}),
        ),
        (
            json!([1, 2]),
            json!([1, 0, 2]),
            json!({"op": "add", "path": "/1", "value": 0}),
        ),
        (
            json!([1, 2]),
            json!([1, 2, 0]),
            json!({"op": "add", "path": "/2", "value": 0}),
        ),
        (json!([1, 2, 3]), json!([1, 3]), json!({"op": "remove", "path": "/1"})),
        (json!([1, 1]), json!([1]), json!({"op": "remove", "path": "/1"})),
        (
            json!([{"a": 1}, {"b": 1}]),
            json!([{"a": 1}, {"b": 2}]),
            json!({"op": "replace", "path": "/1/b", "value": 2}),
        ),
    ] {
        assert_eq!(patch(&before, &after), json!([operation]));
    }
}

#[test]
fn given_items_put_in_on_both_sides_and_between_then_the_others_stay() {
    let add = |place: usize, value: Value| json!({"op": "add", "path": format!("/{place}"), "value": value});
    assert_eq!(
        patch(
            &json!([{"name": "a", "x": 1}, {"name": "b"}]),
            &json!([1, {"name": "a", "x": 1}, 2, 3, {"name": "b"}, 4])
        ),
        json!([add(0, json!(1)), add(2, json!(2)), add(3, json!(3)), add(5, json!(4))])
    );
    assert_eq!(
        patch(&json!([1, 2]), &json!([0, 2, 1, 3])),
        json!([
            {"op": "replace", "path": "/0", "value": 0}, add(2, json!(1)), add(3, json!(3)),
        ])
    );
}

#[test]
fn given_a_path_that_leads_nowhere_then_nothing_is_changed() {
    let document = json!({"a": [1], "b": 1});
    for operation in [
        Operation::Remove { path: "/x".into() },
        Operation::Remove { path: "/a/1".into() },
        Operation::Remove { path: String::new() },
        Operation::Replace {
            path: "/x".into(),
            value: json!(1),
        },
        Operation::Replace {
            path: "/a/-".into(),
            value: json!(1),
        },
        Operation::Add {
            path: "/x/y".into(),
            value: json!(1),
        },
        Operation::Add {
            path: "/a/2".into(),
            value: json!(1),
        },
        Operation::Add {
            path: "/a/x".into(),
            value: json!(1),
        },
        Operation::Add {
            path: "/b/c".into(),
            value: json!(1),
        },
    ] {
        let mut changed = document.clone();
        assert!(!apply(&mut changed, &operation), "{operation:?}");
        assert_eq!(changed, document);
    }
}

/// Documents that look alike: few names, few values, lists that repeat.
fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_i32).prop_map(Value::from),
        prop_oneof!["", "a", "a/b", "~", "é"].prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map(prop_oneof!["a", "b", "c/d", "~0", "0", "-", ""], inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn given_any_two_documents_then_the_patch_turns_one_into_the_other((before, after) in (documents(), documents())) {
        let operations = diff(&before, after.clone());
        let mut ours = before.clone();
        for operation in &operations {
            prop_assert!(apply(&mut ours, operation), "{operation:?} on {ours}");
        }
        prop_assert_eq!(&ours, &after);

        let patch: json_patch::Patch = serde_json::from_value(serde_json::to_value(&operations).unwrap()).unwrap();
        let mut theirs = before;
        json_patch::patch(&mut theirs, &patch).unwrap();
        prop_assert_eq!(theirs, after);
    }
}
