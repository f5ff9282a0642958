use super::*;

fn status(value: Value) -> Status {
    serde_json::from_value(value).unwrap()
}

#[test]
fn equal_states_need_no_write() {
    let same = status(json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] }));
    assert_eq!(difference("u", &same, &same), None);
}

#[test]
fn only_what_differs_is_written_and_foreign_conditions_stay() {
    let read = status(json!({
        "phase": "Running",
        "conditions": [
            { "type": "Foreign", "status": "True" },
            { "type": "Ready", "status": "False", "reason": "R", "message": "M" },
            { "type": "PodResizePending", "status": "True" },
        ],
    }));
    let mut wanted = read.clone();
    wanted
        .conditions
        .retain(|condition| condition.kind != "PodResizePending");
    let now = "2026-01-01T00:00:05.7Z".parse().unwrap();
    set(&mut wanted, condition("Ready", true, None, None), now);
    assert_eq!(
        difference("u", &read, &wanted).unwrap(),
        json!({
            "metadata": { "uid": "u" },
            "status": { "conditions": [
                { "$patch": "delete", "type": "PodResizePending" },
                { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z", "reason": null, "message": null },
            ] },
        })
    );
}

#[test]
fn a_condition_keeps_its_time_while_its_status_stays() {
    let time: Timestamp = "2026-01-01T00:00:05Z".parse().unwrap();
    let later: Timestamp = "2026-01-01T00:00:09Z".parse().unwrap();
    let mut known = Status::default();
    set(&mut known, condition("Ready", false, Some("A"), None), time);
    set(&mut known, condition("Ready", false, Some("B"), None), later);
    assert_eq!(known.condition("Ready").unwrap().last_transition_time, Some(time));
    set(&mut known, condition("Ready", true, None, None), later);
    assert_eq!(known.condition("Ready").unwrap().last_transition_time, Some(later));
    // Another writer turned it and left no time.
    known.conditions[0] = Condition {
        last_transition_time: None,
        ..condition("Ready", false, None, None)
    };
    set(&mut known, condition("Ready", false, None, None), later);
    assert_eq!(known.condition("Ready").unwrap().last_transition_time, Some(later));
}

#[test]
fn an_unreachable_node_turns_ready_only() {
    let pod: PodView = serde_json::from_value(json!({
        "metadata": { "name": "a", "uid": "u" }, "spec": {},
        "status": { "phase": "Running", "conditions": [
            { "type": "ContainersReady", "status": "True" }, { "type": "Ready", "status": "True" },
        ] },
    }))
    .unwrap();
    let patch = difference("u", &pod.status, &report_unreachable(&pod, Timestamp::UNIX_EPOCH)).unwrap();
    assert_eq!(
        patch["status"],
        json!({ "conditions": [{ "type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:00:00Z" }] })
    );
}
