//! What we do on purpose in another way than the original. Each is in the page about differences.
//!
//! Some writes of the original come together here, so that states in between are never seen; [`SEEN_ONLY_THERE`] says which. Everything else that a Pod goes
//! through has to be the same, in the same order.

use serde_json::{Value, json};

use super::fixture::{RECORDINGS, Recorded, steps};

/// States that only the original shows, by what comes before and after them.
struct Between {
    reason: &'static str,
    is: fn(before: &Value, state: &Value, next: &Value) -> bool,
}

const SEEN_ONLY_THERE: [Between; 3] = [
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
            phase(state) == "PreparingNormal" && conditions(before) < 2 && conditions(state) > 0 && conditions(next) > 1
        },
    },
    Between {
        reason: "a Pod whose update is complete gets its readiness and its lifecycle state in one write",
        is: |_, state, _| phase(state) == "Updating" && state["conditions"]["InPlaceUpdateReady"]["status"] == "True",
    },
];

/// The writes of ours that lead through these states.
pub(super) fn pod_writes(states: &[Value]) -> Vec<Value> {
    let mut seen: Vec<Value> = Vec::new();
    for (index, state) in states.iter().enumerate() {
        let skipped = index > 0
            && states
                .get(index + 1)
                .is_some_and(|next| is_seen_only_there(&states[index - 1], state, next));
        if !skipped && seen.last() != Some(state) {
            seen.push(state.clone());
        }
    }
    seen
}

fn is_seen_only_there(before: &Value, state: &Value, next: &Value) -> bool {
    SEEN_ONLY_THERE.iter().any(|between| (between.is)(before, state, next))
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

/// What becomes of sets in a step.
pub(super) fn sets(step: &str, sets: &mut Value) {
    for set in sets.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
        // A write that met a changed object is tried again, without a condition.
        if let Some(status) = set["status"].as_object_mut() {
            status.remove("conditions");
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
    for between in SEEN_ONLY_THERE {
        let met = fates
            .iter()
            .flat_map(|states| states.windows(3))
            .any(|three| (between.is)(&three[0], &three[1], &three[2]));
        assert!(met, "no longer needed: {}", between.reason);
    }
}
