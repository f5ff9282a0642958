//! What happens to PersistentPodStates on their way in, compared with what the original did.

use kruise_api::gates::Gates;
use kruise_core::admission::{Admit, Env, Lookups, ObjectRef, Operation, Version};
use kruise_core::persistentpodstate::Submitted;
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
    #[serde(default)]
    existing: Vec<Value>,
    says: Option<String>,
    /// It was refused by the API server itself.
    #[serde(default)]
    api_server: bool,
}

/// Why an object is refused; `list` is the white list.
fn refusal(case: &Case, list: &str) -> Option<String> {
    let env = Env {
        operation: if case.old.is_some() {
            Operation::Update
        } else {
            Operation::Create
        },
        version: Version::by_name(&case.version).unwrap(),
        gates: Gates::default(),
        now: "2026-11-15T08:12:35Z".parse().unwrap(),
    };
    let read = |object: &Value| Submitted::read(object.to_string().as_bytes(), env.version);
    let new = match read(&case.object) {
        Ok(new) => new,
        Err(error) => return Some(error.to_string()),
    };
    let old = case.old.as_ref().map(|old| read(old).unwrap());
    let mut found = Lookups::default();
    for object in new.needs_to_validate(old.as_ref(), &env, &found).objects {
        let answer = match &object {
            ObjectRef::Configuration => json!({"data": {"PPS_Watch_Custom_Workload_WhiteList": list}}),
            _ => json!({"items": case.existing}),
        };
        found.objects.insert(object, Ok(Some(answer)));
    }
    let verdict = match &old {
        Some(old) => new.validate_update(old, &env, &found),
        None => new.validate(&env, &found),
    };
    verdict.err().map(|refusal| refusal.message)
}

#[test]
fn given_what_users_sent_then_the_same_is_refused_for_the_same_reason() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../fixtures/persistentpodstate/verdicts.json")).unwrap();
    assert_eq!(cases.len(), 62);
    for case in cases {
        let at = format!("{} {}", case.version, case.name);
        let ours = refusal(&case, "");
        if case.api_server {
            continue;
        }
        match (&case.says, ours) {
            (None, None) => {}
            (Some(says), Some(message)) => {
                let says = says.trim_matches(['[', ']']);
                let (path, end) = (says.split(": ").next().unwrap(), says.rsplit(": ").next().unwrap());
                assert!(
                    message.contains(path) && message.contains(end),
                    "{at}: {message}\nbut was: {says}"
                );
            }
            (says, ours) => panic!("{at}: {ours:?}\nbut was: {says:?}"),
        }
    }
}

#[test]
fn given_a_white_list_then_its_kinds_are_taken_and_one_that_cannot_be_read_refuses_only_others() {
    let case = |kind: &str| -> Case {
        let object = json!({"metadata": {"name": "a"}, "spec": {
            "targetRef": {"apiVersion": "example.com/v2", "kind": kind, "name": "x"}, "requiredPersistentTopology": {"keys": []},
        }});
        serde_json::from_value(json!({"name": "a", "version": "v1beta1", "object": object})).unwrap()
    };
    let list = r#"{"workloads": [{"Group": "example.com", "Version": "v1", "Kind": "Game"}]}"#;
    assert_eq!(refusal(&case("Game"), list), None);
    assert!(
        refusal(&case("Toy"), list)
            .unwrap()
            .starts_with("spec.targetRef: Invalid value")
    );
    assert!(
        refusal(&case("Game"), "{")
            .unwrap()
            .starts_with("spec.targetRef: Internal error")
    );
    let mut set = case("StatefulSet");
    set.object["spec"]["targetRef"]["apiVersion"] = json!("apps/v1");
    assert_eq!(refusal(&set, "{"), None);
}
