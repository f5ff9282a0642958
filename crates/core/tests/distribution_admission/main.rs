//! What happens to ResourceDistributions on their way in, compared with what the original did.

use kruise_api::gates::Gates;
use kruise_core::admission::{Admit, Env, Lookups, ObjectRef, Operation, Version};
use kruise_core::resourcedistribution::Submitted;
use serde::Deserialize;
use serde_json::{Value, json};

/// One recorded request. Codes, and what is said otherwise here, are compared where there is an API server.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    name: String,
    version: String,
    object: Value,
    old: Option<Value>,
    says: Option<String>,
    /// It was refused by the API server itself.
    #[serde(default)]
    api_server: bool,
    /// What the API server says of the resource.
    dry_run: Option<Value>,
}

fn env(version: &str, is_update: bool) -> Env {
    Env {
        operation: if is_update {
            Operation::Update
        } else {
            Operation::Create
        },
        version: Version::by_name(version).unwrap(),
        gates: Gates::default(),
        now: "2026-11-15T08:12:35Z".parse().unwrap(),
    }
}

/// Why an object is refused; `answer` is what the API server says of a dry run.
fn refusal(
    object: &Value,
    old: Option<&Value>,
    version: &str,
    answer: &Result<Option<Value>, String>,
) -> Option<String> {
    let env = env(version, old.is_some());
    let read = |object: &Value| Submitted::read(object.to_string().as_bytes(), env.version);
    let new = match read(object) {
        Ok(new) => new,
        Err(error) => return Some(error.to_string()),
    };
    let old = old.map(|old| read(old).unwrap());
    let mut found = Lookups::default();
    let needs = new.needs_to_validate(old.as_ref(), &env, &found);
    found
        .objects
        .extend(needs.objects.into_iter().map(|object| (object, answer.clone())));
    let verdict = match &old {
        Some(old) => new.validate_update(old, &env, &found),
        None => new.validate(&env, &found),
    };
    verdict.err().map(|refusal| refusal.message)
}

#[test]
fn given_what_users_sent_then_the_same_is_refused_for_the_same_field() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("../../fixtures/resourcedistribution/verdicts.json")).unwrap();
    assert_eq!(cases.len(), 74);
    for case in cases {
        let at = format!("{} {}", case.version, case.name);
        let ours = refusal(&case.object, case.old.as_ref(), &case.version, &Ok(case.dry_run));
        if case.api_server {
            continue;
        }
        match (case.says, ours) {
            (None, None) => {}
            (Some(says), Some(message)) => {
                let path = says.trim_start_matches('[').split(": ").next().unwrap();
                assert!(message.contains(path), "{at}: {message}\nbut was: {says}");
            }
            (says, ours) => panic!("{at}: {ours:?}\nbut was: {says:?}"),
        }
    }
}

fn distribution(resource: &Value) -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"resource": resource, "targets": {}}})
}

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "v"}})
}

#[test]
fn given_what_the_server_says_of_the_resource_then_it_is_told_at_its_place() {
    let object = distribution(&config_map());
    let status = |reason: &str| Ok(Some(json!({"reason": reason, "message": "said"})));
    for (answer, says) in [
        (Ok(None), None),
        (
            Ok(Some(
                json!({"reason": "Invalid", "details": {"causes": [{"field": "data[a b]", "reason": "FieldValueInvalid", "message": "Invalid value: \"a b\": no"}]}}),
            )),
            Some("spec.resource.data[a b]: Invalid value: \"a b\": no"),
        ),
        (
            status("Invalid"),
            Some("spec.resource: Invalid value: \"m\": spec.resource is invalid: said"),
        ),
        (
            status("BadRequest"),
            Some("spec.resource: Invalid value: \"m\": spec.resource is invalid: said"),
        ),
        (status("Forbidden"), Some("spec.resource: Forbidden: said")),
        (status("Timeout"), Some("spec.resource: Internal error: said")),
        (
            Err("no answer".to_owned()),
            Some("spec.resource: Internal error: no answer"),
        ),
    ] {
        let ours = refusal(&object, None, "v1beta1", &answer);
        assert_eq!(ours.as_deref(), says, "{answer:?}");
    }
}

#[test]
fn given_a_resource_that_has_not_changed_then_nobody_is_asked() {
    let object = distribution(&config_map());
    let env = env("v1beta1", true);
    let read = |object: &Value| Submitted::read(object.to_string().as_bytes(), env.version).unwrap();
    let (old, mut other) = (read(&object), object.clone());
    assert!(old.needs_to_validate(Some(&old), &env, &Lookups::default()).is_empty());
    other["spec"]["resource"]["data"]["k"] = json!("w");
    let needs = read(&other).needs_to_validate(Some(&old), &env, &Lookups::default());
    let asked: Vec<String> = needs.objects.iter().map(ToString::to_string).collect();
    assert_eq!(asked, ["the dry run of creating a ConfigMap"]);
    assert!(matches!(needs.objects.first(), Some(ObjectRef::DryRun { object, .. }) if object.contains("\"w\"")));
}

#[test]
fn given_odd_shapes_then_they_are_refused_and_nothing_panics() {
    for resource in [
        json!(null),
        json!([]),
        json!("x"),
        json!({}),
        json!({"kind": 1}),
        json!({"kind": "Secret", "apiVersion": "v1", "metadata": []}),
    ] {
        for version in ["v1alpha1", "v1beta1"] {
            let ours = refusal(&distribution(&resource), None, version, &Ok(None));
            assert!(
                ours.as_ref().is_some_and(|says| says.contains("spec.resource")),
                "{resource}: {ours:?}"
            );
        }
    }
}
