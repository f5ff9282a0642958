//! Objects that the original made: at every state at which another manager may take over, nothing is left to write.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use serde::de::DeserializeOwned;

use super::*;
use crate::daemonset::fixtures::env;
use crate::daemonset::world::read;
use crate::daemonset::{Observed, plan};
use crate::plan::Env;

macro_rules! recordings {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../../tests/fixtures/takeover/", $name, ".jsonl")))),+]
    };
}

/// In place, and with a Pod that waits for its hook.
const RECORDINGS: [(&str, &str); 2] = recordings!["10-daemonset-inplace", "19-daemonset-preparing-delete"];

/// One state of a recording: its name, what is there, and when.
struct State {
    name: String,
    objects: BTreeMap<String, Value>,
    env: Env,
}

fn states(lines: &str) -> Vec<State> {
    let mut states: Vec<State> = Vec::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let Some(name) = line.get("state") {
            let mut objects = states.last().map(|last| last.objects.clone()).unwrap_or_default();
            for gone in line["gone"].as_array().unwrap() {
                objects.remove(gone.as_str().unwrap());
            }
            let at: jiff::Timestamp = line["at"].as_str().unwrap().parse().unwrap();
            states.push(State {
                name: name.as_str().unwrap().to_owned(),
                objects,
                env: Env {
                    now: at + SignedDuration::from_secs(60),
                    ..env()
                },
            });
        } else {
            let name = line["metadata"]["name"].as_str().unwrap();
            let key = format!("{}/{name}", line["kind"].as_str().unwrap());
            states.last_mut().unwrap().objects.insert(key, line);
        }
    }
    states
}

impl State {
    fn all<T: DeserializeOwned>(&self, kind: &str) -> Vec<Arc<T>> {
        let objects = self.objects.values().filter(|object| object["kind"] == kind);
        objects.map(read).collect()
    }

    fn observed(&self) -> Observed {
        Observed {
            set: self.all("DaemonSet").remove(0),
            pods: self.all("Pod"),
            revisions: self.all("ControllerRevision"),
            nodes: ["node1", "node2", "node3"].map(|name| read(&node(name))).into(),
            ..Observed::default()
        }
    }
}

#[test]
fn given_objects_of_the_original_then_nothing_is_written() {
    let mut count = 0;
    for (recording, lines) in RECORDINGS {
        for state in states(lines) {
            let plan = plan(&state.observed(), &state.env);
            let shown = serde_json::to_string_pretty(&plan).unwrap();
            assert!(
                plan.is_idle() && plan.events.is_empty(),
                "{recording}, {}: {shown}",
                state.name
            );
            count += 1;
        }
    }
    assert_eq!(count, 8);
}

/// The user's next step is the spec of the next state, with the objects of this one.
#[test]
fn given_the_next_step_of_the_user_then_one_pod_is_updated_in_place() {
    let states = states(RECORDINGS[0].1);
    let [before, after] = &states[..2] else {
        panic!("two states")
    };
    let mut observed = before.observed();
    Arc::make_mut(&mut observed.set).spec = after.observed().set.spec.clone();
    let plan = plan(&observed, &before.env);
    let writes: Vec<&Action> = plan.writes().collect();
    assert_eq!(writes[0].object().resource, ControllerRevision::RESOURCE);
    let pods: Vec<&str> = writes[1..].iter().map(|write| write.object().name.as_str()).collect();
    assert_eq!((pods.len(), pods[0]), (2, pods[1]), "{writes:#?}");
}
