//! The recording, one step per line.
//!
//! The first line about an object has its whole state, later ones what differs, with `null` for what is gone and the word `gone` for its end. Names that are
//! chance have a word in their place (`$NS`, `$POD`, …), `T` is any time, `*` at the end of a text any ending, and a range (`[600, 900]`) any number in it.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use kruise_testkit::recording::merge;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Seconds of the recording that only make it long, and how many they are here: step, field, then, now.
///
/// `b` lies dead for twenty seconds from the midst of step 10 on, see [`super::TWICE`]: so it is dead when step 11 begins, and has been back for a while when it ends.
pub(super) const SHORTER: [(&str, &str, u32, u32); 4] = [
    ("07-crr-success", "ttlSecondsAfterFinished", 60, 15),
    ("11-crr-failure", "activeDeadlineSeconds", 45, 30),
    ("11-crr-failure", "minStartedSeconds", 10, 2),
    ("12-crr-ignore", "activeDeadlineSeconds", 45, 6),
];

#[derive(Deserialize)]
pub(super) struct Step {
    #[serde(rename = "step")]
    pub(super) name: String,
    pub(super) what: String,
    pub(super) requests: Vec<Asked>,
    #[serde(default)]
    objects: BTreeMap<String, Vec<Value>>,
    /// By image, then by the names of the nodes with the same fate.
    #[serde(default)]
    tags: BTreeMap<String, BTreeMap<String, Vec<Value>>>,
    #[serde(default)]
    pub(super) pod: PodFacts,
    /// Object, type, reason, count, component and text.
    #[serde(default)]
    events: Vec<String>,
}

/// What the user did.
#[derive(Deserialize, Serialize)]
pub(super) struct Asked {
    pub(super) verb: String,
    /// Below the namespace.
    pub(super) path: String,
    pub(super) body: Option<Value>,
    pub(super) refused: Option<Refused>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Refused {
    pub(super) code: u16,
    pub(super) sentence: String,
}

#[derive(Default, Deserialize)]
pub(super) struct PodFacts {
    /// The states of the condition `KruisePodReady`.
    #[serde(default)]
    ready: Vec<Value>,
    /// How often containers were restarted in this step.
    #[serde(default)]
    pub(super) restarts: BTreeMap<String, i64>,
    /// What the daemon told of the containers at the end of the step.
    pub(super) hashes: Option<Value>,
}

pub(super) fn steps() -> Vec<Step> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/recordings/images-and-recreate.jsonl"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (step, field, then, now) in SHORTER {
        let line = lines.iter_mut().find(|line| line.contains(step)).unwrap();
        let shorter = line.replace(&format!("\"{field}\":{then}"), &format!("\"{field}\":{now}"));
        assert_ne!(*line, shorter, "{step} has no {field} of {then}");
        *line = shorter;
    }
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// All that was recorded up to some step: every state of every object.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) objects: BTreeMap<String, Vec<Value>>,
    /// By node and image.
    pub(super) tags: BTreeMap<String, Vec<Value>>,
    pub(super) ready: Value,
    pub(super) events: Vec<String>,
}

impl Recorded {
    pub(super) fn take(&mut self, step: &Step) {
        for (name, changes) in &step.objects {
            follow(self.objects.entry(name.clone()).or_default(), changes);
        }
        for (image, fates) in &step.tags {
            for (nodes, changes) in fates {
                for node in nodes.split(' ') {
                    follow(self.tags.entry(format!("{node} {image}")).or_default(), changes);
                }
            }
        }
        let mut ready = self.ready.as_array().cloned().unwrap_or_default();
        ready.extend_from_slice(&step.pod.ready);
        self.ready = Value::Array(ready);
        self.events.extend_from_slice(&step.events);
    }
}

fn follow(states: &mut Vec<Value>, changes: &[Value]) {
    for change in changes {
        let mut state = states.last().cloned().unwrap_or_default();
        merge(&mut state, change);
        states.push(state);
    }
}

/// Whether what was seen is what was recorded.
pub(super) fn alike(recorded: &Value, seen: &Value) -> bool {
    match (recorded, seen) {
        (Value::Object(recorded), Value::Object(seen)) => {
            recorded.len() == seen.len()
                && recorded
                    .iter()
                    .all(|(name, recorded)| seen.get(name).is_some_and(|seen| alike(recorded, seen)))
        }
        (Value::Array(recorded), Value::Array(seen)) => {
            recorded.len() == seen.len() && recorded.iter().zip(seen).all(|(recorded, seen)| alike(recorded, seen))
        }
        (Value::Array(range), Value::Number(seen)) => match range.as_slice() {
            [from, below] => (from.as_i64()..below.as_i64()).contains(&seen.as_i64()),
            _ => false,
        },
        (Value::String(recorded), Value::String(seen)) => match recorded.strip_suffix('*') {
            Some(begin) => seen.starts_with(begin),
            None if recorded == "T" => seen.parse::<Timestamp>().is_ok(),
            None => recorded == seen,
        },
        (recorded, seen) => recorded == seen,
    }
}
