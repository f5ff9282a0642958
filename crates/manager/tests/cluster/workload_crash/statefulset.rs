//! StatefulSets.

use kruise_testkit::{builders::statefulset, storage::LocalStorage};
use kube::api::DeleteParams;

use super::{
    super::chart::{api, apply, name},
    *,
};

/// Nobody completes it here, so it says all that a webhook would.
fn web(replicas: i32, management: &str, policy: &str) -> Workload {
    let rules = json!({"podUpdatePolicy": policy, "maxUnavailable": 1, "partition": 0});
    statefulset("web")
        .replicas(replicas)
        .image("nginx:1")
        .set("/spec/podManagementPolicy", management)
        .set(
            "/spec/updateStrategy",
            json!({"type": "RollingUpdate", "rollingUpdate": rules}),
        )
}

fn settled(replicas: i32) -> Value {
    json!({"replicas": replicas, "availableReplicas": replicas, "updatedReplicas": replicas})
}

fn scaling_out(management: &str) -> Case {
    Case {
        before: web(1, management, "ReCreate"),
        settled: settled(1),
        change: json!({"spec": {"replicas": 4}}),
        status: settled(4),
        pods: 4,
        most: 4,
        image: "nginx:1",
        kept: Kept::All,
        budget: None,
    }
}

fn updating(policy: &str, kept: Kept) -> Case {
    Case {
        before: web(3, "Parallel", policy),
        settled: settled(3),
        change: to_image("nginx:2"),
        status: json!({"replicas": 3, "updatedAvailableReplicas": 3}),
        pods: 3,
        most: 3,
        image: "nginx:2",
        kept,
        budget: None,
    }
}

#[test]
fn given_a_crash_after_any_write_of_scaling_out_in_order_then_every_ordinal_is_there() {
    crash_after_any_write("sts-ordered", |_| scaling_out("OrderedReady"));
}

#[test]
fn given_a_crash_after_any_write_of_scaling_out_in_parallel_then_every_ordinal_is_there() {
    crash_after_any_write("sts-parallel", |_| scaling_out("Parallel"));
}

#[test]
fn given_a_crash_after_any_write_of_an_update_anew_then_every_pod_is_another() {
    crash_after_any_write("sts-anew", |_| updating("ReCreate", Kept::None));
}

#[test]
fn given_a_crash_after_any_write_of_an_update_in_place_then_every_pod_is_kept() {
    crash_after_any_write("sts-in-place", |_| updating("InPlaceIfPossible", Kept::All));
}

#[test]
fn given_a_crash_after_any_write_of_an_update_anew_within_a_budget_then_it_holds() {
    crash_after_any_write("sts-budget", |_| Case {
        before: web(3, "Parallel", "ReCreate").set("/spec/updateStrategy/rollingUpdate/maxUnavailable", 3),
        budget: Some(1),
        ..updating("ReCreate", Kept::None)
    });
}

#[test]
fn given_a_crash_after_any_write_of_scaling_in_then_claims_go_with_their_pods() {
    let policy = json!({"whenScaled": "Delete", "whenDeleted": "Retain"});
    // Nobody provides volumes, so the scheduler would wait for ever: the Pods go past it.
    crash_after_any_write("sts-in", move |nodes| Case {
        before: web(3, "Parallel", "ReCreate")
            .set("/spec/volumeClaimTemplates", claims("1Gi", None))
            .set("/spec/persistentVolumeClaimRetentionPolicy", policy.clone())
            .pod(|pod| pod.on_node(&nodes.names()[0])),
        settled: settled(3),
        change: json!({"spec": {"replicas": 1}}),
        status: settled(1),
        pods: 1,
        most: 3,
        image: "nginx:1",
        kept: Kept::Some,
        budget: None,
    });
}

#[test]
fn given_a_crash_after_any_write_of_growing_claims_then_all_have_grown_and_pods_stay() {
    run_test(torture::deadline(Duration::from_mins(10)), async {
        let world = World::new("crash-sts-grow").await;
        let class = kruise_testkit::storage::class("crash-sts-grow");
        apply(&world.client, &class).await;
        let _storage = LocalStorage::start(world.client.clone());
        let follow = |count: i32| json!([{"volumeClaimName": "data", "compatibleReplicas": count, "compatibleReadyReplicas": count}]);
        crash_after_any_write_in(&world, "sts-grow", |_| Case {
            before: web(3, "Parallel", "ReCreate")
                .set("/spec/volumeClaimTemplates", claims("1Gi", Some("crash-sts-grow")))
                .set("/spec/volumeClaimUpdateStrategy/type", "OnPodRollingUpdate"),
            settled: json!({"availableReplicas": 3, "volumeClaims": follow(3)}),
            change: json!({"spec": {"volumeClaimTemplates": claims("2Gi", Some("crash-sts-grow"))}}),
            status: json!({"availableReplicas": 3, "volumeClaims": follow(3)}),
            pods: 3,
            most: 3,
            image: "nginx:1",
            kept: Kept::All,
            budget: None,
        })
        .await;
        let classes = api(&world.client, &class);
        classes.delete(&name(&class), &DeleteParams::default()).await.unwrap();
    });
}
