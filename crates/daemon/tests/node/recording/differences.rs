//! What we do on purpose in another way than the original, and what may be left out. The page about differences has them for users.

use serde_json::Value;

use super::fixture::{Recorded, alike, steps};

/// A state that need not be seen, by the one after it.
struct Passing {
    reason: &'static str,
    is: fn(state: &Value, next: &Value) -> bool,
}

const PASSING: [Passing; 1] = [Passing {
    reason: "a job that runs writes its status at most once a second",
    is: |state, next| {
        let is_begun = state["status"]["active"].as_i64() > Some(0) || done(state) > 0;
        runs(state) && is_begun && !next["status"].is_null() && next["status"] != state["status"]
    },
}];

/// Whether all states were seen in their order and no other, save those that may be left out or come in between, and the end of what goes when its
/// time is over.
pub(super) fn same_way(recorded: &[Value], seen: &[Value]) -> bool {
    let mut rest = seen;
    if recorded.last().is_some_and(is_left_to_its_time)
        && let Some((end, before)) = seen.split_last()
        && end == "gone"
    {
        rest = before;
    }
    let mut rest = rest.iter().peekable();
    let mut before = &Value::Null;
    for (index, state) in recorded.iter().enumerate() {
        while let Some(between) = rest.next_if(|seen| !alike(state, seen) && is_between(before, seen)) {
            before = between;
        }
        let there = rest.next_if(|seen| alike(state, seen) && follows(before, seen));
        let is_there = there.is_some();
        before = there.unwrap_or(before);
        let passes = || {
            recorded
                .get(index + 1)
                .is_some_and(|next| PASSING.iter().any(|passing| (passing.is)(state, next)))
        };
        if !is_there && !passes() {
            return false;
        }
    }
    rest.next().is_none()
}

/// A job that runs is seen again only with another status, and never with fewer nodes behind it.
fn follows(before: &Value, seen: &Value) -> bool {
    !runs(before) || !runs(seen) || (done(seen) >= done(before) && seen != before)
}

/// How many nodes pull and how many have pulled when a job writes its status is a matter of time: whether `seen` follows `before` within the bounds of the job.
fn is_between(before: &Value, seen: &Value) -> bool {
    if !runs(before) || !runs(seen) || seen["status"] == before["status"] {
        return false;
    }
    let besides_counts = |state: &Value| {
        let mut state = state.clone();
        for field in ["active", "succeeded", "failed", "message"] {
            state["status"][field] = Value::Null;
        }
        state
    };
    let number = |pointer: &str| seen.pointer(pointer).and_then(Value::as_i64).unwrap_or(i64::MAX);
    let active = number("/status/active");
    besides_counts(before) == besides_counts(seen)
        && follows(before, seen)
        && active <= number("/spec/parallelism")
        && active + done(seen) <= number("/status/desired")
}

/// A daemon reports as soon as it pulls; the original every few seconds, so that short pulls are never seen.
pub(super) fn is_under_way(tag: &Value) -> bool {
    ["Waiting", "Pulling"].iter().any(|phase| tag["phase"] == *phase)
}

/// A job that is not yet done.
fn runs(state: &Value) -> bool {
    let status = &state["status"];
    status["active"].is_i64() && status["completionTime"].is_null()
}

/// Done, and kept for so many seconds.
fn is_left_to_its_time(state: &Value) -> bool {
    let spec = &state["spec"];
    let lives = [spec, &spec["completionPolicy"]].map(|spec| &spec["ttlSecondsAfterFinished"]);
    lives.iter().any(|seconds| seconds.is_i64()) && !state["status"]["completionTime"].is_null()
}

fn done(state: &Value) -> i64 {
    ["succeeded", "failed"]
        .iter()
        .filter_map(|field| state["status"][*field].as_i64())
        .sum()
}

/// All states of the recording, as if the steps had been done one after the other.
fn everything() -> Recorded {
    let mut recorded = Recorded::default();
    for step in steps() {
        recorded.take(&step);
    }
    recorded
}

#[test]
fn given_the_recording_then_each_difference_is_met_in_it() {
    let recorded = everything();
    for passing in PASSING {
        let mut two = recorded.objects.values().flat_map(|states| states.windows(2));
        assert!(
            two.any(|two| (passing.is)(&two[0], &two[1])),
            "no longer needed: {}",
            passing.reason
        );
    }
}

#[test]
fn given_another_way_then_it_is_noticed() {
    let recorded = everything();
    for states in recorded.objects.values().chain(recorded.tags.values()) {
        // Times, ranges and endings stand for what they are like, so the recording is not like itself.
        let mut seen: Vec<Value> = states.iter().map(like).collect();
        assert!(same_way(states, &seen), "{seen:?}");
        seen.push("gone".into());
        assert_eq!(
            same_way(states, &seen),
            states.last().is_some_and(is_left_to_its_time),
            "it is gone: {seen:?}"
        );
        seen.pop();
        let last = seen.pop();
        assert!(!same_way(states, &seen), "its end is missing: {last:?}");
        seen.extend(last.clone());
        seen.extend(last);
        assert!(!same_way(states, &seen), "there is one more: {seen:?}");
        seen.pop();
        seen[0]["labels"]["some"] = serde_json::json!("other");
        assert!(!same_way(states, &seen), "its beginning is another: {seen:?}");
    }
}

#[test]
fn given_a_job_that_runs_then_only_its_counts_may_come_in_between() {
    let state = |active: i64, succeeded: i64, completed: &str| {
        let mut state = serde_json::json!({
            "spec": {"parallelism": 2},
            "status": {"desired": 3, "active": active, "succeeded": succeeded, "failed": 0, "startTime": "T"},
        });
        if !completed.is_empty() {
            state["status"]["completionTime"] = completed.into();
        }
        state
    };
    let time = "2026-01-01T00:00:00Z";
    let at = |states: &[[i64; 2]]| -> Vec<Value> {
        let running = states.iter().map(|[active, done]| like(&state(*active, *done, "")));
        running.chain([like(&state(0, 3, time))]).collect()
    };
    let recorded = [state(0, 0, ""), state(2, 0, ""), state(1, 1, ""), state(0, 3, "T")];
    for fine in [
        &[[0, 0], [2, 0], [1, 1]][..],
        &[[0, 0]],
        &[[0, 0], [0, 2], [1, 2]],
        &[[0, 0], [2, 0], [2, 1]],
    ] {
        assert!(same_way(&recorded, &at(fine)), "{fine:?}");
    }
    for wrong in [
        &[[2, 0]][..],
        &[[0, 0], [3, 0]],
        &[[0, 0], [1, 1], [2, 0]],
        &[[0, 0], [2, 2]],
        &[[0, 0], [1, 1], [1, 1]],
    ] {
        assert!(!same_way(&recorded, &at(wrong)), "{wrong:?}");
    }
}

/// Something that a pattern stands for.
fn like(pattern: &Value) -> Value {
    match pattern {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), like(value))).collect(),
        Value::Array(items) if items.len() == 2 && items[0].is_i64() => items[0].clone(),
        Value::Array(items) => items.iter().map(like).collect(),
        Value::String(text) if text == "T" => "2026-01-01T00:00:00Z".into(),
        other => other.clone(),
    }
}
