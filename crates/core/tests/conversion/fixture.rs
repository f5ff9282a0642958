//! Recordings of the original, one file per kind.
//!
//! `stored`: an object as the API server showed it in both versions, and what a client of the other version made of it
//! by reading and writing it back. `direct`: an object sent to the conversion endpoint, the answer, and the answer
//! converted back. To keep the files small, everything but the first object of a case is written as a patch of it
//! (`unset` pointers, then `set` values), and pod templates that occur more than once stand in `shared`.

use kruise_core::shared::tree::Object;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Every kind with two versions.
pub(crate) const KINDS: [&str; 15] = [
    "advancedcronjob",
    "broadcastjob",
    "cloneset",
    "containerrecreaterequest",
    "daemonset",
    "imagelistpulljob",
    "imagepulljob",
    "nodeimage",
    "persistentpodstate",
    "podunavailablebudget",
    "resourcedistribution",
    "sidecarset",
    "statefulset",
    "uniteddeployment",
    "workloadspread",
];

#[derive(Deserialize)]
pub(crate) struct Recordings {
    shared: Vec<Value>,
    pub(crate) stored: Vec<Stored>,
    pub(crate) direct: Vec<Direct>,
}

#[derive(Deserialize)]
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) v1beta1: Value,
    v1alpha1: Patch,
    /// Against the version that the case's name starts with, without status. Absent when the write was refused.
    roundtrip: Option<Patch>,
}

#[derive(Deserialize)]
pub(crate) struct Direct {
    pub(crate) name: String,
    pub(crate) request: Value,
    response: Option<Patch>,
    back: Option<Patch>,
    pub(crate) failure: Option<String>,
}

#[derive(Deserialize)]
struct Patch {
    #[serde(default)]
    unset: Vec<String>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
}

impl Stored {
    pub(crate) fn v1alpha1(&self) -> Value {
        self.v1alpha1.apply(&self.v1beta1)
    }

    /// The reading that was given in, and the one after the round trip.
    pub(crate) fn roundtrip(&self) -> Option<(Value, Value)> {
        let before = if self.name.starts_with("v1alpha1") {
            self.v1alpha1()
        } else {
            self.v1beta1.clone()
        };
        let after = self.roundtrip.as_ref()?.apply(&before);
        Some((before, after))
    }
}

impl Direct {
    pub(crate) fn response(&self) -> Option<Value> {
        self.response.as_ref().map(|patch| patch.apply(&self.request))
    }

    pub(crate) fn back(&self) -> Option<Value> {
        self.back.as_ref().map(|patch| patch.apply(&self.request))
    }
}

impl Patch {
    fn apply(&self, to: &Value) -> Value {
        let mut value = to.clone();
        for pointer in &self.unset {
            let (parent, name) = split(pointer);
            let parent = value.pointer_mut(parent).and_then(Value::as_object_mut).expect(pointer);
            parent.remove(&name).expect(pointer);
        }
        for (pointer, new) in &self.set {
            let (parent, name) = split(pointer);
            match value.pointer_mut(parent).expect(pointer) {
                Value::Array(items) => items[name.parse::<usize>().expect(pointer)] = new.clone(),
                Value::Object(object) => {
                    object.insert(name, new.clone());
                }
                other => panic!("{pointer} leads into {other}"),
            }
        }
        value
    }
}

fn split(pointer: &str) -> (&str, String) {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer starts with a slash");
    (parent, name.replace("~1", "/").replace("~0", "~"))
}

pub(crate) fn recordings(kind: &str) -> Recordings {
    let mut recordings: Recordings = serde_json::from_str(&read(kind)).expect(kind);
    for case in &mut recordings.stored {
        expand(&mut case.v1beta1, &recordings.shared);
    }
    for case in &mut recordings.direct {
        expand(&mut case.request, &recordings.shared);
    }
    recordings
}

pub(crate) fn read(name: &str) -> String {
    read_text(&format!("{name}.json"))
}

pub(crate) fn read_text(name: &str) -> String {
    let path = format!("{}/tests/fixtures/conversion/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn expand(value: &mut Value, shared: &[Value]) {
    if let Some(index) = value.get("$shared").and_then(Value::as_u64) {
        *value = shared[usize::try_from(index).expect("a small index")].clone();
    }
    match value {
        Value::Object(object) => object.values_mut().for_each(|value| expand(value, shared)),
        Value::Array(items) => items.iter_mut().for_each(|value| expand(value, shared)),
        _ => {}
    }
}

/// Our conversion of `value` to the version it is not in.
pub(crate) fn flip(value: &Value) -> Value {
    let mut object: Object = value.as_object().expect("an object").clone();
    let version = object["apiVersion"].as_str().expect("an apiVersion");
    let other = match version.rsplit_once('/').expect("a group") {
        (group, "v1alpha1") => format!("{group}/v1beta1"),
        (group, _) => format!("{group}/v1alpha1"),
    };
    kruise_core::conversion::convert(&mut object, &other).unwrap_or_else(|error| panic!("{error}: {value}"));
    Value::Object(object)
}
