use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::cloneset::v1beta1::{CloneSet, RollingUpdate};
use crate::shared::scatter::ScatterTerm;
use crate::sidecarset::v1beta1::SidecarSet;
use crate::uniteddeployment::v1beta1::UnitedDeployment;

const CLONESET: &str = include_str!("../../tests/fixtures/documents/clonesets.v1beta1.json");
const SIDECARSET: &str = include_str!("../../tests/fixtures/documents/sidecarsets.v1beta1.json");
const UNITED: &str = include_str!("../../tests/fixtures/documents/uniteddeployments.v1beta1.json");

/// An object as a newer release might have written it: with a field of its own in every structure.
fn from_tomorrow(json: &str) -> Value {
    fn mark(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.values_mut().for_each(mark);
                // Where every key is the user's, a field cannot be new.
                if !map.values().all(|value| value.is_string() || value.is_i64()) || map.contains_key("type") {
                    map.insert("fieldOfTomorrow".to_owned(), json!({ "a": [1, null] }));
                }
            }
            Value::Array(list) => list.iter_mut().for_each(mark),
            _ => {}
        }
    }
    let mut value = serde_json::from_str(json).unwrap();
    mark(&mut value);
    value
}

/// What the API server does with a merge patch.
fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            apply(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// Edits the object, and checks that the outcome is what the same edit of the JSON gives, and that the patch says the same.
fn check<T: Serialize + DeserializeOwned>(
    json: &str,
    edit: impl FnOnce(&mut T),
    edit_json: impl FnOnce(&mut Value),
) -> Option<Value> {
    let before = from_tomorrow(json);
    let mut wanted = before.clone();
    edit_json(&mut wanted);

    let mut document: Document<T> = Document::from_value(before.clone()).unwrap();
    let patch = document.edit(edit).unwrap();
    assert_eq!(document.json(), &wanted);

    let mut patched = before;
    if let Some(patch) = &patch {
        apply(&mut patched, patch);
    }
    assert_eq!(patched, wanted, "{patch:?}");
    patch
}

fn rolling(object: &mut CloneSet) -> &mut RollingUpdate {
    object.spec.update_strategy.rolling_update.as_mut().unwrap()
}

#[test]
fn given_no_change_then_there_is_no_patch() {
    assert_eq!(check::<CloneSet>(CLONESET, |_| {}, |_| {}), None);
    assert_eq!(check::<SidecarSet>(SIDECARSET, |_| {}, |_| {}), None);
    assert_eq!(check::<UnitedDeployment>(UNITED, |_| {}, |_| {}), None);
}

#[test]
fn given_a_changed_field_then_the_patch_has_just_that_field() {
    let patch = check::<CloneSet>(
        CLONESET,
        |object| rolling(object).partition = Some(2.into()),
        |json| json["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(2),
    );
    assert_eq!(
        patch,
        Some(json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 2 } } } }))
    );
}

#[test]
fn given_a_field_that_was_missing_then_it_is_added() {
    let patch = check::<SidecarSet>(
        SIDECARSET,
        |object| object.status.as_mut().unwrap().collision_count = Some(7),
        |json| json["status"]["collisionCount"] = json!(7),
    );
    assert_eq!(patch, Some(json!({ "status": { "collisionCount": 7 } })));
}

#[test]
fn given_a_field_that_is_emptied_then_it_is_removed() {
    let patch = check::<CloneSet>(
        CLONESET,
        |object| {
            object.spec.lifecycle = None;
            rolling(object).paused = false;
            rolling(object).scatter_strategy.clear();
        },
        |json| {
            json["spec"].as_object_mut().unwrap().remove("lifecycle");
            let rolling = json["spec"]["updateStrategy"]["rollingUpdate"].as_object_mut().unwrap();
            rolling.remove("paused");
            rolling.remove("scatterStrategy");
        },
    );
    let rolling = json!({ "paused": null, "scatterStrategy": null });
    let wanted = json!({ "spec": { "lifecycle": null, "updateStrategy": { "rollingUpdate": rolling } } });
    assert_eq!(patch, Some(wanted));
}

#[test]
fn given_a_list_that_grows_shrinks_and_moves_then_elements_keep_what_is_theirs() {
    let term = |key: &str, value: &str| ScatterTerm {
        key: key.into(),
        value: value.into(),
    };
    check::<CloneSet>(
        CLONESET,
        |object| {
            let terms = &mut rolling(object).scatter_strategy;
            terms.reverse();
            terms.insert(0, term("rack", "r1"));
        },
        |json| {
            let terms = json["spec"]["updateStrategy"]["rollingUpdate"]["scatterStrategy"]
                .as_array_mut()
                .unwrap();
            terms.reverse();
            terms.insert(0, json!({ "key": "rack", "value": "r1" }));
        },
    );
    check::<UnitedDeployment>(
        UNITED,
        |object| {
            object.spec.topology.subsets.remove(0);
            for subset in &mut object.spec.topology.subsets {
                subset.max_replicas = Some("90%".into());
            }
        },
        |json| {
            let subsets = json["spec"]["topology"]["subsets"].as_array_mut().unwrap();
            subsets.remove(0);
            for subset in subsets {
                subset["maxReplicas"] = json!("90%");
            }
        },
    );
}

#[test]
fn given_a_changed_container_then_its_other_fields_stay() {
    check::<SidecarSet>(
        SIDECARSET,
        |object| {
            for container in &mut object.spec.containers {
                container.container.insert("image".into(), "busybox:2".into());
                container.policy.upgrade_strategy.hot_upgrade_empty_image = "empty:1".into();
            }
        },
        |json| {
            for container in json["spec"]["containers"].as_array_mut().unwrap() {
                container["image"] = json!("busybox:2");
                container["upgradeStrategy"]["hotUpgradeEmptyImage"] = json!("empty:1");
            }
        },
    );
}

#[test]
fn given_a_structure_with_nothing_we_know_then_what_it_has_stays() {
    let json = json!({ "spec": { "updateStrategy": { "fieldOfTomorrow": 1 }, "scaleStrategy": {} } });
    let mut document: Document<CloneSet> = Document::from_value(json).unwrap();
    let patch = document
        .edit(|object| object.spec.update_strategy.type_ = "OnDelete".into())
        .unwrap();
    let strategy = json!({ "fieldOfTomorrow": 1, "type": "OnDelete" });
    assert_eq!(
        document.json()["spec"],
        json!({ "updateStrategy": strategy, "scaleStrategy": {} })
    );
    assert_eq!(
        patch,
        Some(json!({ "spec": { "updateStrategy": { "type": "OnDelete" } } }))
    );
}

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

#[test]
fn given_a_bad_document_then_the_path_is_told() {
    let bad = br#"{"spec":{"updateStrategy":{"rollingUpdate":{"partition":{}}}}}"#;
    let error = Document::<CloneSet>::read(bad).unwrap_err();
    assert_eq!(error.path, "spec.updateStrategy.rollingUpdate.partition");
    Document::<CloneSet>::read(b"{").unwrap_err();
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
            prop::collection::btree_map("[abc]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_merge_patch_leads_from_one_document_to_the_other(before in any_json(), after in any_json()) {
        let mut patched = before.clone();
        if let Some(patch) = merge_patch(&before, &after) {
            apply(&mut patched, &patch);
        }
        prop_assert_eq!(patched, after);
    }

    #[test]
    fn what_is_fully_understood_is_carried_over_fully(before in any_json(), after in any_json()) {
        let mut json = before.clone();
        carry_over(&mut json, &before, &after);
        prop_assert_eq!(json, after);
    }
}
