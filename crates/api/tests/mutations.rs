//! Documents that somebody has damaged: the reader answers with an object, or with a path and a reason. It never panics.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use kruise_api::pod::Pod;
use kruise_api::read;
use kruise_api::registry::{KINDS, VersionInfo};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Values that people and programs have put where they do not belong.
fn wrong_values() -> Vec<Value> {
    vec![
        Value::Null,
        json!(""),
        json!("10"),
        json!("10%"),
        json!("-1%"),
        json!("1000%"),
        json!("99999999999999999999%"),
        json!("Always"),
        json!("2024-03-01T10:00:00Z"),
        json!("yesterday"),
        json!(0),
        json!(-1),
        json!(i64::from(i32::MAX) + 1),
        json!(u64::MAX),
        json!(1.5),
        json!(1e300),
        json!(true),
        json!([]),
        json!([null]),
        json!([{}, [[]]]),
        json!({}),
        json!({ "name": 1 }),
        json!({ "a": { "b": { "c": [1, { "d": null }] } } }),
    ]
}

/// What to do, and where: each number chooses a way at the next fork.
#[derive(Clone, Debug)]
enum Damage {
    Replace(Vec<usize>, Value),
    Remove(Vec<usize>),
    Add(Vec<usize>, String, Value),
}

fn damage() -> impl Strategy<Value = Damage> {
    let way = || prop::collection::vec(0_usize..32, 1..9);
    let value = prop::sample::select(wrong_values());
    prop_oneof![
        4 => (way(), value.clone()).prop_map(|(way, value)| Damage::Replace(way, value)),
        1 => way().prop_map(Damage::Remove),
        1 => (way(), "[a-zA-Z.]{0,12}", value).prop_map(|(way, key, value)| Damage::Add(way, key, value)),
    ]
}

/// Follows a way as far as the document goes, and hands over what is there.
fn at(value: &mut Value, way: &[usize], act: impl FnOnce(&mut Value)) {
    let Some((first, rest)) = way.split_first() else {
        return act(value);
    };
    match value {
        Value::Object(map) if !map.is_empty() => {
            let index = first % map.len();
            at(map.values_mut().nth(index).unwrap(), rest, act);
        }
        Value::Array(list) if !list.is_empty() => {
            let index = first % list.len();
            at(&mut list[index], rest, act);
        }
        _ => act(value),
    }
}

impl Damage {
    fn apply(self, document: &mut Value) {
        match self {
            Self::Replace(way, value) => at(document, &way, |place| *place = value),
            Self::Remove(way) => at(document, &way[1..], |place| match place {
                Value::Object(map) if !map.is_empty() => {
                    let key = map.keys().nth(way[0] % map.len()).unwrap().clone();
                    map.remove(&key);
                }
                Value::Array(list) if !list.is_empty() => {
                    list.remove(way[0] % list.len());
                }
                other => *other = Value::Null,
            }),
            Self::Add(way, key, value) => at(document, &way, |place| match place {
                Value::Object(map) => {
                    map.insert(key, value);
                }
                Value::Array(list) => list.push(value),
                other => *other = json!({ key: value }),
            }),
        }
    }
}

fn fixture(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// A good document of every version.
static DOCUMENTS: LazyLock<Vec<(&VersionInfo, Value)>> = LazyLock::new(|| {
    let versions = KINDS
        .iter()
        .flat_map(|kind| kind.versions.iter().map(move |version| (kind, version)));
    let documents = versions.map(|(kind, version)| {
        let name = format!("documents/{}.{}.json", kind.plural, version.name);
        (version, fixture(&name))
    });
    documents.collect()
});

static POD: LazyLock<Value> = LazyLock::new(|| fixture("pod.json"));

fn damaged(document: &Value, damages: Vec<Damage>) -> Value {
    let mut document = document.clone();
    for damage in damages {
        damage.apply(&mut document);
    }
    document
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn a_damaged_object_is_read_or_refused_with_a_path(
        choice in any::<prop::sample::Index>(),
        damages in prop::collection::vec(damage(), 1..5),
    ) {
        let (version, document) = choice.get(&DOCUMENTS);
        let damaged = damaged(document, damages);
        match (version.rewrite)(damaged.to_string().as_bytes()) {
            // What was understood is understood again, and says the same.
            Ok(text) => prop_assert_eq!((version.rewrite)(text.as_bytes()).unwrap(), text),
            Err(error) => {
                let head = error.path.split(['.', '[']).next().unwrap();
                prop_assert!(["", "apiVersion", "kind", "metadata", "spec", "status"].contains(&head), "{}", error);
                prop_assert!(!error.path.is_empty() && !error.reason.is_empty());
            }
        }
    }

    #[test]
    fn a_damaged_pod_is_read_or_refused_with_a_path(damages in prop::collection::vec(damage(), 1..5)) {
        let damaged = damaged(&POD, damages);
        if let Err(error) = read::from_slice::<Pod>(damaged.to_string().as_bytes()) {
            prop_assert!(!error.path.is_empty() && !error.reason.is_empty());
        }
    }

    #[test]
    fn a_truncated_object_is_refused(choice in any::<prop::sample::Index>(), end in any::<prop::sample::Index>()) {
        let (version, document) = choice.get(&DOCUMENTS);
        let text = document.to_string();
        let error = (version.rewrite)(&text.as_bytes()[..end.index(text.len())]).unwrap_err();
        prop_assert!(!error.path.is_empty() && !error.reason.is_empty());
    }
}
