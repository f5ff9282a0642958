//! What users see of a CloneSet, from the outside: scenarios in the model cluster.

use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use kruise_api::resource::{Resource, Subresource};
use kruise_api::revision::ControllerRevision;
use serde_json::{Value, json};

use super::fixtures::template;
use super::world::World;
use crate::plan::Why;
use crate::plan::why;
use kruise_api::gates::Gate;

mod lifecycle;
mod ownership;
mod pre_download;
mod properties;
mod refusals;
mod rehearsal;
mod takeover;

fn conditions(world: &World, type_: &str) -> Value {
    let list = world.status("conditions");
    let found = list
        .as_array()
        .and_then(|list| list.iter().find(|condition| condition["type"] == type_).cloned());
    found.unwrap_or(Value::Null)
}

fn states(world: &World) -> Vec<String> {
    let state = |pod: &&Value| {
        pod["metadata"]["labels"]["lifecycle.apps.kruise.io/state"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    world.pods().iter().map(state).collect()
}

fn specify_delete(world: &mut World, name: &str) {
    world.edit_pod(name, |pod| {
        pod["metadata"]["labels"]["apps.kruise.io/specified-delete"] = json!("true");
    });
}

#[test]
fn given_three_replicas_when_created_then_three_pods_get_normal_and_ready() {
    let mut world = World::new(&json!({}));
    // A revision, three Pods, three status writes for Pods; the rest is the set's own status.
    world.run();
    assert_eq!(world.pods().len(), 3);
    for pod in world.pods() {
        let id = pod["metadata"]["labels"]["apps.kruise.io/cloneset-instance-id"]
            .as_str()
            .unwrap();
        assert_eq!(pod["metadata"]["name"], format!("web-{id}"));
        assert_eq!(pod["metadata"]["generateName"], "web-");
    }
    assert_eq!(states(&world), ["Normal"; 3]);
    assert_eq!(world.status("readyReplicas"), 3);
    assert_eq!(world.status("availableReplicas"), 3);
    assert_eq!(world.status("updatedReplicas"), 3);
    assert_eq!(world.status("labelSelector"), "app=web");
    assert_eq!(world.status("currentRevision"), world.status("updateRevision"));
}

#[test]
fn a_new_pod_takes_one_write_and_one_status_write() {
    let mut world = World::new(&json!({ "replicas": 1 }));
    let plan = world.round();
    let kinds: Vec<&'static Resource> = plan.writes().map(|action| action.object().resource).collect();
    assert_eq!(kinds, [ControllerRevision::RESOURCE, Pod::RESOURCE]);
    world.cluster.settle();
    let plan = world.round();
    let writes: Vec<_> = plan.writes().collect();
    let crate::plan::Action::Patch { subresource, patch, .. } = writes[0] else {
        panic!("{writes:?}")
    };
    assert_eq!((writes.len(), *subresource), (1, Some(Subresource::Status)));
    let document = patch.document();
    let types: Vec<&Value> = document["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["type"])
        .collect();
    assert_eq!(types, ["InPlaceUpdateReady", "KruisePodReady"]);
    assert_eq!(
        document["metadata"]["labels"]["lifecycle.apps.kruise.io/state"],
        "Normal"
    );
}

#[test]
fn an_update_in_place_takes_three_writes() {
    let mut world = World::new(&json!({ "replicas": 1 }));
    world.run();
    world.image("nginx:2");
    let pod_writes = |world: &mut World| {
        let plan = world.round();
        let count = plan
            .writes()
            .filter(|action| action.object().resource == Pod::RESOURCE)
            .count();
        world.cluster.settle();
        count
    };
    let counts: Vec<usize> = (0..6).map(|_| pod_writes(&mut world)).collect();
    assert_eq!(counts.iter().sum::<usize>(), 3, "{counts:?}");
    assert_eq!(
        (world.images(), states(&world)),
        (vec!["nginx:2".to_owned()], vec!["Normal".to_owned()])
    );
}

#[test]
fn given_a_bad_image_and_recreation_then_one_pod_is_replaced_and_the_rollout_stops() {
    let mut world = World::new(&json!({
        "replicas": 5, "updateStrategy": { "rollingUpdate": { "podUpdatePolicy": "ReCreate" } },
    }));
    world.run();
    world.image("bad:1");
    world.run();
    assert_eq!(world.images(), ["bad:1", "nginx:1", "nginx:1", "nginx:1", "nginx:1"]);
    let why = world.round().why;
    assert!(
        why.iter()
            .any(|why| matches!(why, Why::Rollout(why::Rollout::UpdateBudget { allowed: 1, .. }))),
        "{why:?}"
    );
}

#[test]
fn given_a_partition_then_the_rest_is_updated_in_place() {
    let mut world = World::new(&json!({ "replicas": 5 }));
    world.run();
    let names = world.pod_names();
    let current = world.status("currentRevision");
    world.edit_spec(
        &json!({ "template": template("nginx:2"), "updateStrategy": { "rollingUpdate": { "partition": 3 } } }),
    );
    world.run();
    assert_eq!(world.images(), ["nginx:1", "nginx:1", "nginx:1", "nginx:2", "nginx:2"]);
    assert_eq!(world.pod_names(), names);
    assert_eq!(
        (world.status("expectedUpdatedReplicas"), world.status("currentRevision")),
        (json!(2), current)
    );
    assert!(
        world
            .round()
            .why
            .contains(&Why::Rollout(why::Rollout::Partition { keeps: 3 }))
    );
    world.edit_spec(&json!({ "updateStrategy": { "rollingUpdate": { "partition": 0 } } }));
    world.run();
    assert_eq!(world.images(), ["nginx:2"; 5]);
    assert_eq!(world.status("currentRevision"), world.status("updateRevision"));
}

#[test]
fn given_a_partition_below_100_percent_then_one_pod_is_updated() {
    for (partition, updated) in [("99%", 1), ("100%", 0), ("200%", 0)] {
        let mut world = World::new(&json!({}));
        world.run();
        world.edit_spec(&json!({ "template": template("nginx:2"), "updateStrategy": { "rollingUpdate": { "partition": partition } } }));
        world.run();
        assert_eq!(
            world.images().iter().filter(|image| *image == "nginx:2").count(),
            updated,
            "{partition}"
        );
    }
}

#[test]
fn given_paused_then_nothing_new_is_updated_but_scaling_works() {
    let mut world = World::new(&json!({ "replicas": 4, "updateStrategy": { "rollingUpdate": { "maxSurge": 1 } } }));
    world.run();
    world.edit_spec(
        &json!({ "template": template("nginx:2"), "updateStrategy": { "rollingUpdate": { "paused": true } } }),
    );
    world.run();
    assert_eq!(world.images(), ["nginx:1"; 4]);
    assert!(
        world
            .round()
            .why
            .contains(&Why::Rollout(why::Rollout::Paused { outdated: 4 }))
    );
    world.edit_spec(&json!({ "replicas": 5 }));
    world.run();
    assert_eq!(world.pods().len(), 5);
}

#[test]
fn given_named_pods_and_fewer_replicas_then_exactly_those_go_and_the_list_gets_empty() {
    let mut world = World::new(&json!({ "replicas": 3 }));
    world.run();
    let names = world.pod_names();
    world.edit_spec(&json!({ "replicas": 2, "scaleStrategy": { "podsToDelete": [names[1], "web-unknown"] } }));
    world.run();
    assert_eq!(world.pod_names(), [names[0].clone(), names[2].clone()]);
    assert_eq!(world.set()["spec"]["scaleStrategy"].get("podsToDelete"), None);
}

#[test]
fn given_a_named_pod_and_no_unavailability_then_its_stand_in_comes_first() {
    let mut world =
        World::new(&json!({ "updateStrategy": { "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } } }));
    world.run();
    let name = world.pod_names()[0].clone();
    specify_delete(&mut world, &name);
    world.round();
    assert_eq!(world.pods().len(), 4);
    assert!(
        world
            .pods()
            .iter()
            .all(|pod| pod["metadata"].get("deletionTimestamp").is_none())
    );
    world.run();
    assert_eq!(world.pods().len(), 3);
    assert!(!world.pod_names().contains(&name));
}

#[test]
fn given_a_scale_limit_and_pods_that_never_get_ready_then_only_so_many_are_made() {
    let mut world = World::new(&json!({
        "replicas": 10, "scaleStrategy": { "maxUnavailable": 2 }, "template": template("bad:1"),
    }));
    world.run();
    assert_eq!(world.pods().len(), 2);
    let plan = world.round();
    assert_eq!(plan.events[0].reason, "ScaleUpLimited");
    assert!(
        plan.why
            .contains(&Why::Rollout(why::Rollout::ScaleUpLimited { missing: 8, limit: 0 }))
    );
}

#[test]
fn given_the_gate_and_a_raised_partition_then_pods_go_back_in_place() {
    for gate in [false, true] {
        let mut world = World::new(&json!({ "replicas": 4 }));
        world.env.gates = world.env.gates.with(Gate::CloneSetPartitionRollback, gate);
        world.run();
        let names = world.pod_names();
        world.edit_spec(
            &json!({ "template": template("nginx:2"), "updateStrategy": { "rollingUpdate": { "partition": 1 } } }),
        );
        world.run();
        world.edit_spec(&json!({ "updateStrategy": { "rollingUpdate": { "partition": 3 } } }));
        world.run();
        let updated = world.images().iter().filter(|image| *image == "nginx:2").count();
        assert_eq!((updated, world.pod_names()), (if gate { 1 } else { 3 }, names));
    }
}

#[test]
fn given_in_place_only_and_another_change_then_pods_stay_and_the_set_says_why() {
    let mut world = World::new(&json!({ "updateStrategy": { "rollingUpdate": { "podUpdatePolicy": "InPlaceOnly" } } }));
    world.run();
    let names = world.pod_names();
    let mut next = template("nginx:1");
    next["spec"]["containers"][0]["env"] = json!([{ "name": "A", "value": "1" }]);
    world.edit_spec(&json!({ "template": next }));
    world.run();
    assert_eq!(world.pod_names(), names);
    let condition = conditions(&world, "FailedUpdate");
    assert_eq!(condition["status"], "True");
    assert!(
        condition["message"].as_str().unwrap().contains("containers[0].env"),
        "{condition}"
    );
    assert!(
        world
            .round()
            .why
            .iter()
            .any(|why| matches!(why, Why::Rollout(why::Rollout::NotInPlace { .. })))
    );
}

#[test]
fn given_in_place_if_possible_and_another_change_then_pods_are_replaced() {
    let mut world = World::new(&json!({}));
    world.run();
    let names = world.pod_names();
    let mut next = template("nginx:1");
    next["spec"]["containers"][0]["env"] = json!([{ "name": "A", "value": "1" }]);
    world.edit_spec(&json!({ "template": next }));
    let why = world.round().why;
    assert!(
        why.iter().any(
            |why| matches!(why, Why::Rollout(why::Rollout::Recreating { because, .. }) if because.contains("env"))
        ),
        "{why:?}"
    );
    world.run();
    assert!(world.pod_names().iter().all(|name| !names.contains(name)));
    assert_eq!(conditions(&world, "FailedUpdate"), Value::Null);
}

#[test]
fn given_on_delete_then_pods_stay_until_somebody_deletes_them() {
    let mut world = World::new(&json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } }));
    world.run();
    world.image("nginx:2");
    world.run();
    assert_eq!(world.images(), ["nginx:1"; 3]);
    assert!(
        world
            .round()
            .why
            .contains(&Why::Rollout(why::Rollout::OnDelete { outdated: 3 }))
    );
    let name = world.pod_names()[0].clone();
    world.cluster.delete(Pod::RESOURCE, &name);
    world.run();
    assert_eq!(world.images(), ["nginx:1", "nginx:1", "nginx:2"]);
}

#[test]
fn given_min_ready_seconds_then_pods_are_ready_first_and_available_later() {
    let mut world = World::new(&json!({ "minReadySeconds": 60 }));
    for _ in 0..5 {
        world.round();
        world.cluster.settle();
    }
    let plan = world.round();
    assert_eq!(
        (world.status("readyReplicas"), world.status("availableReplicas")),
        (json!(3), json!(0))
    );
    assert_eq!(plan.wake_after, Some(std::time::Duration::from_mins(1)));
    world.cluster.pass(60);
    world.round();
    assert_eq!(world.status("availableReplicas"), 3);
}

#[test]
fn given_a_progress_deadline_then_a_stuck_rollout_is_reported_and_a_good_one_clears_it() {
    let mut world = World::new(&json!({ "progressDeadlineSeconds": 10 }));
    world.run();
    assert_eq!(conditions(&world, "Progressing")["reason"], "CloneSetAvailable");
    // Long after: the clock of the new rollout starts anew.
    world.cluster.pass(1000);
    world.image("bad:1");
    let plan = world.round();
    assert_eq!(conditions(&world, "Progressing")["reason"], "CloneSetUpdated");
    assert_eq!(plan.wake_after, Some(std::time::Duration::from_secs(11)));
    world.run();
    let late = conditions(&world, "Progressing");
    assert_eq!(
        (&late["status"], &late["reason"]),
        (&json!("False"), &json!("ProgressDeadlineExceeded"))
    );
    world.image("nginx:2");
    world.round();
    assert_eq!(conditions(&world, "Progressing")["reason"], "CloneSetUpdated");
    world.run();
    assert_eq!(conditions(&world, "Progressing")["reason"], "CloneSetAvailable");
    world.edit_spec(&json!({ "progressDeadlineSeconds": null }));
    world.run();
    assert_eq!(conditions(&world, "Progressing"), Value::Null);
}

#[test]
fn given_a_grace_period_then_the_image_changes_only_after_it() {
    let mut world = World::new(&json!({
        "replicas": 1,
        "updateStrategy": { "rollingUpdate": { "inPlaceUpdateStrategy": { "gracePeriodSeconds": 30 } } },
    }));
    world.run();
    world.image("nginx:2");
    let plan = world.round();
    assert_eq!(plan.wake_after, Some(std::time::Duration::from_secs(30)));
    world.cluster.pass(10);
    world.cluster.settle();
    let plan = world.round();
    assert_eq!(
        (world.images(), plan.wake_after),
        (vec!["nginx:1".to_owned()], Some(std::time::Duration::from_secs(20)))
    );
    assert!(
        plan.why
            .iter()
            .any(|why| matches!(why, Why::Pods(why::Pods::InGrace { .. }))),
        "{:?}",
        plan.why
    );
    world.cluster.pass(20);
    world.run();
    assert_eq!(world.images(), ["nginx:2"]);
}

#[test]
fn given_a_set_that_is_being_deleted_then_nothing_but_its_status_is_written() {
    let mut world = World::new(&json!({}));
    world.run();
    world.cluster.edit(CloneSet::RESOURCE, "web", |set| {
        set["metadata"]["deletionTimestamp"] = json!("2024-05-01T10:00:00Z");
    });
    world.edit_spec(&json!({ "replicas": 9, "template": template("nginx:2") }));
    let plan = world.round();
    assert_eq!(plan.writes().count(), 0);
    assert!(plan.why.contains(&Why::General(why::General::Deleting)));
}
