//! Objects that the original made: at every state at which another manager may take over, nothing is left to write.

use std::sync::Arc;

use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_api::kind::Kind as _;
use kruise_api::meta::PartialObject;
use kruise_api::revision::ControllerRevision;

use super::super::fixtures::env;
use super::super::{Observed, plan};
use crate::plan::Env;
use crate::shared::takeover::{State, recordings, states};

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

fn env_of(state: &State) -> Env {
    Env {
        now: state.now,
        ..env()
    }
}

fn observed(state: &State) -> Observed {
    Observed {
        set: state.all("CloneSet").remove(0),
        pods: state.all("Pod"),
        claims: state.all::<PartialObject>("PersistentVolumeClaim"),
        revisions: state.all("ControllerRevision"),
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
        let mut now = observed(before);
        let wanted = observed(after);
        let set = Arc::make_mut(&mut now.set);
        set.spec = wanted.set.spec.clone();
        let plan = plan(&now, &env_of(before));
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
