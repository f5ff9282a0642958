//! What we do on purpose in another way than the original. Each is in the page about differences.
//!
//! Some writes of the original come together here, at least where a set has no hooks, so that states in between are not seen; [`BETWEEN`] says which. Everything
//! else that a Pod goes through has to be the same, in the same order.

use serde_json::{Value, json};

use super::{
    facts::text,
    fixture::{Fates, RECORDINGS, Recorded, Step, kind, steps},
};

/// States that the original always shows, and we need not, by what comes before and after them.
struct Between {
    reason: &'static str,
    is: fn(before: &Value, state: &Value, next: &Value) -> bool,
}

const BETWEEN: [Between; 3] = [
    Between {
        reason: "a Pod that has to wait for a hook loses its readiness and gets its lifecycle state in one write",
        is: |_, state, next| {
            phase(state) == "Normal" && phase(next).starts_with("Preparing") && !state["unready"].is_null()
        },
    },
    Between {
        reason: "a new Pod gets both conditions and its lifecycle state in one write, when it has a node: one write instead of three",
        is: |before, state, next| {
            let conditions = |state: &Value| state["conditions"].as_object().map_or(0, serde_json::Map::len);
            let is_new = ["", "PreparingNormal", "Normal"].contains(&phase(state));
            is_new && conditions(before) < 2 && conditions(state) > 0 && conditions(next) > 1
        },
    },
    Between {
        reason: "a Pod whose update is complete gets its readiness and its lifecycle state in one write",
        is: |_, state, _| phase(state) == "Updating" && state["conditions"]["InPlaceUpdateReady"]["status"] == "True",
    },
];

/// The states of a Pod without those in between.
pub(super) fn pod_writes(states: &[Value]) -> Vec<Value> {
    let mut seen: Vec<Value> = Vec::new();
    for (index, state) in states.iter().enumerate() {
        let skipped = index > 0
            && states
                .get(index + 1)
                .is_some_and(|next| is_between(&states[index - 1], state, next) || is_let_go(state, next));
        if !skipped && seen.last() != Some(state) {
            seen.push(state.clone());
        }
    }
    seen
}

fn is_between(before: &Value, state: &Value, next: &Value) -> bool {
    BETWEEN.iter().any(|between| (between.is)(before, state, next))
}

/// A Pod that is let go is ready before its lifecycle state says so. Only ours: the original does not let go of it.
fn is_let_go(state: &Value, next: &Value) -> bool {
    phase(state) == "PreparingUpdate"
        && phase(next) == "Normal"
        && state["conditions"]["KruisePodReady"]["status"] == "True"
}

/// Most Pods under update in a step: when the first of two Pods that are let go gets its readiness back, both are still in their state.
pub(super) fn updating(step: &Step) -> usize {
    if step.name == "08-rollback-while-preparing" {
        2
    } else {
        step.updating
    }
}

/// A Pod that waits for its hook and is rolled back is let go; the original keeps it not ready for ever.
pub(super) fn pod_state(before: &Value, state: &mut Value) {
    if phase(before) == "PreparingUpdate" && phase(state) == "Normal" {
        state["conditions"]["KruisePodReady"] = json!({"status": "True", "message": "[]"});
        if let Some(fields) = state.as_object_mut() {
            fields.remove("unready");
        }
    }
}

/// The ConfigMap that holds containers back is made with its first key, not empty.
pub(super) fn barrier_writes(states: &[Value]) -> Vec<Value> {
    let filled = states.iter().filter(|state| state["data"] != json!({}));
    filled.cloned().collect()
}

/// A job that pulls images for a DaemonSet names the revision by its hash, too, as Pods do. In the original the hash is empty, so that also Pods at the new
/// revision have their nodes pull.
pub(super) fn pull_jobs(recorded: &Fates) -> Fates {
    let mut jobs = recorded.clone();
    for state in jobs.values_mut().flatten() {
        let names = state.pointer("/spec/podSelector/matchExpressions/0/values");
        let hash = names.and_then(|names| text(&names[0]).rsplit_once('-'));
        let hash = hash.map(|(_, hash)| json!(hash)).unwrap_or_default();
        for place in [
            "/labels/controller.kubernetes.io~1hash",
            "/spec/podSelector/matchExpressions/0/values/1",
            "/spec/sandboxConfig/labels/controller.kubernetes.io~1hash",
        ] {
            if let Some(empty) = state.pointer_mut(place).filter(|value| **value == "") {
                *empty = hash.clone();
            }
        }
    }
    jobs
}

/// Conditions of sets that only the original has: those that stay for ever after a write met a changed object, which is tried again here.
fn is_of_a_conflict(condition: &Value) -> bool {
    condition["type"] == "FailedUpdate" && condition["status"] == "True"
}

/// What becomes of sets in a step.
pub(super) fn sets(step: &str, sets: &mut Value) {
    for set in sets.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
        let Some(status) = set["status"].as_object_mut() else {
            continue;
        };
        if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
            conditions.retain(|condition| !is_of_a_conflict(condition));
            if conditions.is_empty() {
                status.remove("conditions");
            }
        }
    }
    // Pods that were let go count: as ready, and as available unless they are to be deleted.
    let counts = match step {
        "08-rollback-while-preparing" => (2, 2),
        "09-scale-in-blocked" => (2, 1),
        "12-release-delete" => (1, 1),
        _ => return,
    };
    let status = &mut sets["hook"]["status"];
    for (names, count) in [
        (["readyReplicas", "updatedReadyReplicas"], counts.0),
        (["availableReplicas", "updatedAvailableReplicas"], counts.1),
    ] {
        for name in names {
            status[name] = json!(count);
        }
    }
}

fn phase(state: &Value) -> &str {
    state["labels"]["lifecycle.apps.kruise.io/state"]
        .as_str()
        .unwrap_or_default()
}

#[test]
fn given_the_recordings_then_each_difference_is_met_in_them() {
    let fates: Vec<Vec<Value>> = RECORDINGS
        .into_iter()
        .flat_map(|name| {
            let mut recorded = Recorded::new();
            let pods = steps(name).into_iter().map(move |step| recorded.pods(&step));
            pods.flatten().collect::<Vec<_>>()
        })
        .collect();
    for between in BETWEEN {
        let met = fates
            .iter()
            .flat_map(|states| states.windows(3))
            .any(|three| (between.is)(&three[0], &three[1], &three[2]));
        assert!(met, "no longer needed: {}", between.reason);
    }
}

#[test]
fn given_the_recordings_then_sets_have_no_other_condition_than_that_of_a_conflict() {
    for name in RECORDINGS.into_iter().filter(|name| kind(name) == "CloneSet") {
        let recorded = steps(name);
        let conditions: Vec<&Value> = recorded.iter().flat_map(Step::conditions).collect();
        assert!(!conditions.is_empty(), "no longer needed for {name}");
        assert!(conditions.into_iter().all(is_of_a_conflict), "{name}");
    }
    let (other, conflict) = (
        json!({"type": "FailedScale", "status": "True"}),
        json!({"type": "FailedUpdate", "status": "True"}),
    );
    let mut both =
        json!({"a": {"status": {"conditions": [other, conflict]}}, "b": {"status": {"conditions": [conflict]}}});
    sets("any", &mut both);
    assert_eq!(
        both,
        json!({"a": {"status": {"conditions": [other]}}, "b": {"status": {}}})
    );
}
