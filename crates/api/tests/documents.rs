//! Every version of every kind, read from and written to JSON: `fixtures/documents` has one rich object for each.
//!
//! The tests change each field of each document in turn. What the field is, the schema of the CRD tells.

mod documents {
    pub(crate) mod place;
}

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use documents::place::{Place, Shape, places};
use kruise_api::read::ReadError;
use kruise_api::registry::{KINDS, KindInfo, VersionInfo};
use kruise_api::schema::{crd, tree};
use serde_json::{Value, json};

struct Document {
    name: String,
    object: Value,
    kind: &'static KindInfo,
    version: &'static VersionInfo,
    places: Vec<Place>,
}

impl Document {
    fn rewrite(&self, object: &Value) -> Result<Value, ReadError> {
        let text = (self.version.rewrite)(object.to_string().as_bytes())?;
        Ok(serde_json::from_str(&text).unwrap())
    }

    /// The document with one place changed.
    fn with(&self, place: &Place, value: Value) -> Value {
        let mut object = self.object.clone();
        *place.of(&mut object) = value;
        object
    }

    /// The document with one field left out.
    fn without(&self, place: &Place) -> Value {
        let mut object = self.object.clone();
        place.remove_from(&mut object);
        object
    }

    fn rewritten(&self, place: &Place, object: &Value) -> Value {
        self.rewrite(object)
            .unwrap_or_else(|error| panic!("{} at {}: {error}", self.name, place.path()))
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/documents")
}

fn documents() -> Vec<Document> {
    let mut documents = Vec::new();
    for (kind, version) in KINDS
        .iter()
        .flat_map(|kind| kind.versions.iter().map(move |version| (kind, version)))
    {
        let name = format!("{}.{}.json", kind.plural, version.name);
        let Ok(text) = fs::read_to_string(folder().join(&name)) else {
            continue;
        };
        let object: Value = serde_json::from_str(&text).unwrap();
        let places = places(&object, &crd::schema(version).unwrap());
        documents.push(Document {
            name,
            object,
            kind,
            version,
            places,
        });
    }
    assert!(documents.len() >= 23);
    documents
}

#[test]
fn given_a_rich_document_when_rewritten_then_nothing_is_lost() {
    for document in documents() {
        assert_eq!(
            document.rewrite(&document.object).unwrap(),
            document.object,
            "{}",
            document.name
        );
    }
}

#[test]
fn the_documents_show_every_field_of_ours() {
    for document in documents() {
        let shown: BTreeSet<String> = document.places.iter().map(Place::line).collect();
        let tree = tree::fields(document.kind, document.version, &crd::schema(document.version).unwrap());
        let paths = tree
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(' '))
            .map(|(path, _)| path);
        let missing: Vec<_> = paths.filter(|path| !shown.contains(*path)).collect();
        assert!(missing.is_empty(), "{} lacks {missing:?}", document.name);
    }
}

#[test]
fn given_null_when_read_then_it_is_as_if_missing() {
    for document in documents() {
        for place in document
            .places
            .iter()
            .filter(|place| place.is_field() && !place.is_head())
        {
            let null = document.rewritten(place, &document.with(place, Value::Null));
            let missing = document.rewritten(place, &document.without(place));
            assert_eq!(null, missing, "{} at {}", document.name, place.path());
        }
    }
}

#[test]
fn given_a_wrong_type_when_read_then_the_answer_has_the_path() {
    for document in documents() {
        for place in document.places.iter().filter(|place| !place.is_head()) {
            for wrong in place.shape.wrong_values() {
                let error = document
                    .rewrite(&document.with(place, wrong.clone()))
                    .expect_err(&place.path());
                assert_eq!(error.path, place.path(), "{} with {wrong}: {error}", document.name);
                assert!(!error.reason.is_empty());
            }
        }
    }
}

#[test]
fn given_a_word_of_a_newer_release_when_rewritten_then_it_is_kept() {
    for document in documents() {
        for place in document
            .places
            .iter()
            .filter(|place| place.shape == Shape::Text && !place.is_head())
        {
            let object = document.with(place, json!("FromTomorrow"));
            assert_eq!(document.rewritten(place, &object), object, "{}", document.name);
        }
    }
}

#[test]
fn given_an_empty_word_when_read_then_it_is_as_if_unset() {
    for document in documents() {
        for place in document
            .places
            .iter()
            .filter(|place| place.shape == Shape::Text && !place.is_head())
        {
            let object = document.with(place, json!(""));
            let written = document.rewritten(place, &object);
            let left_out = place.is_field() && written == document.without(place);
            assert!(
                written == object || left_out,
                "{} at {}: {written}",
                document.name,
                place.path()
            );
        }
    }
}

#[test]
fn given_fields_of_a_newer_release_when_read_then_the_rest_is_understood() {
    for document in documents() {
        for place in document.places.iter().filter(|place| place.shape == Shape::Struct) {
            let mut object = document.object.clone();
            place.of(&mut object)["fieldOfTomorrow"] = json!({ "a": [1, null] });
            assert_eq!(
                document.rewritten(place, &object),
                document.object,
                "{} at {}",
                document.name,
                place.path()
            );
        }
    }
}

#[test]
fn given_another_kind_or_version_when_read_then_it_is_refused() {
    for document in documents() {
        for (field, value) in [("apiVersion", "apps.kruise.io/v7"), ("kind", "Potato")] {
            let mut object = document.object.clone();
            object[field] = json!(value);
            let error = document.rewrite(&object).unwrap_err();
            assert_eq!(error.path, field, "{}", document.name);
        }
    }
}

#[test]
fn given_something_else_when_read_then_it_is_refused() {
    for kind in KINDS {
        for version in kind.versions {
            for text in ["", "7", "{", "\"\"", "{\"spec\":", "\u{fffd}"] {
                let error = (version.rewrite)(text.as_bytes()).unwrap_err();
                assert!(
                    !error.path.is_empty() && !error.reason.is_empty(),
                    "{} {text:?}: {error}",
                    kind.kind
                );
            }
        }
    }
}
