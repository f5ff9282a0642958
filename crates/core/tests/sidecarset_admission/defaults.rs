//! What is written into a SidecarSet.

use kruise_core::sidecarset::default::default;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
struct Case {
    name: String,
    sent: Map<String, Value>,
    created: Created,
}

#[derive(Deserialize)]
struct Created {
    annotations: Map<String, Value>,
    spec: Map<String, Value>,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../../fixtures/sidecarset/defaults.json")).unwrap()
}

/// What the schema and the conversion do on the way, which is not ours to do here.
fn as_stored(mut object: Map<String, Value>) -> Value {
    if object["apiVersion"] == "apps.kruise.io/v1alpha1" {
        let name = object["spec"]["namespace"].clone();
        if name.is_string() {
            let spec = object["spec"].as_object_mut().unwrap();
            spec.remove("namespace");
            spec.insert(
                "namespaceSelector".into(),
                json!({"matchLabels": {"kubernetes.io/metadata.name": name}}),
            );
        }
    }
    let mut spec = object["spec"].clone();
    spec.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(policy) = container.get_mut("resourcesPolicy").and_then(Value::as_object_mut) {
                policy.entry("targetContainersNameRegex").or_insert(json!(".*"));
            }
        }
    }
    if object["apiVersion"] == "apps.kruise.io/v1beta1" {
        for secret in spec
            .get_mut("imagePullSecrets")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            secret.as_object_mut().unwrap().entry("name").or_insert(json!(""));
        }
    }
    spec
}

#[test]
fn given_every_recorded_object_then_the_same_is_written() {
    let cases = cases();
    assert_eq!(cases.len(), 29);
    for case in cases {
        let mut object = case.sent.clone();
        // The schema completes the policy before anybody is asked.
        for list in ["containers", "initContainers"] {
            let spec = object.get_mut("spec").unwrap();
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(policy) = container.get_mut("resourcesPolicy").and_then(Value::as_object_mut) {
                    policy.entry("targetContainersNameRegex").or_insert(json!(".*"));
                }
            }
        }
        default(&mut object);
        for (key, hash) in &case.created.annotations {
            assert_eq!(object["metadata"]["annotations"][key], *hash, "{}: {key}", case.name);
        }
        let spec = as_stored(object);
        assert_eq!(spec, Value::Object(case.created.spec), "{}", case.name);
    }
}

#[test]
fn given_an_object_that_is_complete_then_nothing_more_is_written() {
    for case in cases() {
        let mut once = case.sent;
        default(&mut once);
        let mut twice = once.clone();
        default(&mut twice);
        assert_eq!(once, twice, "{}", case.name);
    }
}

proptest! {
    #[test]
    fn given_anything_in_place_of_a_field_then_no_panic(field in 0..9_usize, value in 0..6_usize) {
        let fields = ["containers", "initContainers", "volumes", "updateStrategy", "injectionStrategy", "patchPodMetadata",
            "imagePullSecrets", "selector", "revisionHistoryLimit"];
        let values = [json!(null), json!(1), json!("x"), json!([1, "x", {"name": 1}]), json!({"x": []}), json!([[{}]])];
        let mut object = Map::new();
        object.insert("spec".into(), json!({fields[field]: values[value]}));
        default(&mut object);
        let mut object = Map::new();
        object.insert("spec".into(), values[value].clone());
        default(&mut object);
    }
}
