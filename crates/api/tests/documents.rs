//! Every version of every kind, read from and written to JSON.
//!
//! The schema of the CRD tells which fields there are and what each may hold; the tests try each of them in turn.

mod documents {
    pub(crate) mod place;
}

use std::fs;
use std::path::Path;

use documents::place::{Place, Shape, places, sample};
use kruise_api::read::ReadError;
use kruise_api::registry::{KINDS, KindInfo, VersionInfo};
use kruise_api::schema::crd;
use serde_json::{Value, json};

fn versions() -> impl Iterator<Item = (&'static KindInfo, &'static VersionInfo)> {
    KINDS
        .iter()
        .flat_map(|kind| kind.versions.iter().map(move |version| (*kind, version)))
}

fn rewrite(version: &VersionInfo, object: &Value) -> Result<Value, ReadError> {
    let text = (version.rewrite)(object.to_string().as_bytes())?;
    Ok(serde_json::from_str(&text).unwrap())
}

/// Runs a test on each place below spec and status of each version.
fn for_each_place(test: impl Fn(&VersionInfo, &Place)) {
    for (kind, version) in versions() {
        let schema = crd::schema(version).unwrap();
        for part in ["spec", "status"] {
            for place in places(part, &schema["properties"][part]) {
                println!("{} {} {}", kind.kind, version.name, place.path());
                test(version, &place);
            }
        }
    }
}

#[test]
fn given_every_field_when_rewritten_then_nothing_is_lost() {
    for (kind, version) in versions() {
        let mut object = sample(&crd::schema(version).unwrap());
        object["apiVersion"] = json!(format!("{}/{}", kind.group, version.name));
        object["kind"] = json!(kind.kind);
        assert_eq!(
            rewrite(version, &object).unwrap(),
            object,
            "{} {}",
            kind.kind,
            version.name
        );
    }
}

#[test]
fn given_a_lifelike_document_when_rewritten_then_nothing_is_lost() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/documents");
    let mut count = 0;
    for (kind, version) in versions() {
        let name = format!("{}.{}.json", kind.plural, version.name);
        let Ok(text) = fs::read_to_string(folder.join(&name)) else {
            continue;
        };
        let object: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(rewrite(version, &object).unwrap(), object, "{name}");
        count += 1;
    }
    assert_eq!(
        count,
        fs::read_dir(folder).unwrap().count(),
        "a document belongs to no version"
    );
}

#[test]
fn given_null_when_read_then_it_is_as_if_missing() {
    for_each_place(|version, place| {
        if place.is_field() {
            let null = rewrite(version, &place.alone(Some(Value::Null))).unwrap();
            assert_eq!(null, rewrite(version, &place.alone(None)).unwrap());
        }
    });
}

#[test]
fn given_a_wrong_type_when_read_then_the_answer_has_the_path() {
    for_each_place(|version, place| {
        for wrong in place.shape.wrong_values() {
            let error = rewrite(version, &place.alone(Some(wrong.clone()))).expect_err(&wrong.to_string());
            assert_eq!(error.path, place.path(), "{wrong}: {error}");
            assert!(!error.reason.is_empty());
        }
    });
}

#[test]
fn given_a_word_of_a_newer_release_when_rewritten_then_it_is_kept() {
    for_each_place(|version, place| {
        if place.shape == Shape::Text {
            let mut written = rewrite(version, &place.alone(Some(json!("FromTomorrow")))).unwrap();
            assert_eq!(*place.of(&mut written), "FromTomorrow");
        }
    });
}

#[test]
fn given_an_empty_word_when_read_then_it_is_kept_or_as_if_missing() {
    for_each_place(|version, place| {
        if place.shape == Shape::Text {
            let mut written = rewrite(version, &place.alone(Some(json!("")))).unwrap();
            let missing = place.is_field() && written == rewrite(version, &place.alone(None)).unwrap();
            assert!(missing || *place.of(&mut written) == "", "{written}");
        }
    });
}

#[test]
fn given_a_field_of_a_newer_release_when_read_then_the_rest_is_understood() {
    for_each_place(|version, place| {
        let unknown = || rewrite(version, &place.alone(Some(json!({ "fieldOfTomorrow": [1, null] })))).unwrap();
        match place.shape {
            Shape::Struct => assert_eq!(unknown(), rewrite(version, &place.alone(Some(json!({})))).unwrap()),
            Shape::Open | Shape::Anything => {
                assert_eq!(place.of(&mut unknown())["fieldOfTomorrow"], json!([1, null]));
            }
            _ => {}
        }
    });
}

#[test]
fn given_another_kind_or_version_when_read_then_it_is_refused() {
    for (_, version) in versions() {
        for (field, value) in [
            ("apiVersion", json!("apps.kruise.io/v7")),
            ("kind", json!("Potato")),
            ("kind", json!(7)),
        ] {
            let error = rewrite(version, &json!({ field: value })).unwrap_err();
            assert_eq!(error.path, field, "{error}");
        }
    }
}

#[test]
fn given_something_else_when_read_then_it_is_refused() {
    for (_, version) in versions() {
        for text in ["", "7", "[]", "{", "\"\"", "{\"spec\":", "{} {}", "\u{fffd}"] {
            let error = (version.rewrite)(text.as_bytes()).expect_err(text);
            assert!(!error.path.is_empty() && !error.reason.is_empty(), "{error}");
        }
    }
}
