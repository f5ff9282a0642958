//! What must hold for every object, checked on recorded ones that were damaged at random.

use super::fixture::{VERSIONS, defaulted, gates, read, recorded};
use kruise_core::admission::{Admit as _, Lookups, Version};
use kruise_core::cloneset::validate::{pods_to_look_up, validate};
use kruise_core::cloneset::version::Submitted;
use kruise_core::json_patch::{self, diff};
use kruise_core::shared::tree::Object;
use kruise_core::shared::validate::pod_template::with_claims;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Values that are often somewhere they do not belong.
fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!({})),
        Just(json!([])),
        Just(json!([null, {}, "x"])),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "x",
            "5",
            "20%",
            "-10%",
            "33.3%",
            "%",
            "InPlaceOnly",
            "OnDelete",
            "Always"
        ])
        .prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        Just(json!({"matchExpressions": [{"key": "a", "operator": "In"}]})),
        Just(json!({"a": {"b": [1]}})),
    ]
}

/// Where to strike: a number for each step down; what is done there.
#[derive(Debug, Clone)]
struct Blow {
    steps: Vec<u8>,
    value: Option<Value>,
}

fn blow() -> impl Strategy<Value = Blow> {
    (
        prop::collection::vec(any::<u8>(), 1..9),
        prop::option::weighted(0.8, odd()),
    )
        .prop_map(|(steps, value)| Blow { steps, value })
}

fn strike(target: &mut Value, blow: &Blow, depth: usize) {
    let Some(step) = blow.steps.get(depth).copied().map(usize::from) else {
        if let Some(value) = &blow.value {
            *target = value.clone();
        }
        return;
    };
    let is_last = depth + 1 == blow.steps.len();
    match target {
        Value::Object(fields) if !fields.is_empty() => {
            let key = fields.keys().nth(step % fields.len()).unwrap().clone();
            match (&blow.value, is_last) {
                (None, true) => drop(fields.remove(&key)),
                _ => strike(&mut fields[&key], blow, depth + 1),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let index = step % items.len();
            match (&blow.value, is_last) {
                (None, true) => drop(items.remove(index)),
                _ => strike(&mut items[index], blow, depth + 1),
            }
        }
        other => {
            if let Some(value) = &blow.value {
                *other = value.clone();
            }
        }
    }
}

/// A recorded object, damaged, and what was stored before.
fn damaged() -> impl Strategy<Value = (Version, Value, Option<Value>)> {
    let version = prop::sample::select(VERSIONS.to_vec());
    (
        version,
        any::<prop::sample::Index>(),
        prop::collection::vec(blow(), 0..4),
    )
        .prop_map(|(version, index, blows)| {
            let recorded = recorded(version);
            let case = index.get(&recorded.cases);
            let (mut object, stored) = recorded.objects(case);
            for blow in &blows {
                strike(&mut object, blow, 0);
            }
            (version, object, stored.cloned())
        })
}

fn errors(value: &Value, old: Option<&Value>, version: Version) -> Option<String> {
    let new = read(value, version).ok()?;
    let old = old.and_then(|old| read(old, version).ok());
    Some(validate(&new, old.as_ref(), &Lookups::default()).to_string())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_it_is_completed_once_and_the_patch_says_so((version, object, old) in damaged()) {
        if !object.is_object() {
            return Ok(());
        }
        let once = defaulted(&object, old.as_ref(), version, gates());
        let twice = defaulted(&once, old.as_ref(), version, gates());
        prop_assert_eq!(&once, &twice, "a second time changes nothing");
        let mut patched = object.clone();
        for operation in diff(&object, once.clone()) {
            prop_assert!(json_patch::apply(&mut patched, &operation));
        }
        prop_assert_eq!(&patched, &once);
    }

    #[test]
    fn whatever_comes_it_is_judged_and_defaults_make_nothing_bad((version, object, old) in damaged()) {
        if !object.is_object() {
            return Ok(());
        }
        let before = errors(&object, old.as_ref(), version);
        let completed = defaulted(&object, old.as_ref(), version, gates());
        let after = errors(&completed, old.as_ref(), version);
        prop_assert_eq!(before.is_some(), after.is_some(), "what can be read can be read after");
        if before.as_deref() == Some("") {
            prop_assert_eq!(after.as_deref(), Some(""));
        }
        if let Ok(sent) = read(&object, version) {
            with_claims(sent.template(), sent.claims());
            pods_to_look_up(&sent, None);
        }
    }

    #[test]
    fn whatever_text_comes_reading_it_does_no_harm(text in ".{0,64}", version in prop::sample::select(VERSIONS.to_vec())) {
        if let Ok(sent) = Submitted::read(text.as_bytes(), version) {
            validate(&sent, Some(&sent), &Lookups::default());
        }
        if let Ok(mut object) = serde_json::from_str::<Object>(&text) {
            kruise_core::cloneset::default::default(&mut object, None, version, gates());
        }
    }
}
