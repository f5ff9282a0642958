//! A recording, one step per line.
//!
//! Objects are called `p1`, `p2`, … and only what changed is there: the first line about an object has its whole state, later ones what differs, with
//! `null` for what is gone and the word `gone` for its end. Objects that had the same fate share an entry.

use std::collections::BTreeMap;

use kruise_testkit::recording::merge;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{differences, facts::items};

/// The recordings: a whole life, lifecycle hooks, the order of containers, images that are pulled ahead, and the lives of a StatefulSet and a DaemonSet.
pub(super) const RECORDINGS: [&str; 6] = [
    "01-cloneset",
    "02-lifecycle",
    "03-launch-priority",
    "16-pre-download",
    "04-statefulset",
    "05-daemonset",
];

/// What the sets of a recording are.
pub(super) fn kind(recording: &str) -> &'static str {
    match recording {
        "04-statefulset" => "StatefulSet",
        "05-daemonset" => "DaemonSet",
        _ => "CloneSet",
    }
}

/// What happened to objects, by their names in the recording.
pub(super) type Fates = BTreeMap<String, Vec<Value>>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Step {
    #[serde(rename = "step")]
    pub(super) name: String,
    pub(super) what: String,
    pub(super) requests: Vec<Request>,
    #[serde(default)]
    pods: Fates,
    #[serde(default)]
    claims: Fates,
    #[serde(default)]
    barriers: Fates,
    /// By their real names, each with its state before the step.
    #[serde(default)]
    pull_jobs: Fates,
    /// Environment of the Pods, by container.
    #[serde(default)]
    env: BTreeMap<String, Value>,
    #[serde(default)]
    revisions: Value,
    #[serde(default)]
    sets: Value,
    /// Type, reason, count and text, sorted.
    #[serde(default)]
    pub(super) events: Vec<String>,
    /// There were so many events by then that the original merged them and left some out.
    #[serde(default)]
    pub(super) merges_events: bool,
    /// How many Pods were under update at the same time.
    pub(super) updating: usize,
    /// The smallest and the largest number of Pods.
    pub(super) alive: [usize; 2],
}

impl Step {
    /// The conditions of all sets that changed.
    pub(super) fn conditions(&self) -> impl Iterator<Item = &Value> {
        let sets = self.sets.as_object().into_iter().flat_map(serde_json::Map::values);
        sets.flat_map(|set| items(&set["status"]["conditions"]))
    }
}

/// What the user did.
#[derive(Deserialize)]
pub(super) struct Request {
    pub(super) verb: String,
    /// Below the namespace. `$p1` stands for a Pod.
    pub(super) path: String,
    pub(super) body: Option<Value>,
    /// The code with which the original refused it.
    pub(super) refused: Option<u16>,
}

/// The steps of a recording.
pub(super) fn steps(name: &str) -> Vec<Step> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/recordings");
    let text = std::fs::read_to_string(format!("{folder}/{name}.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// How things stood in the recording.
pub(super) struct Recorded {
    pods: BTreeMap<String, Value>,
    claims: BTreeMap<String, Value>,
    barriers: BTreeMap<String, Value>,
    pub(super) revisions: Value,
    pub(super) sets: Value,
}

/// What is expected of a step: for each object that changes, its state before and all states after it.
pub(super) struct Expected {
    pub(super) pods: Vec<Vec<Value>>,
    pub(super) claims: Vec<Vec<Value>>,
    pub(super) barriers: Vec<Vec<Value>>,
    pub(super) pull_jobs: Fates,
    pub(super) env: Vec<Value>,
}

impl Recorded {
    pub(super) fn new() -> Self {
        Self {
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            barriers: BTreeMap::new(),
            revisions: json!({}),
            sets: json!({}),
        }
    }

    pub(super) fn pod(&self, id: &str) -> &Value {
        &self.pods[id]
    }

    /// The states of each Pod that changes in a step, as they were recorded.
    pub(super) fn pods(&mut self, step: &Step) -> Vec<Vec<Value>> {
        follow(&mut self.pods, &step.pods, differences::pod_state)
    }

    pub(super) fn take(&mut self, step: &Step) -> Expected {
        let pods = self.pods(step);
        let barriers = follow(&mut self.barriers, &step.barriers, |_, _| {});
        merge(&mut self.revisions, &step.revisions);
        merge(&mut self.sets, &step.sets);
        differences::sets(&step.name, &mut self.sets);
        let env = step
            .env
            .iter()
            .flat_map(|(ids, env)| ids.split(' ').map(move |_| env.clone()));
        Expected {
            pods: sorted(
                pods.into_iter()
                    .map(|states| by_writer(differences::pod_writes(&states))),
            ),
            claims: sorted(follow(&mut self.claims, &step.claims, |_, _| {})),
            barriers: sorted(barriers.into_iter().map(|states| differences::barrier_writes(&states))),
            pull_jobs: differences::pull_jobs(&step.pull_jobs),
            env: env.collect(),
        }
    }
}

fn follow(all: &mut BTreeMap<String, Value>, fates: &Fates, adapt: impl Fn(&Value, &mut Value)) -> Vec<Vec<Value>> {
    let mut followed = Vec::new();
    for (ids, changes) in fates {
        for id in ids.split(' ') {
            let mut states: Vec<Value> = all.get(id).cloned().into_iter().collect();
            for change in changes {
                let before = states.last().cloned().unwrap_or_else(|| json!({}));
                let mut state = before.clone();
                merge(&mut state, change);
                adapt(&before, &mut state);
                states.push(state);
            }
            all.insert(id.to_owned(), states.last().cloned().unwrap_or_default());
            followed.push(states);
        }
    }
    followed
}

/// The states of a Pod without the mark of the launch order, and then those of the mark: it has a controller of its own, and which of
/// two controllers is the first to write is chance.
pub(super) fn by_writer(mut states: Vec<Value>) -> Vec<Value> {
    let mut marks = Vec::new();
    for state in &mut states {
        let annotations = state.get_mut("annotations").and_then(Value::as_object_mut);
        let mark = annotations.and_then(|all| all.remove("apps.kruise.io/container-launch-priority-completed"));
        marks.push(mark.unwrap_or_default());
    }
    states.dedup();
    marks.dedup();
    states.push(json!({ "launched": marks }));
    states
}

/// In an order that does not depend on names.
pub(super) fn sorted(fates: impl IntoIterator<Item = Vec<Value>>) -> Vec<Vec<Value>> {
    let mut fates: Vec<Vec<Value>> = fates.into_iter().collect();
    fates.sort_by_cached_key(|states| json!(states).to_string());
    fates
}
