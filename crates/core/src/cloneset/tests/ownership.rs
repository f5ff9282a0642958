//! What belongs to a set: claims, revisions, and Pods that no longer do.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use serde_json::{Value, json};

use super::super::world::World;
use crate::plan::Action;
use crate::plan::harness::name_of;

fn with_claims(reuse: bool) -> World {
    let claim = json!({ "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteOnce"] } });
    World::new(&json!({
        "replicas": 2, "volumeClaimTemplates": [claim], "scaleStrategy": { "enablePVCReuse": reuse },
    }))
}

fn claims(world: &World) -> Vec<String> {
    world
        .cluster
        .all(PersistentVolumeClaim::RESOURCE)
        .map(name_of)
        .collect()
}

#[test]
fn given_reuse_when_a_pod_is_deleted_by_hand_then_it_comes_back_with_its_claim() {
    let mut world = with_claims(true);
    world.run();
    let (pods, before) = (world.pod_names(), claims(&world));
    assert_eq!(before.len(), 2);
    world.cluster.delete(Pod::RESOURCE, &pods[0]);
    let plan = world.round();
    assert!(plan.writes().next().is_none(), "the old Pod is still there: {plan:?}");
    world.run();
    assert_eq!((world.pod_names(), claims(&world)), (pods, before));
}

#[test]
fn given_no_reuse_when_a_pod_is_deleted_by_hand_then_its_claim_goes_with_it() {
    let mut world = with_claims(false);
    world.run();
    world.cluster.pass(60);
    let (pods, before) = (world.pod_names(), claims(&world));
    world.cluster.delete(Pod::RESOURCE, &pods[0]);
    world.run();
    assert_eq!((world.pods().len(), claims(&world).len()), (2, 2));
    assert!(!world.pod_names().contains(&pods[0]) && !claims(&world).contains(&before[0]));
}

#[test]
fn given_scaling_in_then_claims_go_with_their_pods() {
    for reuse in [true, false] {
        let mut world = with_claims(reuse);
        world.run();
        world.edit_spec(&json!({ "replicas": 1 }));
        world.run();
        assert_eq!((world.pods().len(), claims(&world).len()), (1, 1), "reuse {reuse}");
    }
}

#[test]
fn given_a_pod_that_no_longer_matches_then_it_is_released_and_replaced() {
    let mut world = World::new(&json!({}));
    world.run();
    let name = world.pod_names()[0].clone();
    world.edit_pod(&name, |pod| pod["metadata"]["labels"]["app"] = json!("other"));
    world.run();
    assert_eq!(world.pods().len(), 4);
    let released = world.cluster.get(Pod::RESOURCE, &name).unwrap();
    assert_eq!(released["metadata"]["ownerReferences"], json!([]));
}

#[test]
fn given_only_claim_templates_change_then_nothing_is_updated() {
    let mut world = with_claims(false);
    world.run();
    let revision = world.status("updateRevision");
    let more = json!({ "metadata": { "name": "more" }, "spec": { "accessModes": ["ReadWriteOnce"] } });
    let data = json!({ "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteOnce"] } });
    world.edit_spec(&json!({ "volumeClaimTemplates": [data, more] }));
    let names = world.pod_names();
    world.run();
    assert_eq!(
        (world.pod_names(), world.status("updateRevision"), claims(&world).len()),
        (names, revision, 2)
    );
    world.edit_spec(&json!({ "replicas": 3 }));
    world.run();
    assert_eq!(claims(&world).len(), 4);
}

#[test]
fn given_many_templates_then_only_as_many_old_revisions_stay_as_asked_for() {
    let mut world = World::new(&json!({ "revisionHistoryLimit": 2 }));
    for version in 0..6 {
        world.image(&format!("nginx:{version}"));
        world.run();
    }
    assert_eq!(world.cluster.all(ControllerRevision::RESOURCE).count(), 3);
    // Back to one of them: no new revision, and the old one is the newest now.
    world.image("nginx:4");
    world.run();
    assert_eq!(world.cluster.all(ControllerRevision::RESOURCE).count(), 3);
    let newest = world
        .cluster
        .all(ControllerRevision::RESOURCE)
        .max_by_key(|revision| revision["revision"].as_i64());
    assert_eq!(newest.unwrap()["metadata"]["name"], world.status("updateRevision"));
}

#[test]
fn given_a_revision_of_a_set_that_was_deleted_then_its_name_is_kept_when_the_set_comes_back() {
    let mut world = World::new(&json!({}));
    let mut probe = world.clone();
    probe.round();
    let mut left = probe.cluster.all(ControllerRevision::RESOURCE).next().unwrap().clone();
    left["metadata"]["ownerReferences"][0]["uid"] = json!("22222222-2222-4222-8222-222222222222");
    let name = left["metadata"]["name"].clone();
    world.cluster.put(ControllerRevision::RESOURCE, left);
    world.run();
    let names = world.pod_names();
    assert_eq!(
        (world.status("updateRevision"), world.status("collisionCount")),
        (name.clone(), json!(0))
    );
    // The garbage collector gets to it: the set makes its own, and nothing else changes.
    world
        .cluster
        .delete(ControllerRevision::RESOURCE, name.as_str().unwrap());
    world.run();
    assert_eq!(
        (
            world.status("updateRevision"),
            world.status("collisionCount"),
            world.pod_names()
        ),
        (name.clone(), json!(0), names)
    );
    let stored = world.cluster.get(ControllerRevision::RESOURCE, name.as_str().unwrap());
    assert_eq!(
        stored.unwrap()["metadata"]["ownerReferences"][0]["uid"],
        super::super::fixtures::SET_UID
    );
}

#[test]
fn given_the_name_of_a_revision_was_taken_and_is_free_again_then_it_is_tried_again() {
    let mut world = World::new(&json!({}));
    let mut probe = world.clone();
    probe.round();
    let name = name_of(probe.cluster.all(ControllerRevision::RESOURCE).next().unwrap());
    world.last.failures.push(crate::plan::Failure {
        phase: crate::plan::Phase::Revisions,
        object: crate::plan::Target::new(ControllerRevision::RESOURCE, "shop", &name),
        class: crate::plan::FailureClass::Exists,
        message: "already exists".to_owned(),
    });
    world.run();
    assert_eq!(
        (world.status("updateRevision"), world.status("collisionCount")),
        (json!(name), json!(0))
    );
}

#[test]
fn given_the_name_of_a_revision_is_taken_then_another_name_is_found() {
    let mut world = World::new(&json!({}));
    let mut probe = world.clone();
    probe.round();
    let mut foreign = probe.cluster.all(ControllerRevision::RESOURCE).next().unwrap().clone();
    foreign["metadata"]["ownerReferences"][0]["uid"] = json!("22222222-2222-4222-8222-222222222222");
    foreign["data"] = json!({ "spec": {} });
    let taken = foreign["metadata"]["name"].clone();
    world.cluster.put(ControllerRevision::RESOURCE, foreign);
    world.run();
    assert_eq!(world.status("collisionCount"), 1);
    assert_ne!(world.status("updateRevision"), taken);
    assert_eq!(world.pods().len(), 3);
}

/// A Pod, its claim and the UID of that.
fn first_with_claim(world: &World) -> (String, Value) {
    let name = world.pod_names()[0].clone();
    let claim = claim_of(world, &name);
    (name, claim)
}

fn claim_of(world: &World, pod: &str) -> Value {
    let claim = world
        .cluster
        .get(PersistentVolumeClaim::RESOURCE, &format!("data-{pod}"));
    claim.unwrap()["metadata"]["uid"].clone()
}

#[test]
fn given_reuse_and_a_released_pod_then_its_name_is_taken_and_a_pod_with_another_name_is_made() {
    let mut world = with_claims(true);
    world.run();
    let (name, claim) = first_with_claim(&world);
    world.edit_pod(&name, |pod| pod["metadata"]["labels"]["app"] = json!("other"));
    world.run();
    world.edit_spec(&json!({ "replicas": 4 }));
    world.run();
    assert_eq!(world.pods().len(), 5, "four and the one that was released");
    assert_eq!(claim_of(&world, &name), claim);
    // When it is gone, its claim is free for the next.
    world.cluster.delete(Pod::RESOURCE, &name);
    world.cluster.settle();
    world.edit_spec(&json!({ "replicas": 5 }));
    world.run();
    assert!(world.pod_names().contains(&name));
    assert_eq!(claim_of(&world, &name), claim);
}

#[test]
fn given_reuse_and_a_failed_pod_then_it_is_deleted_and_its_successor_has_its_name_and_claim() {
    let mut world = with_claims(true);
    world.run();
    let names = world.pod_names();
    let (name, claim) = first_with_claim(&world);
    let failed = world.cluster.get(Pod::RESOURCE, &name).unwrap()["metadata"]["uid"].clone();
    world.edit_pod(&name, |pod| {
        pod["status"] = json!({ "phase": "Failed", "reason": "Evicted" });
    });
    let plan = world.round();
    let deletes = |action: &&Action| matches!(action, Action::Delete { .. });
    let deleted: Vec<_> = plan
        .writes()
        .filter(deletes)
        .map(|action| action.object().name.clone())
        .collect();
    assert_eq!(deleted, [&*name], "the Pod and not its claim");
    world.cluster.settle();
    world.run();
    assert_eq!(world.pod_names(), names);
    assert_eq!(claim_of(&world, &name), claim);
    assert_ne!(
        world.cluster.get(Pod::RESOURCE, &name).unwrap()["metadata"]["uid"],
        failed
    );
}
