//! What happens to jobs on their way in, compared with what the original did.

mod defaults;
mod started;
mod verdicts;

use kruise_api::gates::Gates;
use kruise_core::admission::{Admit, Env, Lookups, Operation, Refusal, Version};
use kruise_core::shared::tree::Object;
use serde_json::Value;

/// What a request is decided under.
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

/// The object with all defaults.
fn completed<K: Admit>(object: &Value, old: Option<&Value>, env: &Env) -> Value {
    let mut object: Object = object.as_object().unwrap().clone();
    let old = old.map(|old| old.as_object().unwrap());
    K::default(&mut object, old, env, &Lookups::default()).unwrap();
    Value::Object(object)
}

/// Why an object is refused.
fn refusal<K: Admit>(object: &Value, old: Option<&Value>, env: &Env) -> Option<String> {
    let read = |object: &Value| K::read(object.to_string().as_bytes(), env.version);
    let object = completed::<K>(object, old, env);
    let new = match read(&object) {
        Ok(new) => new,
        Err(error) => return Some(error.to_string()),
    };
    let verdict: Result<(), Refusal> = match old {
        Some(old) => new.validate_update(&read(old).unwrap(), env, &Lookups::default()),
        None => new.validate(env, &Lookups::default()),
    };
    verdict.err().map(|refusal| refusal.message)
}
