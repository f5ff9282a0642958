//! What the original stored of what users wrote.

use super::{defaulted, gates};
use kruise_api::gates::Gate;
use kruise_core::admission::Version;
use kruise_core::json_patch::diff;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Case {
    name: String,
    version: String,
    /// A new object.
    given: Option<Value>,
    /// Or a change of one that is stored, as a merge patch.
    stored: Option<Value>,
    patch: Option<Value>,
    then: Value,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../../fixtures/statefulset/defaults.json")).unwrap()
}

impl Case {
    fn version(&self) -> Version {
        Version::by_name(&self.version).unwrap()
    }

    fn sent(&self) -> Value {
        self.given.clone().unwrap_or_else(|| {
            let mut object = self.stored.clone().unwrap();
            json_patch::merge(&mut object, self.patch.as_ref().unwrap());
            object
        })
    }
}

#[test]
fn given_what_users_wrote_then_the_same_is_stored() {
    let mut wrong = Vec::new();
    for case in cases() {
        let ours = defaulted(&case.sent(), case.stored.as_ref(), case.version(), gates());
        let differences = diff(&case.then, ours.clone());
        if !differences.is_empty() {
            wrong.push(format!("{} {}: {differences:#?}", case.version, case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(cases().len(), 28);
}

#[test]
fn given_what_was_stored_then_there_is_nothing_more_to_write() {
    for case in cases() {
        for old in [None, Some(&case.then)] {
            let again = defaulted(&case.then, old, case.version(), gates());
            assert_eq!(diff(&case.then, again.clone()), [], "{} {}", case.version, case.name);
        }
    }
}

#[test]
fn given_gates_that_are_off_then_their_fields_stay_absent() {
    let bare = gates()
        .with(Gate::StatefulSetAutoDeletePVC, false)
        .with(Gate::StatefulSetAutoResizePVCGate, false);
    let set = json!({"spec": {"template": {"spec": {"containers": []}}}});
    let spec = &defaulted(&set, None, Version::V1beta1, bare)["spec"];
    assert_eq!(spec.get("persistentVolumeClaimRetentionPolicy"), None);
    assert_eq!(spec.get("volumeClaimUpdateStrategy"), None);
    assert_eq!(spec["podManagementPolicy"], "OrderedReady");
    let older = &defaulted(&set, None, Version::V1alpha1, gates())["spec"];
    assert_eq!(older.get("persistentVolumeClaimRetentionPolicy"), None);
}

#[test]
fn given_values_of_a_wrong_type_then_they_are_left_for_others_to_refuse() {
    for spec in [
        json!("x"),
        json!({"updateStrategy": 1, "ordinals": [], "template": "x"}),
        json!({"updateStrategy": {"rollingUpdate": 7}}),
    ] {
        for version in [Version::V1alpha1, Version::V1beta1] {
            let after = defaulted(&json!({"spec": spec}), None, version, gates());
            for (name, value) in spec
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(_, value)| !value.is_object())
            {
                assert_eq!(after["spec"][name], *value);
            }
        }
    }
}
