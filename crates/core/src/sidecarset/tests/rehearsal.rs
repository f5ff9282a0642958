//! What a change of a set would come to, beside what it comes to in the model cluster.

use super::*;
use crate::rehearsal::{Counts, Rehearsal, rehearse};

/// Rehearses what was changed, lets it happen, and sees that it comes to the same.
fn played(world: &mut World) -> Rehearsal {
    let rehearsal = rehearse(world.observe().with_cached_annotations(), &world.env());
    world.settle();
    assert_eq!(json!(rehearsal.updated), world.status("updatedPods"), "{rehearsal:#?}");
    assert!(
        rehearsal
            .waves
            .iter()
            .all(|wave| wave.deleted.is_empty() && wave.released.is_empty() && wave.created == 0)
    );
    rehearsal
}

fn in_place(rehearsal: &Rehearsal) -> Vec<usize> {
    rehearsal
        .waves
        .iter()
        .map(|wave| wave.in_place.len())
        .filter(|count| *count > 0)
        .collect()
}

#[test]
fn given_an_image_when_it_changes_then_pods_follow_in_place_within_budget_and_partition() {
    let mut world = world(10, &json!({"partition": 3, "maxUnavailable": 2}));
    world.image("log:2");
    let rehearsal = played(&mut world);
    assert_eq!(in_place(&rehearsal), [2, 2, 2, 1], "{rehearsal:#?}");
    let ten = Counts { pods: 10, ready: 10 };
    assert_eq!((rehearsal.before, rehearsal.after, rehearsal.updated), (ten, ten, 7));
    assert_eq!(rehearsal.least_ready, 8);
    let names: Vec<&String> = rehearsal.waves.iter().flat_map(|wave| &wave.in_place).collect();
    assert!(names.iter().all(|name| name.starts_with("ns/p")), "{names:?}");
    assert!(
        rehearsal
            .at_last
            .contains(&Why::Rollout(why::Rollout::Partition { keeps: 3 })),
        "{:?}",
        rehearsal.at_last
    );
}

#[test]
fn given_more_than_an_image_then_no_pod_is_touched_and_it_says_why() {
    let mut world = world(2, &json!({"maxUnavailable": "100%"}));
    let mut changed = container("log", "log:2");
    changed["command"] = json!(["other"]);
    world.edit_spec(&json!({ "containers": [changed] }));
    let rehearsal = played(&mut world);
    assert_eq!((in_place(&rehearsal), rehearsal.updated), (vec![], 0));
    let says = |reason: &Why| matches!(reason, Why::Rollout(why::Rollout::NotInPlace { .. }));
    assert!(rehearsal.at_last.iter().any(says), "{:?}", rehearsal.at_last);
}

#[test]
fn given_a_pause_then_nothing_happens() {
    let mut world = world(2, &json!({"paused": true}));
    world.image("log:2");
    let rehearsal = played(&mut world);
    assert_eq!((in_place(&rehearsal), rehearsal.updated), (vec![], 0));
}

#[test]
fn given_a_sidecar_that_is_updated_hot_then_pods_follow_one_by_one() {
    let mut world = World::new(
        &[super::super::world::hot("log", "log:1")],
        &json!({"maxUnavailable": 1}),
    );
    world.pod("p0");
    world.pod("p1");
    world.settle();
    world.image("log:2");
    let rehearsal = played(&mut world);
    assert_eq!(
        (in_place(&rehearsal), rehearsal.updated),
        (vec![1, 1], 2),
        "{rehearsal:#?}"
    );
    assert!(!rehearsal.is_cut_short);
}

#[test]
fn given_pods_of_one_name_in_two_namespaces_then_each_is_counted() {
    let mut world = world(1, &json!({"maxUnavailable": "100%"}));
    let mut twin = world.cluster.get(Pod::RESOURCE, "p0").unwrap().clone();
    twin["metadata"]["name"] = json!("p1");
    world.cluster.put(Pod::RESOURCE, twin);
    world.settle();
    world.image("log:2");
    let mut observed = world.observe().with_cached_annotations();
    // The model cluster has one namespace.
    let pod = std::sync::Arc::make_mut(&mut observed.pods[1]);
    pod.metadata.name = "p0".into();
    pod.metadata.namespace = "other".into();
    let rehearsal = rehearse(observed, &world.env());
    let mut names: Vec<&String> = rehearsal.waves.iter().flat_map(|wave| &wave.in_place).collect();
    names.sort();
    assert_eq!(names, ["ns/p0", "other/p0"], "{rehearsal:#?}");
}
