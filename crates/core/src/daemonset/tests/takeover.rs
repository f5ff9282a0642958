//! Objects that the original made: at every state at which another manager may take over, nothing is left to write.

use std::sync::Arc;

use super::*;
use crate::daemonset::fixtures::env;
use crate::daemonset::world::read;
use crate::daemonset::{Observed, plan};
use crate::plan::Env;
use crate::shared::takeover::{State, recordings, states};

/// In place, and with a Pod that waits for its hook.
const RECORDINGS: [(&str, &str); 2] = recordings!["10-daemonset-inplace", "19-daemonset-preparing-delete"];

fn env_of(state: &State) -> Env {
    Env {
        now: state.now,
        ..env()
    }
}

fn observed(state: &State) -> Observed {
    Observed {
        set: state.all("DaemonSet").remove(0),
        pods: state.all("Pod"),
        revisions: state.all("ControllerRevision"),
        nodes: ["node1", "node2", "node3"].map(|name| read(&node(name))).into(),
        ..Observed::default()
    }
}

#[test]
fn given_objects_of_the_original_then_nothing_is_written() {
    let mut count = 0;
    for (recording, lines) in RECORDINGS {
        for state in states(lines) {
            let plan = plan(&observed(&state), &env_of(&state));
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
    let mut now = observed(before);
    Arc::make_mut(&mut now.set).spec = observed(after).set.spec.clone();
    let plan = plan(&now, &env_of(before));
    let writes: Vec<&Action> = plan.writes().collect();
    assert_eq!(writes[0].object().resource, ControllerRevision::RESOURCE);
    let pods: Vec<&str> = writes[1..].iter().map(|write| write.object().name.as_str()).collect();
    assert_eq!((pods.len(), pods[0]), (2, pods[1]), "{writes:#?}");
}
