//! Objects that the original made: at every state at which another manager may take over, nothing is left to write.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_api::kind::Kind as _;
use kruise_api::meta::PartialObject;
use kruise_api::revision::ControllerRevision;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::fixtures::env;
use super::super::world::read;
use super::super::{Observed, plan};
use crate::plan::Env;

macro_rules! recordings {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../../tests/fixtures/takeover/", $name, ".jsonl")))),+]
    };
}

/// In place and recreated, with and without claims, written by clients of both versions, and two with lifecycle hooks.
const RECORDINGS: [(&str, &str); 10] = recordings![
    "01-cloneset-beta-inplace",
    "02-cloneset-beta-inplace-pvc",
    "03-cloneset-alpha-inplace",
    "04-cloneset-alpha-inplace-pvc",
    "05-cloneset-beta-recreate",
    "06-cloneset-beta-recreate-pvc",
    "07-cloneset-alpha-recreate",
    "08-cloneset-alpha-recreate-pvc",
    "16-cloneset-preparing-update",
    "17-cloneset-preparing-delete",
];

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
            let env = Env {
                now: at + SignedDuration::from_secs(60),
                ..env()
            };
            states.push(State {
                name: name.as_str().unwrap().to_owned(),
                objects,
                env,
            });
        } else {
            let key = format!(
                "{}/{}",
                line["kind"].as_str().unwrap(),
                line["metadata"]["name"].as_str().unwrap()
            );
            states.last_mut().unwrap().objects.insert(key, line);
        }
    }
    states
}

impl State {
    fn all<T: DeserializeOwned>(&self, kind: &str) -> Vec<Arc<T>> {
        self.objects
            .values()
            .filter(|object| object["kind"] == kind)
            .map(read)
            .collect()
    }

    fn observed(&self) -> Observed {
        Observed {
            set: self.all("CloneSet").remove(0),
            pods: self.all("Pod"),
            claims: self.all::<PartialObject>("PersistentVolumeClaim"),
            revisions: self.all("ControllerRevision"),
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
    assert_eq!(count, 46);
}

/// The user's next step is the spec of the next state, with the objects of this one.
#[test]
fn given_the_next_step_of_the_user_then_the_plan_goes_where_the_original_went() {
    for (recording, lines) in &RECORDINGS[..4] {
        let states = states(lines);
        let [before, after] = &states[..2] else {
            panic!("{recording}")
        };
        let mut observed = before.observed();
        let wanted = after.observed();
        let set = Arc::make_mut(&mut observed.set);
        set.spec = wanted.set.spec.clone();
        let plan = plan(&observed, &before.env);
        let writes: Vec<_> = plan.writes().collect();
        // The revision that the original made, by name, and one Pod at a time, in place.
        assert_eq!(writes[0].object().resource, ControllerRevision::RESOURCE, "{recording}");
        assert_eq!(
            &writes[0].object().name,
            &wanted.set.status.as_ref().unwrap().update_revision,
            "{recording}"
        );
        let pods: Vec<&str> = writes[1..].iter().map(|write| write.object().name.as_str()).collect();
        assert_eq!((pods.len(), pods[0]), (2, pods[1]), "{recording}");
        let status = plan.status.unwrap();
        assert_eq!(status.object().resource, CloneSet::RESOURCE);
    }
}
