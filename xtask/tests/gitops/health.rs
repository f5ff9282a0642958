//! The health checks for Argo CD, run as Argo CD runs them: with `obj`, without files, processes and modules.

use std::{collections::BTreeSet, fs, path::PathBuf};

use kruise_api::registry::KINDS;
use mlua::{Lua, LuaOptions, LuaSerdeExt as _, StdLib, Table};

use super::objects::{Recorded, all};

const STATES: [&str; 4] = ["Healthy", "Progressing", "Suspended", "Degraded"];

fn check(group: &str, kind: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../config/argocd");
    folder.join(group).join(kind).join("health.lua")
}

/// What the check says of an object: the state, and a sentence.
fn health(recorded: &Recorded) -> (String, String) {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
    let lua = Lua::new_with(libraries, LuaOptions::default()).unwrap();
    let object = lua.to_value(&recorded.object).unwrap();
    lua.globals().set("obj", object).unwrap();
    let script = fs::read_to_string(check(recorded.group(), recorded.kind())).unwrap();
    let answer: Table = lua
        .load(script)
        .eval()
        .unwrap_or_else(|error| panic!("{}: {error}", recorded.name()));
    (answer.get("status").unwrap(), answer.get("message").unwrap())
}

#[test]
fn given_recorded_objects_then_their_health_is_what_a_person_would_say() {
    for recorded in all() {
        let (state, message) = health(&recorded);
        assert!(STATES.contains(&state.as_str()), "{}: {state}", recorded.name());
        assert_eq!(state, recorded.argo, "{}: {message}", recorded.name());
        assert!(message.contains(&recorded.says), "{}: {message}", recorded.name());
    }
}

#[test]
fn given_an_object_that_nobody_has_seen_then_no_check_fails() {
    for mut recorded in all() {
        for status in [serde_json::Value::Null, serde_json::json!({})] {
            recorded.object["status"] = status;
            if recorded.object["status"].is_null() {
                recorded.object.as_object_mut().unwrap().remove("status");
            }
            let (state, _) = health(&recorded);
            assert!(state != "Degraded", "{}: {state}", recorded.name());
        }
    }
}

#[test]
fn given_our_kinds_then_each_has_a_check_and_recorded_objects_for_all_that_it_says() {
    let all = all();
    for kind in KINDS {
        let script =
            fs::read_to_string(check(kind.group, kind.kind)).unwrap_or_else(|error| panic!("{}: {error}", kind.kind));
        let said: BTreeSet<&str> = STATES
            .into_iter()
            .filter(|state| script.contains(&format!("\"{state}\"")))
            .collect();
        let of_kind = all.iter().filter(|recorded| recorded.kind() == kind.kind);
        let recorded: BTreeSet<&str> = of_kind.map(|recorded| recorded.argo.as_str()).collect();
        assert_eq!(recorded, said, "{}", kind.kind);
    }
}
