//! Subsets without room.

use kruise_api::names::label;
use serde_json::{Value, json};

use super::super::WorkloadKind;
use super::super::world::{World, spec};
use super::entry;

const KIND: WorkloadKind = WorkloadKind::CloneSet;

fn adaptive(kind: WorkloadKind, replicas: i32, reserves: bool) -> World {
    let subsets = json!([{"name": "a", "minReplicas": 0, "maxReplicas": 4}, {"name": "b", "minReplicas": 0}]);
    let mut given = spec(kind, replicas, &subsets);
    given["topology"]["scheduleStrategy"] = json!({
        "type": "Adaptive",
        "adaptive": {"rescheduleCriticalSeconds": 30, "unschedulableDuration": 300, "reserveUnschedulablePods": reserves},
    });
    World::with(&given)
}

fn schedulable(world: &World, subset: &str) -> (Value, Value) {
    let conditions = &entry(world, subset)["conditions"];
    let condition = &conditions[0];
    (condition["status"].clone(), condition["reason"].clone())
}

/// Six Pods, of which three of the four in `a` find no node.
fn stuck(kind: WorkloadKind, reserves: bool) -> World {
    let mut world = adaptive(kind, 1, reserves);
    world.rest();
    world.full.insert("a".to_owned());
    world.change(|spec| spec["replicas"] = json!(6));
    world.rest();
    assert_eq!(world.replicas(kind), [4, 2]);
    world
}

#[test]
fn given_pods_without_a_node_for_too_long_then_others_are_made_where_there_is_room() {
    for kind in WorkloadKind::ALL {
        let mut world = stuck(kind, false);
        // It is not too long yet; that is waited for.
        let plan = world.plan();
        assert_eq!(plan.wake_after.unwrap().as_secs(), 30);
        world.cluster.pass(31);
        // The status says so before anything is done for it.
        let plan = world.round(usize::MAX);
        assert!(plan.status.is_none() && plan.writes().count() == 1);
        assert_eq!(schedulable(&world, "a"), (json!("False"), json!("reschedule")));
        assert_eq!(world.replicas(kind), [4, 2]);
        world.rest();
        assert_eq!(world.replicas(kind), [1, 5], "{kind:?}");
        let plan = world.plan();
        assert!(plan.wake_after.is_some_and(|after| after.as_secs() <= 300));
        assert!(
            plan.why
                .iter()
                .any(|why| why.to_string().contains("Subset a takes no Pods"))
        );
        // After a while it is tried again, and what runs stays.
        world.full.clear();
        world.cluster.pass(301);
        world.rest();
        assert_eq!(schedulable(&world, "a"), (json!("True"), json!("recover")));
        assert_eq!(world.replicas(kind), [1, 5]);
        world.change(|spec| spec["replicas"] = json!(8));
        world.rest();
        assert_eq!(world.replicas(kind), [3, 5]);
        // What is fixed has no such condition.
        world.change(|spec| spec["topology"]["scheduleStrategy"] = json!({"type": "Fixed"}));
        world.rest();
        assert_eq!(entry(&world, "a").get("conditions"), None);
    }
}

#[test]
fn given_reservation_then_waiting_pods_stay_and_are_made_up_for_until_they_run() {
    for kind in [KIND, WorkloadKind::Deployment] {
        let mut world = stuck(kind, true);
        world.cluster.pass(31);
        world.rest();
        assert_eq!(world.replicas(kind), [4, 5], "{kind:?}");
        let reserved = |world: &World, said: &str| {
            let pods = world.pods_in("a").into_iter().chain(world.pods_in("b"));
            pods.filter(|pod| pod["metadata"]["labels"][label::RESERVED_POD] == said)
                .count()
        };
        assert_eq!((reserved(&world, "true"), reserved(&world, "false")), (3, 6));
        let status = world.status();
        assert_eq!((&status["replicas"], &status["reservedPods"]), (&json!(6), &json!(3)));
        assert_eq!(
            status["labelSelector"],
            format!("app=web,{}=false", label::RESERVED_POD)
        );
        assert_eq!(entry(&world, "a")["reservedPods"], 3);
        assert_eq!(schedulable(&world, "a"), (json!("False"), json!("reschedule")));
        // They run, but not for long enough.
        world.full.clear();
        world.rest();
        assert_eq!(world.replicas(kind), [4, 5]);
        assert!(world.plan().wake_after.is_some_and(|after| after.as_secs() <= 300));
        world.cluster.pass(301);
        world.rest();
        assert_eq!(world.replicas(kind), [4, 2], "{kind:?}");
        assert_eq!(reserved(&world, "true"), 0);
        assert_eq!(schedulable(&world, "a"), (json!("True"), json!("recover")));
        assert_eq!(world.status().get("reservedPods"), None);
    }
}

#[test]
fn given_reserved_pods_when_the_template_changes_then_the_others_can_still_be_updated() {
    let mut world = stuck(KIND, true);
    world.cluster.pass(31);
    world.rest();
    world.set_image(KIND, "nginx:2");
    world.round(usize::MAX);
    let unavailable =
        |world: &World| world.children(KIND)["a"]["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"].clone();
    assert_eq!(unavailable(&world), 3);
    // Nothing is updated there, for too long: the Pod that is ready is reserved, too, and may go.
    let plan = world.round(usize::MAX);
    assert!(plan.wake_after.is_some_and(|after| after.as_secs() <= 30));
    world.cluster.pass(31);
    for _ in 0..3 {
        world.round(usize::MAX);
    }
    assert_eq!(unavailable(&world), 4);
    assert_eq!(world.replicas(KIND), [4, 6]);
    world.rest();
    assert_eq!(world.status()["currentRevision"], world.status()["updatedRevision"]);
}

#[test]
fn given_old_pods_that_a_partition_keeps_then_they_are_not_reserved() {
    let mut world = stuck(KIND, true);
    world.cluster.pass(31);
    world.rest();
    world.change(|spec| spec["updateStrategy"] = json!({"manualUpdate": {"partitions": {"a": 4, "b": 5}}}));
    world.set_image(KIND, "nginx:2");
    world.rest();
    world.cluster.pass(31);
    world.rest();
    assert_eq!(world.replicas(KIND), [4, 5]);
}

#[test]
fn given_a_subset_added_then_its_pods_are_reserved_until_they_have_proved_themselves() {
    let mut world = adaptive(KIND, 4, true);
    world.rest();
    world.change(|spec| {
        spec["topology"]["subsets"] = json!([{"name": "c", "minReplicas": 2}, {"name": "a", "minReplicas": 0, "maxReplicas": 4},
            {"name": "b", "minReplicas": 0}]);
    });
    world.round(usize::MAX);
    assert_eq!(schedulable(&world, "c"), (json!("False"), json!("created")));
    world.rest();
    let pods = world.pods_in("c");
    assert!(!pods.is_empty());
    assert!(
        pods.iter()
            .all(|pod| pod["metadata"]["labels"][label::RESERVED_POD] == "true")
    );
    world.cluster.pass(301);
    world.rest();
    assert_eq!(world.status().get("reservedPods"), None);
    let sum: i64 = world.replicas(KIND).iter().sum();
    assert_eq!(sum, 4);
}

#[test]
fn given_times_of_zero_then_subsets_do_not_change_to_and_fro() {
    let mut world = stuck(KIND, false);
    world.change(|spec| {
        spec["topology"]["scheduleStrategy"]["adaptive"] =
            json!({"rescheduleCriticalSeconds": -5, "unschedulableDuration": 0});
    });
    world.cluster.pass(2);
    world.rest();
    assert_eq!(world.replicas(KIND), [1, 5]);
}
