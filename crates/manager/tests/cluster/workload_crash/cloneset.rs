//! CloneSets.

use kruise_testkit::builders::cloneset;

use super::*;

fn settled(replicas: i32) -> Value {
    json!({"replicas": replicas, "availableReplicas": replicas})
}

#[test]
fn given_a_crash_after_any_write_of_scaling_out_then_no_pod_is_doubled() {
    crash_after_any_write("out", |_| Case {
        before: cloneset("web").replicas(1),
        settled: settled(1),
        change: json!({"spec": {"replicas": 4}}),
        status: json!({"replicas": 4, "availableReplicas": 4, "updatedReplicas": 4}),
        pods: 4,
        most: 4,
        image: "nginx:1",
        kept: Kept::All,
        budget: None,
    });
}

#[test]
fn given_a_crash_after_any_write_of_an_update_in_place_then_every_pod_is_updated_and_kept() {
    let strategy = json!({"maxUnavailable": 2, "podUpdatePolicy": "InPlaceIfPossible"});
    crash_after_any_write("update", move |_| Case {
        before: cloneset("web")
            .replicas(3)
            .set("/spec/updateStrategy/rollingUpdate", strategy.clone()),
        settled: settled(3),
        change: to_image("nginx:2"),
        status: json!({"replicas": 3, "updatedAvailableReplicas": 3}),
        pods: 3,
        most: 3,
        image: "nginx:2",
        kept: Kept::All,
        budget: None,
    });
}

#[test]
fn given_a_crash_after_any_write_of_scaling_in_with_claims_then_no_claim_is_left() {
    // Nobody provides volumes, so the scheduler would wait for ever: the Pods go past it.
    crash_after_any_write("in", |nodes| Case {
        before: cloneset("web")
            .replicas(3)
            .set("/spec/scaleStrategy/enablePVCReuse", true)
            .set("/spec/updateStrategy/rollingUpdate/maxUnavailable", "100%")
            .set("/spec/volumeClaimTemplates", claims("1Gi", None))
            .pod(|pod| pod.on_node(&nodes.names()[0])),
        settled: settled(3),
        change: json!({"spec": {"replicas": 1}}),
        status: json!({"replicas": 1, "availableReplicas": 1}),
        pods: 1,
        most: 3,
        image: "nginx:1",
        kept: Kept::Some,
        budget: None,
    });
}

#[test]
fn given_a_crash_after_any_write_within_a_budget_then_it_holds_and_its_places_come_back() {
    let strategy = json!({"maxUnavailable": 3, "podUpdatePolicy": "InPlaceIfPossible"});
    crash_after_any_write("budget", move |_| Case {
        before: cloneset("web")
            .replicas(3)
            .set("/spec/updateStrategy/rollingUpdate", strategy.clone()),
        settled: settled(3),
        change: to_image("nginx:2"),
        status: json!({"replicas": 3, "updatedAvailableReplicas": 3}),
        pods: 3,
        most: 3,
        image: "nginx:2",
        kept: Kept::All,
        budget: Some(1),
    });
}
