//! Resources that change in place.

use kruise_api::resource::Subresource;

use super::*;
use crate::shared::lifecycle;

fn scaling(has_resize: bool) -> Env {
    Env {
        gates: gates().with(Gate::InPlaceWorkloadVerticalScaling, true),
        has_resize,
        ..env("10:00:00")
    }
}

fn resize(amount: &str) -> ChangeSet {
    let template =
        |amount: &str| containers(&json!([{"name": "a", "image": "a:1", "resources": {"limits": {"cpu": amount}}}]));
    let options = Options {
        gates: scaling(true).gates,
        ..options()
    };
    decide(
        &a_revision("demo-old", &template("1")),
        &a_revision("demo-new", &template(amount)),
        &options,
    )
    .unwrap()
}

fn pod() -> PodBuilder {
    let mut pod = running_pod("p")
        .at("demo-old")
        .state("Normal")
        .running("a", "a:1")
        .ready();
    pod.last_container()["resources"] = json!({"limits": {"cpu": "1"}});
    pod.status("a", "resources", json!({"limits": {"cpu": "1"}}))
}

#[test]
fn given_resources_only_then_the_pod_stays_ready_and_the_resize_endpoint_is_asked_first() {
    let started = begin(&pod(), &resize("2"), &scaling(true));
    assert_eq!(parts(&started.requests), [Some(Subresource::Resize), None]);
    assert_eq!(
        started.requests[0].body,
        json!({
            "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}]}})
    );
    assert!(started.requests[1].body.get("spec").is_none());
    assert_eq!(
        started.requests[1].body["metadata"]["labels"]["lifecycle.apps.kruise.io/state"],
        "Updating"
    );

    let after = pod().patched(&started.requests);
    let waiting = advance(&after.typed(), true, &workload(), &scaling(true));
    assert_eq!(
        (waiting.requests, waiting.waits),
        (vec![], Some(Waits::Containers(Pending::Resources)))
    );
    let done = after.status("a", "resources", json!({"limits": {"cpu": "2000m"}}));
    let done = advance(&done.typed(), true, &workload(), &scaling(true));
    assert_eq!(
        (done.state, parts(&done.requests)),
        (Some(lifecycle::State::Normal), vec![None])
    );
}

#[test]
fn given_an_older_server_then_the_resources_are_in_the_pod() {
    let started = begin(&pod(), &resize("2"), &scaling(false));
    assert_eq!(parts(&started.requests), [None]);
    assert_eq!(
        started.requests[0].body["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "2"}})
    );
}

#[test]
fn given_a_container_that_restarts_for_it_then_the_pod_is_made_unready() {
    for (resource, policy, unready) in [
        ("cpu", "RestartContainer", true),
        ("memory", "RestartContainer", false),
        ("cpu", "NotRequired", false),
    ] {
        let mut pod = pod();
        pod.last_container()["resizePolicy"] = json!([{"resourceName": resource, "restartPolicy": policy}]);
        let started = begin(&pod, &resize("2"), &scaling(true));
        assert_eq!(
            parts(&started.requests).contains(&Some(Subresource::Status)),
            unready,
            "{resource} {policy}"
        );
    }
}

#[test]
fn given_a_kubelet_that_does_not_report_resources_then_it_is_never_done() {
    let started = begin(&pod(), &resize("2"), &scaling(true));
    let silent = pod().patched(&started.requests).status("a", "resources", Value::Null);
    assert!(!is_complete(&silent.typed(), scaling(true).gates));
    assert!(is_complete(&silent.typed(), gates()), "without the gate nobody asks");
}

#[test]
fn given_a_later_batch_with_nothing_but_resources_then_it_is_applied() {
    let state = r#"{"revision":"demo-new","updateTimestamp":"2024-05-01T09:59:00Z","lastContainerStatuses":null,"nextContainerResources":{"a":{"limits":{"cpu":"2"}}}}"#;
    let pod = pod().at("demo-new").state("Updating").annotation(IN_PLACE_STATE, state);
    let next = advance(&pod.typed(), true, &workload(), &scaling(true));
    assert_eq!(parts(&next.requests), [Some(Subresource::Resize), None]);
    assert!(
        !pod.patched(&next.requests)
            .typed::<Pod>()
            .metadata
            .annotation(IN_PLACE_STATE)
            .unwrap()
            .contains("nextContainer")
    );
}
