//! Objects that the original made: at every state at which another manager may take over, nothing is left to write.

use std::sync::Arc;

use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use kruise_api::statefulset::v1beta1::StatefulSet;
use kruise_api::storage::PersistentVolumeClaim;

use super::super::fixtures::env;
use super::super::{Names, Observed, plan};
use crate::plan::{Action, Env};
use crate::shared::owner::is_controlled_by;
use crate::shared::takeover::{State, recordings, states};

/// In place with claims, and sets whose Pods wait for a hook: `upd` before an update, `del` before a deletion.
const RECORDINGS: [(&str, &str); 2] = recordings!["09-statefulset-inplace-pvc", "18-statefulset-lifecycle"];

fn env_of(state: &State) -> Env {
    Env {
        now: state.now,
        ..env()
    }
}

/// The sets of a state, each with what belongs to it.
fn observed(state: &State) -> Vec<Observed> {
    let sets = state.all::<StatefulSet>("StatefulSet");
    let of_set = |set: Arc<StatefulSet>| {
        let uid = set.metadata.uid.as_deref().unwrap().into();
        let mut pods = state.all::<Pod>("Pod");
        pods.retain(|pod| is_controlled_by(&pod.metadata, &uid));
        let mut revisions = state.all::<ControllerRevision>("ControllerRevision");
        revisions.retain(|revision| is_controlled_by(&revision.metadata, &uid));
        let names = Names::of(&set, &pods, env().gates).claims;
        let mut claims = state.all::<PersistentVolumeClaim>("PersistentVolumeClaim");
        claims.retain(|claim| names.iter().any(|name| *name == *claim.metadata.name));
        Observed {
            set,
            pods,
            claims,
            revisions,
            ..Observed::default()
        }
    };
    sets.into_iter().map(of_set).collect()
}

#[test]
fn given_objects_of_the_original_then_nothing_is_written() {
    let mut count = 0;
    for (recording, lines) in RECORDINGS {
        for state in states(lines) {
            for observed in observed(&state) {
                assert!(!observed.pods.is_empty() && !observed.claims.is_empty());
                let plan = plan(&observed, &env_of(&state));
                let shown = serde_json::to_string_pretty(&plan).unwrap();
                assert!(
                    plan.is_idle() && plan.events.is_empty(),
                    "{recording}, {}: {shown}",
                    state.name
                );
                count += 1;
            }
        }
    }
    assert_eq!(count, 11);
}

/// The user's next step is the spec of the next state, with the objects of this one.
#[test]
fn given_the_next_step_of_the_user_then_the_highest_pod_is_updated_in_place_to_the_originals_revision() {
    let states = states(RECORDINGS[0].1);
    let [before, after] = &states[..2] else {
        panic!("two states")
    };
    let (mut now, wanted) = (observed(before).remove(0), observed(after).remove(0));
    Arc::make_mut(&mut now.set).spec = wanted.set.spec.clone();
    let plan = plan(&now, &env_of(before));
    let writes: Vec<&Action> = plan.writes().collect();
    assert_eq!(writes[0].object().resource, ControllerRevision::RESOURCE);
    assert_eq!(
        writes[0].object().name,
        wanted.set.status.as_ref().unwrap().update_revision
    );
    let pods: Vec<&str> = writes[1..].iter().map(|write| write.object().name.as_str()).collect();
    assert_eq!(pods, ["web-2", "web-2"]);
}
