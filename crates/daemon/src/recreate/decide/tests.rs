use super::*;
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T00:01:00Z";

fn now() -> Timestamp {
    NOW.parse().expect("a time")
}

fn request(strategy: &Value, states: &Value, snapshot: &Value) -> ContainerRecreateRequest {
    serde_json::from_value(json!({
        "metadata": {"name": "r", "namespace": "n"},
        "spec": {"podName": "p", "strategy": strategy, "containers": [
            {"name": "a", "statusContext": {"containerID": "containerd://a0", "restartCount": 0}},
            {"name": "b", "statusContext": {"containerID": "containerd://b0", "restartCount": 2}},
        ]},
        "status": {"phase": "Recreating", "containerRecreateStates": states, "containerStatusSnapshot": snapshot},
    }))
    .expect("a request")
}

/// A container that has run for some seconds.
fn container(id: &str, restarts: i32, state: ContainerState, seconds: i64) -> ContainerStatus {
    let restarts = (
        kruise_api::names::node::container::RESTART_COUNT.to_owned(),
        restarts.to_string(),
    );
    ContainerStatus {
        id: id.to_owned(),
        state: state.into(),
        started_at: (now().as_second() - seconds) * 1_000_000_000,
        annotations: [restarts].into(),
        ..ContainerStatus::default()
    }
}

fn on_node(containers: &[(&str, ContainerStatus)]) -> OnNode {
    containers
        .iter()
        .map(|(name, status)| ((*name).to_owned(), status.clone()))
        .collect()
}

fn phase_of_a(request: &ContainerRecreateRequest, on_node: &OnNode, killed: bool) -> (String, bool, Option<Duration>) {
    let observed = observe(request, "containerd", on_node, |_| killed, now());
    let state = &observed.states[0];
    (state.phase.to_string(), state.is_killed, observed.look_again)
}

// One table.
#[allow(clippy::too_many_lines)]
#[test]
fn given_a_container_then_it_counts_as_the_table_says() {
    use ContainerState::{ContainerExited as Exited, ContainerRunning as Running};
    let (none, killed) = (
        json!([]),
        json!([{"name": "a", "phase": "Recreating", "isKilled": true}]),
    );
    let ready = |id: &str, ready: bool| json!([{"name": "a", "ready": ready, "restartCount": 1, "containerID": format!("containerd://{id}")}]);
    let (plain, force, slow) = (
        json!({}),
        json!({"forceRecreate": true}),
        json!({"minStartedSeconds": 10}),
    );
    let old = container("a0", 0, Running, 99);
    let new = container("a1", 1, Running, 10);
    let restarted_same_id = container("a0", 1, Running, 10);
    let exited = container("a0", 0, Exited, 10);
    let wait = Some(Duration::from_millis(100));
    for (what, strategy, states, snapshot, seen, expected) in [
        (
            "the old one",
            &plain,
            &none,
            json!([]),
            Some(&old),
            ("Pending", false, None),
        ),
        ("not there", &plain, &none, json!([]), None, ("Pending", false, None)),
        (
            "exited",
            &plain,
            &none,
            json!([]),
            Some(&exited),
            ("Recreating", false, None),
        ),
        (
            "exited, force",
            &force,
            &none,
            json!([]),
            Some(&exited),
            ("Recreating", false, None),
        ),
        (
            "another",
            &plain,
            &none,
            json!([]),
            Some(&new),
            ("Recreating", false, None),
        ),
        (
            "another, ready",
            &plain,
            &none,
            ready("a1", true),
            Some(&new),
            ("Succeeded", false, None),
        ),
        (
            "another, not ready",
            &plain,
            &none,
            ready("a1", false),
            Some(&new),
            ("Recreating", false, None),
        ),
        (
            "ready is another",
            &plain,
            &none,
            ready("a2", true),
            Some(&new),
            ("Recreating", false, None),
        ),
        (
            "more restarts",
            &plain,
            &none,
            ready("a0", true),
            Some(&restarted_same_id),
            ("Succeeded", false, None),
        ),
        (
            "force, by itself",
            &force,
            &none,
            ready("a1", true),
            Some(&new),
            ("Pending", false, None),
        ),
        (
            "force, killed",
            &force,
            &killed,
            ready("a1", true),
            Some(&new),
            ("Succeeded", true, None),
        ),
        (
            "exactly as long as needed",
            &slow,
            &killed,
            ready("a1", true),
            Some(&new),
            ("Recreating", true, wait),
        ),
    ] {
        let request = request(strategy, states, &snapshot);
        let on_node = seen.map_or_else(OnNode::new, |seen| on_node(&[("a", seen.clone())]));
        let (phase, is_killed, again) = phase_of_a(&request, &on_node, false);
        assert_eq!((phase.as_str(), is_killed, again), expected, "{what}");
    }
    // What was stopped but could not be written down is remembered.
    let request = request(&force, &none, &json!([]));
    assert_eq!(phase_of_a(&request, &on_node(&[("a", new)]), true).0, "Recreating");
}

#[test]
fn given_a_container_that_is_settled_then_it_stays_so() {
    let states = json!([{"name": "a", "phase": "Failed", "message": "why"}, {"name": "b", "phase": "Succeeded"}]);
    let request = request(&json!({}), &states, &json!([]));
    let observed = observe(&request, "containerd", &OnNode::new(), |_| false, now());
    assert_eq!(
        observed.states,
        request.status.expect("a status").container_recreate_states
    );
}

#[test]
fn given_states_then_the_next_step_follows_order_and_policy() {
    let both = on_node(&[
        ("a", container("a0", 0, ContainerState::ContainerRunning, 1)),
        ("b", container("b0", 0, ContainerState::ContainerRunning, 1)),
    ]);
    let (plain, ordered, ignore) = (
        json!({"failurePolicy": "Fail"}),
        json!({"orderedRecreate": true}),
        json!({"failurePolicy": "Ignore"}),
    );
    for (strategy, a, b, expected) in [
        (&plain, "Pending", "Pending", Next::Kill(0)),
        (&plain, "Recreating", "Pending", Next::Kill(1)),
        (&ordered, "Recreating", "Pending", Next::Wait),
        (&ordered, "Succeeded", "Pending", Next::Kill(1)),
        (&plain, "Recreating", "Recreating", Next::Wait),
        (&plain, "Succeeded", "Recreating", Next::Wait),
        (&plain, "Succeeded", "Succeeded", Next::Complete),
        (&plain, "Failed", "Pending", Next::Complete),
        (&ignore, "Failed", "Pending", Next::Kill(1)),
        (&ignore, "Failed", "Succeeded", Next::Complete),
        (&json!({}), "Failed", "Pending", Next::Complete),
    ] {
        let states = json!([{"name": "a", "phase": a}, {"name": "b", "phase": b}]);
        let request = request(strategy, &states, &json!([]));
        let mut states = request.status.expect("a status").container_recreate_states;
        assert_eq!(next(&request.spec, &mut states, &both), expected, "{strategy} {a} {b}");
        if a == "Recreating" {
            assert!(states[0].is_killed, "who is on the way was stopped");
        }
    }
    let request = request(
        &plain,
        &json!([{"name": "a", "phase": "Pending"}, {"name": "b", "phase": "Pending"}]),
        &json!([]),
    );
    let mut states = request.status.expect("a status").container_recreate_states;
    let only_b = on_node(&[("b", container("b0", 0, ContainerState::ContainerRunning, 1))]);
    assert_eq!(
        next(&request.spec, &mut states, &only_b),
        Next::Wait,
        "who is missing holds up the others"
    );
}

#[test]
fn given_several_requests_then_the_one_that_has_begun_goes_first_and_new_ones_wait() {
    let make = |name: &str, phase: &str, second: u32, deleted: bool| {
        let mut request = json!({
            "metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z")},
            "spec": {"podName": "p", "containers": []}, "status": {"phase": phase},
        });
        if deleted {
            request["metadata"]["deletionTimestamp"] = json!(NOW);
        }
        Arc::new(serde_json::from_value::<ContainerRecreateRequest>(request).expect("a request"))
    };
    let name = |request: &Arc<ContainerRecreateRequest>| request.metadata.name.clone().expect("a name");
    let picked = pick(vec![
        make("done", "Completed", 0, false),
        make("gone", "Recreating", 0, true),
        make("new", "", 1, false),
        make("old", "", 2, false),
        make("waits", "Pending", 3, false),
        make("runs", "Recreating", 9, false),
    ]);
    assert_eq!(picked.first.as_ref().map(name).as_deref(), Some("runs"));
    assert_eq!(picked.to_wait.iter().map(name).collect::<Vec<_>>(), ["new", "old"]);
    let picked = pick(vec![make("b", "", 2, false), make("a", "", 1, false)]);
    assert_eq!(picked.first.as_ref().map(name).as_deref(), Some("a"));
    assert!(pick(vec![make("done", "Completed", 0, false)]).first.is_none());
}

#[test]
fn given_a_time_to_drain_then_it_is_waited_for_after_the_manager_has_begun_it() {
    let with = |grace: Value, conditions: &Value| {
        let mut request = request(&json!({"unreadyGracePeriodSeconds": grace}), &json!([]), &json!([]));
        let status = request.status.as_mut().expect("a status");
        status.conditions = serde_json::from_value(conditions.clone()).expect("conditions");
        drained(&request, now())
    };
    let since = |time: &str, status: &str| json!([{"type": "PreRecreateGrace", "status": status, "reason": "r", "message": "", "lastTransitionTime": time}]);
    let nothing = json!([]);
    assert_eq!(with(Value::Null, &nothing), Drained::Yes);
    assert_eq!(
        with(json!(0), &nothing),
        Drained::NotYet,
        "zero seconds still need the manager"
    );
    assert_eq!(with(json!(5), &since("2026-01-01T00:00:50Z", "False")), Drained::NotYet);
    assert_eq!(with(json!(5), &since("2026-01-01T00:00:50Z", "True")), Drained::Yes);
    assert_eq!(
        with(json!(20), &since("2026-01-01T00:00:50Z", "True")),
        Drained::In(Duration::from_millis(10_100))
    );
}

#[test]
fn given_container_ids_then_all_must_be_of_one_runtime() {
    let with = |a: &str, b: &str| {
        let mut request = request(&json!({}), &json!([]), &json!([]));
        for (container, id) in request.spec.containers.iter_mut().zip([a, b]) {
            if let Some(context) = &mut container.status_context {
                id.clone_into(&mut context.container_id);
            }
        }
        runtime_name(&request.spec)
    };
    assert_eq!(with("containerd://a", "containerd://b").as_deref(), Ok("containerd"));
    for (a, b) in [
        ("containerd://a", "cri-o://b"),
        ("a", "containerd://b"),
        ("://a", "://b"),
        ("containerd://", "x://y"),
        ("", ""),
    ] {
        assert!(with(a, b).is_err(), "{a} {b}");
    }
    assert!(runtime_name(&ContainerRecreateRequestSpec::default()).is_err());
}
