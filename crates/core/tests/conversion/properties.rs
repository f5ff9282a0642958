//! What must hold for every object, checked on generated ones of every kind in both versions.

use super::expressible::expressible;
use super::fixture::flip;
use super::generate::{Generator, Mode, UNKNOWN, VERSIONS, Version, fields, outside};
use kruise_core::conversion::{KINDS, convert, review};
use kruise_core::shared::tree::{Object, each};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use serde_json::Value;
use std::cell::Cell;
use std::collections::BTreeSet;

/// Runs `check` on generated objects of every kind and version; returns how many there were.
fn for_all(mode: Mode, mut check: impl FnMut(&str, Version, Value) -> Result<(), TestCaseError>) -> usize {
    let mut objects = 0;
    for (kind, field) in &fields() {
        for version in VERSIONS {
            let config = Config {
                failure_persistence: None,
                ..Config::default()
            };
            objects += config.cases as usize;
            let check = std::cell::RefCell::new(&mut check);
            let result = TestRunner::new(config).run(&prop::collection::vec(any::<u8>(), 0..400), |bytes| {
                let object = Generator::object(&bytes, kind, field, version, mode);
                (check.borrow_mut())(kind, version, object)
            });
            match result {
                Ok(()) => {}
                Err(TestError::Fail(reason, bytes)) => {
                    let object = Generator::object(&bytes, kind, field, version, mode);
                    panic!("{kind} {version:?}: {reason}\nfor {object}");
                }
                Err(TestError::Abort(reason)) => panic!("{kind} {version:?}: {reason}"),
            }
        }
    }
    objects
}

/// Converts there and back, or nothing when the other version cannot express the object at all.
fn there_and_back(object: &Value) -> Option<(Value, Value)> {
    object
        .pointer("/spec/template/imageListPullJobTemplate")
        .is_none_or(Value::is_null)
        .then(|| {
            let other = flip(object);
            let back = flip(&other);
            (other, back)
        })
}

#[test]
fn what_both_versions_can_express_comes_back_exactly() {
    let trips = Cell::new(0);
    for_all(Mode::Valid, |kind, version, object| {
        let Value::Object(mut object) = object else {
            unreachable!()
        };
        expressible(kind, version, &mut object);
        let object = Value::Object(object);
        let (other, back) = there_and_back(&object).expect("expressible");
        prop_assert_eq!(&back, &object, "through {}", other);
        trips.set(trips.get() + 1);
        Ok(())
    });
    println!("{} exact round trips", trips.get());
    assert!(trips.get() >= 5_000 || std::env::var_os("PROPTEST_CASES").is_some());
}

#[test]
fn whatever_the_object_says_it_is_converted_without_harm() {
    let (trips, kept) = (Cell::new(0), Cell::new(0));
    for_all(Mode::Wild, |kind, version, object| {
        let Some((other, back)) = there_and_back(&object) else {
            return Ok(());
        };
        let (again, second) = there_and_back(&back).expect("was expressible");
        prop_assert_eq!(
            &second,
            &back,
            "a second round trip changes nothing: {} then {}",
            other,
            again
        );
        trips.set(trips.get() + 2);

        let given = unknown(&object);
        prop_assert_eq!(&unknown(&other), &given, "unknown fields survive in {}", other);
        prop_assert_eq!(&unknown(&back), &given, "unknown fields survive in {}", back);
        kept.set(kept.get() + given.len());

        // The API server takes labels and annotations of a converted object, everything else must be as it was.
        prop_assert_eq!(bare_metadata(&other), bare_metadata(&object));
        prop_assert_eq!(&other["kind"], &object["kind"]);

        let foreign = foreign(kind, version, other.clone());
        prop_assert!(
            foreign.is_empty(),
            "{:?} are fields of the source's version in {}",
            foreign,
            other
        );
        Ok(())
    });
    println!(
        "{} round trips of wild objects, {} unknown fields kept",
        trips.get(),
        kept.get()
    );
    assert!((trips.get() >= 10_000 && kept.get() >= 1_000) || std::env::var_os("PROPTEST_CASES").is_some());
}

#[test]
fn unknown_fields_survive_in_both_directions() {
    let kept = Cell::new(0);
    for_all(Mode::Future, |_, _, object| {
        let Some((other, back)) = there_and_back(&object) else {
            return Ok(());
        };
        let given = unknown(&object);
        prop_assert_eq!(&unknown(&other), &given, "in {}", other);
        prop_assert_eq!(&unknown(&back), &given, "in {}", back);
        kept.set(kept.get() + given.len());
        Ok(())
    });
    println!("{} unknown fields kept", kept.get());
    assert!(kept.get() >= 1_000 || std::env::var_os("PROPTEST_CASES").is_some());
}

fn bare_metadata(object: &Value) -> Object {
    let mut metadata = object["metadata"].as_object().expect("metadata").clone();
    metadata.remove("labels");
    metadata.remove("annotations");
    metadata
}

/// Fields that only the source's version has, by the lists of the kind's rules.
fn foreign(kind: &str, source: Version, converted: Value) -> Vec<&'static str> {
    let Value::Object(mut converted) = converted else {
        unreachable!()
    };
    let rules = KINDS
        .iter()
        .find(|known| known.kind.to_lowercase() == kind)
        .expect(kind)
        .rules;
    let only = match source {
        Version::V1alpha1 => rules.only_v1alpha1,
        Version::V1beta1 => rules.only_v1beta1,
    };
    let mut found = Vec::new();
    for path in only {
        each(&mut converted, path, &mut |parent, name| {
            if parent.contains_key(name) {
                found.push(*path);
            }
        });
    }
    found
}

fn unknown(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut todo = vec![value];
    while let Some(value) = todo.pop() {
        match value {
            Value::Object(object) => {
                found.extend(object.keys().filter(|name| name.starts_with(UNKNOWN)).cloned());
                todo.extend(object.values());
            }
            Value::Array(items) => todo.extend(items),
            _ => {}
        }
    }
    found
}

/// The registry's lists must name every field that the field lists give to one version only.
#[test]
fn every_field_of_one_version_only_has_a_rule() {
    let fields = fields();
    for_all(Mode::Valid, |kind, version, object| {
        let Some((other, _)) = there_and_back(&object) else {
            return Ok(());
        };
        let allowed = match version {
            Version::V1alpha1 => Version::V1beta1,
            Version::V1beta1 => Version::V1alpha1,
        };
        let mut strange = outside(&other, allowed, &fields[kind]);
        // Comes out of an annotation that is generated with a field of its own.
        strange.retain(|path| !path.ends_with("containerStatusSnapshot[].more"));
        prop_assert!(strange.is_empty(), "{:?} in {}", strange, other);
        Ok(())
    });
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn no_json_panics(value in json(), desired in "(apps|policy)\\.kruise\\.io/v1(alpha1|beta1)") {
        if let Value::Object(object) = &value {
            for known in KINDS {
                let mut object: Object = object.clone();
                object.insert("apiVersion".into(), format!("{}/v1alpha1", known.group).into());
                object.insert("kind".into(), known.kind.into());
                let _ = convert(&mut object, &desired);
            }
        }
        let body = serde_json::json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": value.clone(), "desiredAPIVersion": desired, "objects": [value]}});
        prop_assert!(review(body.to_string().as_bytes()).is_ok());
        let _ = review(value.to_string().as_bytes());
    }
}

/// Any JSON, with names that the rules look for.
fn json() -> impl Strategy<Value = Value> {
    let names = [
        "metadata",
        "spec",
        "status",
        "labels",
        "annotations",
        "updateStrategy",
        "rollingUpdate",
        "template",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(names.to_vec()), inner, 0..6)
                .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}
