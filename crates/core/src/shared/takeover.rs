//! Objects that the original left behind, at every state at which another manager may take over.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The recordings of these names, each with its lines.
macro_rules! recordings {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/takeover/", $name, ".jsonl")))),+]
    };
}
pub(crate) use recordings;

/// One state of a recording.
pub(crate) struct State {
    pub(crate) name: String,
    objects: BTreeMap<String, Value>,
    /// A minute after it was recorded.
    pub(crate) now: Timestamp,
}

impl State {
    /// The objects of a kind.
    pub(crate) fn all<T: DeserializeOwned>(&self, kind: &str) -> Vec<Arc<T>> {
        let objects = self.objects.values().filter(|object| object["kind"] == kind);
        // Through text, because raw parts keep what was written.
        let read = |object: &Value| Arc::new(serde_json::from_str(&object.to_string()).unwrap());
        objects.map(read).collect()
    }
}

/// The states of a recording, in order. Each line is a state, or an object that is new or changed in it.
pub(crate) fn states(lines: &str) -> Vec<State> {
    let mut states: Vec<State> = Vec::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let Some(name) = line["state"].as_str() {
            let mut objects = states.last().map(|last| last.objects.clone()).unwrap_or_default();
            for gone in line["gone"].as_array().unwrap() {
                objects.remove(gone.as_str().unwrap());
            }
            let at: Timestamp = line["at"].as_str().unwrap().parse().unwrap();
            states.push(State {
                name: name.to_owned(),
                objects,
                now: at + SignedDuration::from_secs(60),
            });
        } else {
            let (kind, name) = (&line["kind"], &line["metadata"]["name"]);
            let key = format!("{}/{}", kind.as_str().unwrap(), name.as_str().unwrap());
            states.last_mut().unwrap().objects.insert(key, line);
        }
    }
    states
}
