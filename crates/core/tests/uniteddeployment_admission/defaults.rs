//! What the original stored of what users wrote.

use super::{defaulted, gates};
use kruise_api::gates::Gate;
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
    serde_json::from_str(include_str!("../../fixtures/uniteddeployment/defaults.json")).unwrap()
}

impl Case {
    fn sent(&self) -> Value {
        self.given.clone().unwrap_or_else(|| {
            let mut object = self.stored.clone().unwrap();
            json_patch::merge(&mut object, self.patch.as_ref().unwrap());
            object
        })
    }
}

/// Without what says nothing, and with amounts in one form: the original wrote templates anew whenever it wrote anything.
fn meaning(value: &Value, is_amount: bool) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter_map(|(key, value)| {
                let is_amount = is_amount || matches!(key.as_str(), "limits" | "requests");
                let value = meaning(value, is_amount);
                let is_nothing = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                (!is_nothing).then(|| (key.clone(), value))
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.iter().map(|item| meaning(item, is_amount)).collect(),
        Value::String(text) if is_amount => {
            json!(kruise_core::shared::quantity::canonical(text).unwrap_or_else(|| text.clone()))
        }
        other => other.clone(),
    }
}

/// What only the API server does: defaults of the schema, and fields that a version does not have.
fn as_stored(mut object: Value) -> Value {
    if let Some(set) = object.pointer_mut("/spec/template/cloneSetTemplate/spec")
        && let Some(set) = set.as_object_mut()
    {
        for (strategy, known) in [
            ("updateStrategy", &["type", "rollingUpdate"][..]),
            (
                "scaleStrategy",
                &[
                    "podsToDelete",
                    "maxUnavailable",
                    "enablePVCReuse",
                    "excludePreparingDelete",
                ][..],
            ),
        ] {
            if let Some(fields) = set.get_mut(strategy).and_then(Value::as_object_mut) {
                fields.retain(|field, value| known.contains(&field.as_str()) && *value != json!(false));
            }
        }
    }
    object
}

#[test]
fn given_what_users_wrote_then_the_same_is_stored() {
    let mut wrong = Vec::new();
    for case in cases() {
        let ours = as_stored(defaulted(&case.sent(), case.stored.as_ref(), gates()));
        let then = as_stored(case.then.clone());
        let differences = diff(&meaning(&then, false), meaning(&ours, false));
        if !differences.is_empty() {
            wrong.push(format!("{} {}: {differences:#?}", case.version, case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(cases().len(), 24);
}

#[test]
fn given_what_was_stored_then_there_is_nothing_more_to_write() {
    for case in cases() {
        let again = defaulted(&case.then, Some(&case.then), gates());
        assert_eq!(diff(&case.then, again.clone()), [], "{} {}", case.version, case.name);
    }
}

#[test]
fn given_a_status_then_it_is_not_for_users_to_write() {
    let object = json!({"spec": {}, "status": {"replicas": 3}});
    assert_eq!(defaulted(&object, None, gates()).get("status"), None);
}

#[test]
fn given_templates_then_only_that_of_a_stateful_set_is_completed_and_only_when_it_is_new() {
    let pod = json!({"spec": {"containers": [{"name": "main", "image": "a"}]}});
    let with = |field: &str| json!({"spec": {"template": {(field): {"spec": {"template": pod}}}}});
    let policy = |object: &Value, field: &str| {
        let pointer = format!("/spec/template/{field}/spec/template/spec/restartPolicy");
        object.pointer(&pointer).cloned().unwrap_or_default()
    };
    let native = with("statefulSetTemplate");
    assert_eq!(
        policy(&defaulted(&native, None, gates()), "statefulSetTemplate"),
        "Always"
    );
    assert!(policy(&defaulted(&native, Some(&native), gates()), "statefulSetTemplate").is_null());
    let bare = gates().with(Gate::TemplateNoDefaults, true);
    assert!(policy(&defaulted(&native, None, bare), "statefulSetTemplate").is_null());
    for field in ["advancedStatefulSetTemplate", "cloneSetTemplate", "deploymentTemplate"] {
        assert!(
            policy(&defaulted(&with(field), None, gates()), field).is_null(),
            "{field}"
        );
    }
}

#[test]
fn given_values_of_a_wrong_type_then_they_are_left_for_others_to_refuse() {
    for spec in [
        json!("text"),
        json!({"updateStrategy": "text"}),
        json!({"topology": []}),
        json!({"topology": {"subsets": "text"}}),
        json!({"topology": {"subsets": ["text", {"minReplicas": 1}]}}),
        json!({"template": {"statefulSetTemplate": {"spec": 1}}}),
    ] {
        defaulted(&json!({"spec": spec}), None, gates());
    }
}
