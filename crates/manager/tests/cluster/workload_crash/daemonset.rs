//! DaemonSets.

use kruise_testkit::builders::daemonset;

use super::*;

/// For the nodes of the test. Nobody completes it here, so it says all that a webhook would.
fn agent(nodes: &SimulatedNodes, rules: &Value) -> Workload {
    let here = nodes.selector();
    daemonset("web")
        .image("nginx:1")
        .pod(|pod| pod.node_selector(here))
        .set("/spec/burstReplicas", 250)
        .set(
            "/spec/updateStrategy",
            json!({"type": "RollingUpdate", "rollingUpdate": rules}),
        )
}

fn on_all() -> Value {
    json!({"desiredNumberScheduled": NODES, "numberAvailable": NODES, "updatedNumberScheduled": NODES, "currentNumberScheduled": NODES})
}

fn updating(nodes: &SimulatedNodes, rules: &Value, most: usize, kept: Kept) -> Case {
    Case {
        before: agent(nodes, rules),
        settled: on_all(),
        change: to_image("nginx:2"),
        status: on_all(),
        pods: NODES,
        most,
        image: "nginx:2",
        kept,
        budget: None,
    }
}

#[test]
fn given_a_crash_after_any_write_of_the_first_rollout_then_every_node_has_one_pod() {
    crash_after_any_write("ads-first", |nodes| {
        let rules = json!({"rollingUpdateType": "Standard", "maxUnavailable": 1, "partition": NODES});
        Case {
            before: agent(nodes, &rules).set("/spec/scaleStrategy/partitionedScaling", true),
            settled: json!({"desiredNumberScheduled": NODES, "currentNumberScheduled": 0}),
            change: json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}),
            status: on_all(),
            pods: NODES,
            most: NODES,
            image: "nginx:1",
            kept: Kept::All,
            budget: None,
        }
    });
}

#[test]
fn given_a_crash_after_any_write_of_a_surge_then_every_pod_is_another_and_one_more_is_the_most() {
    let rules = json!({"rollingUpdateType": "Standard", "maxSurge": 1, "maxUnavailable": 0});
    crash_after_any_write("ads-surge", move |nodes| updating(nodes, &rules, NODES + 1, Kept::None));
}

#[test]
fn given_a_crash_after_any_write_of_an_update_in_place_then_every_pod_is_kept() {
    let rules = json!({"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 1});
    crash_after_any_write("ads-in-place", move |nodes| updating(nodes, &rules, NODES, Kept::All));
}

#[test]
fn given_a_crash_after_any_write_of_an_update_in_place_within_a_budget_then_it_holds() {
    let rules = json!({"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": NODES});
    crash_after_any_write("ads-budget", move |nodes| Case {
        budget: Some(1),
        ..updating(nodes, &rules, NODES, Kept::All)
    });
}
