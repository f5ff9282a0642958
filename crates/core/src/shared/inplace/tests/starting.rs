//! A new Pod gets its first conditions and its lifecycle state.

use kruise_api::resource::{Preconditions, Subresource};

use super::*;
use crate::shared::lifecycle;

#[test]
fn given_a_new_pod_then_one_request_makes_it_normal_once_it_has_a_node() {
    let pod = running_pod("p")
        .at("demo-1")
        .state("PreparingNormal")
        .running("a", "a:1");
    let unscheduled = advanced(&pod.clone().set("/spec/nodeName", json!("")), "10:00:00");
    assert_eq!((unscheduled.requests, unscheduled.waits), (vec![], Some(Waits::Node)));
    let scheduled = advanced(&pod, "10:00:00");
    assert_eq!(scheduled.state, Some(lifecycle::State::Normal));
    let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": null, "message": null, "lastTransitionTime": "2024-05-01T10:00:00Z"});
    assert_eq!(
        scheduled.requests,
        [PodPatch {
            subresource: Some(Subresource::Status),
            body: json!({
                "metadata": {
                    "labels": {"lifecycle.apps.kruise.io/state": "Normal"},
                    "annotations": {"lifecycle.apps.kruise.io/timestamp": "2024-05-01T10:00:00Z"},
                },
                "status": {"conditions": [condition("InPlaceUpdateReady"), condition("KruisePodReady")]},
            }),
            preconditions: Preconditions::uid("u-1").at("7"),
        }]
    );
    assert_eq!(
        advanced(&pod.clone().patched(&scheduled.requests), "10:00:01"),
        Advanced::default()
    );

    // Nobody can hold a Pod without the gate, or one of which no container has run; and kubelet writes all the time while it starts.
    let gate = json!([{"conditionType": "InPlaceUpdateReady"}]);
    for free in [
        pod.clone().set("/spec/readinessGates", gate),
        pod.set("/status/containerStatuses", json!([])),
    ] {
        let first = advanced(&free, "10:00:00");
        assert_eq!(first.requests[0].preconditions, Preconditions::uid("u-1"));
    }
}

#[test]
fn given_a_pre_normal_hook_then_the_conditions_do_not_wait_for_it() {
    let lifecycle: Lifecycle =
        serde_json::from_value(json!({"preNormal": {"labelsHandler": {"online": "true"}}})).unwrap();
    let workload = Rules {
        lifecycle: Some(&lifecycle),
    };
    let pod = running_pod("p").at("demo-1").state("PreparingNormal");
    let first = advance(&pod.typed(), true, &workload, &env("10:00:00"));
    assert_eq!(
        (first.state, parts(&first.requests)),
        (None, vec![Some(Subresource::Status)])
    );
    let pod = pod.patched(&first.requests);
    assert_eq!(
        advance(&pod.typed(), true, &workload, &env("10:00:01")),
        Advanced::default()
    );
    let hooked = advance(&pod.label("online", "true").typed(), true, &workload, &env("10:00:02"));
    assert_eq!(
        (hooked.state, parts(&hooked.requests)),
        (Some(lifecycle::State::Normal), vec![None])
    );
}
