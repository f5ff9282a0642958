//! A quota, a policy or a webhook says no: that costs the Pod it was said of, and nobody else.

use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use serde_json::{Value, json};

use super::super::world::World;
use super::{conditions, specify_delete};
use crate::plan::Action;
use crate::plan::harness::Cluster;

/// No more than three Pods.
fn quota(cluster: &Cluster, action: &Action) -> bool {
    let is_new = matches!(action, Action::Create { object, .. } if object.resource == Pod::RESOURCE);
    is_new && cluster.all(Pod::RESOURCE).count() >= 3
}

/// Nobody changes what is in Pods whose names begin with `web-stuck`, or says anything about them.
fn frozen(_: &Cluster, action: &Action) -> bool {
    let object = action.object();
    object.resource == Pod::RESOURCE && object.name.starts_with("web-stuck") && matches!(action, Action::Patch { .. })
}

/// Images stay as they are.
fn images(_: &Cluster, action: &Action) -> bool {
    let Action::Patch {
        object,
        subresource,
        patch,
        ..
    } = action
    else {
        return false;
    };
    let changes_spec = patch.document().get("spec").is_some();
    object.resource == Pod::RESOURCE && subresource.is_none() && changes_spec
}

fn in_place(replicas: i32, rolling: &Value) -> World {
    let mut rolling = rolling.clone();
    rolling["podUpdatePolicy"] = json!("InPlaceIfPossible");
    let mut world = World::new(&json!({ "replicas": replicas, "updateStrategy": { "rollingUpdate": rolling } }));
    world.run();
    world
}

/// Gives a Pod another name, so that policies can tell it from the others.
fn rename(world: &mut World, name: &str) {
    let first = world.pod_names().swap_remove(0);
    let mut pod = world.cluster.objects.remove(&(Pod::RESOURCE, first)).unwrap();
    pod["metadata"]["name"] = json!(name);
    world.cluster.put(Pod::RESOURCE, pod);
}

/// So many rounds, a second each.
fn rounds(world: &mut World, count: usize) {
    for _ in 0..count {
        world.round();
        world.cluster.pass(1);
        world.cluster.settle();
    }
}

#[test]
fn given_a_quota_that_leaves_no_room_for_surge_then_the_pods_there_are_updated_all_the_same() {
    let mut world = in_place(3, &json!({ "maxUnavailable": 1, "maxSurge": 1 }));
    let before = world.pod_names();
    world.cluster.refuses = Some(quota);
    world.image("nginx:2");
    for _ in 0..40 {
        let unavailable = 3 - world.status("availableReplicas").as_i64().unwrap();
        assert!(unavailable <= 1, "{:#}", world.set()["status"]);
        rounds(&mut world, 1);
    }
    assert_eq!(world.images(), ["nginx:2"; 3]);
    assert_eq!(world.pod_names(), before);
    assert_eq!(world.status("updatedAvailableReplicas"), 3);
    assert_eq!(conditions(&world, "FailedScale")["status"], "True");
    assert!(
        conditions(&world, "FailedScale")["message"]
            .to_string()
            .contains("forbidden")
    );
}

#[test]
fn given_scaling_that_gets_something_done_then_no_pod_is_updated_in_the_same_round() {
    let mut world = in_place(2, &json!({ "maxUnavailable": 3 }));
    world.cluster.refuses = Some(quota);
    world.edit_spec(&json!({ "replicas": 5 }));
    // The third is made, the fourth is refused.
    rounds(&mut world, 2);
    assert_eq!(world.pods().len(), 3);
    let victim = world.pod_names().swap_remove(0);
    world.cluster.delete(Pod::RESOURCE, &victim);
    world.cluster.settle();
    world.image("nginx:2");
    let writes = |world: &World| world.images().iter().filter(|image| *image == "nginx:2").count();
    world.round();
    assert_eq!(
        (world.pods().len(), writes(&world)),
        (3, 1),
        "the new Pod alone has the new image"
    );
    rounds(&mut world, 20);
    assert_eq!(world.images(), ["nginx:2"; 3]);
}

#[test]
fn given_a_pod_whose_next_step_is_refused_then_others_are_created_replaced_and_deleted() {
    let mut world = in_place(3, &json!({ "maxUnavailable": 2 }));
    rename(&mut world, "web-stuck");
    // It would get its condition again, and may not.
    world.edit_pod("web-stuck", |pod| {
        pod["status"]["conditions"] = json!([]);
    });
    world.cluster.refuses = Some(frozen);
    world.edit_spec(&json!({ "replicas": 5 }));
    rounds(&mut world, 10);
    assert_eq!(world.pods().len(), 5, "{:?}", world.pod_names());
    assert_eq!(world.status("availableReplicas"), 4);
    let another = world.pod_names().into_iter().find(|name| name != "web-stuck").unwrap();
    specify_delete(&mut world, &another);
    rounds(&mut world, 10);
    assert_eq!(world.pods().len(), 5, "{:?}", world.pod_names());
    assert!(!world.pod_names().contains(&another));
    assert_eq!(conditions(&world, "FailedUpdate")["status"], "True");
}

#[test]
fn given_an_update_that_is_refused_then_readiness_is_not_flipped_again_before_the_back_off_is_over() {
    let mut world = in_place(1, &json!({ "maxUnavailable": 1 }));
    world.cluster.refuses = Some(images);
    world.image("nginx:2");
    let is_ready = |world: &World| {
        let list = world.pods()[0]["status"]["conditions"].as_array().unwrap().clone();
        let ready = list.iter().find(|condition| condition["type"] == "InPlaceUpdateReady");
        ready.unwrap()["status"] == "True"
    };
    let (mut flips, mut was_ready) = (0, true);
    for _ in 0..600 {
        // As fast as the server answers: ten rounds a second.
        world.round();
        world.cluster.settle();
        world.cluster.now += jiff::SignedDuration::from_millis(100);
        flips += u32::from(was_ready && !is_ready(&world));
        was_ready = is_ready(&world);
    }
    assert!((3..=8).contains(&flips), "{flips} times in a minute");
    assert_eq!(conditions(&world, "FailedUpdate")["status"], "True");

    // Whoever changes the set wants to know at once.
    world.cluster.refuses = None;
    world.edit_spec(&json!({ "minReadySeconds": 1 }));
    world.round();
    assert_eq!(world.images(), ["nginx:2"]);
}

#[test]
fn given_an_update_that_is_refused_for_one_pod_then_the_others_are_updated() {
    // It is the first in line.
    let order = json!({ "orderPriority": [{ "orderedKey": "first" }] });
    let mut world = in_place(3, &json!({ "maxUnavailable": 1, "priorityStrategy": order }));
    rename(&mut world, "web-stuck");
    world.edit_pod("web-stuck", |pod| pod["metadata"]["labels"]["first"] = json!("9"));
    world.cluster.refuses = Some(frozen);
    world.image("nginx:2");
    rounds(&mut world, 60);
    assert_eq!(world.images(), ["nginx:1", "nginx:2", "nginx:2"]);
    world.cluster.refuses = None;
    rounds(&mut world, 70);
    assert_eq!(world.images(), ["nginx:2"; 3]);
}
