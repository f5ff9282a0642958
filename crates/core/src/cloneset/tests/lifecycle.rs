//! Lifecycle hooks, from the outside.

use kruise_api::resource::Subresource;
use serde_json::{Value, json};

use super::super::fixtures::template;
use super::super::world::World;
use super::{specify_delete, states};
use crate::plan::Action;
use crate::plan::harness::name_of;

fn hooked(hook: &str, mark: bool) -> World {
    let handler = json!({ "labelsHandler": { "example.com/hold": "yes" }, "markPodNotReady": mark });
    let mut template = template("nginx:1");
    if hook != "preNormal" {
        template["metadata"]["labels"]["example.com/hold"] = json!("yes");
    }
    World::new(&json!({ "template": template, "lifecycle": { (hook): handler } }))
}

fn release(world: &mut World, name: &str) {
    world.edit_pod(name, |pod| {
        pod["metadata"]["labels"]
            .as_object_mut()
            .unwrap()
            .remove("example.com/hold");
    });
}

#[test]
fn given_a_pre_delete_hook_then_a_pod_waits_and_comes_back_when_it_is_needed() {
    let mut world = hooked("preDelete", false);
    world.run();
    let names = world.pod_names();
    world.edit_spec(&json!({ "replicas": 2 }));
    world.run();
    assert_eq!(world.pod_names(), names);
    assert_eq!(
        states(&world)
            .iter()
            .filter(|state| *state == "PreparingDelete")
            .count(),
        1
    );
    assert!(
        world
            .round()
            .why
            .iter()
            .any(|why| why.to_string().contains("preDelete hook, whose labels"))
    );
    world.edit_spec(&json!({ "replicas": 3 }));
    world.run();
    assert_eq!(
        (world.pod_names(), states(&world)),
        (names, vec!["Normal".to_owned(); 3])
    );
}

#[test]
fn given_a_pre_delete_hook_when_it_lets_go_then_the_pod_is_deleted() {
    let mut world = hooked("preDelete", true);
    world.run();
    world.edit_spec(&json!({ "replicas": 2 }));
    world.run();
    let waiting = |pod: &&Value| pod["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] == "PreparingDelete";
    let pod = world.pods().into_iter().find(waiting).unwrap().clone();
    let held = pod["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["type"] == "KruisePodReady")
        .unwrap()
        .clone();
    assert_eq!(
        (&held["status"], &held["message"]),
        (
            &json!("False"),
            &json!(r#"[{"userAgent":"Lifecycle","key":"preDeleteHook"}]"#)
        )
    );
    // With markPodNotReady nobody comes back: somebody has already acted on the Pod's leaving.
    world.edit_spec(&json!({ "replicas": 3 }));
    world.run();
    assert_eq!(world.pods().len(), 3);
    let name = pod["metadata"]["name"].as_str().unwrap();
    release(&mut world, name);
    world.run();
    assert_eq!(world.pods().len(), 3);
    assert!(!world.pod_names().contains(&name.to_owned()));
}

#[test]
fn given_pods_that_prepare_their_deletion_do_not_count_then_a_replacement_is_made_at_once() {
    let mut world = hooked("preDelete", false);
    world.edit_spec(&json!({ "scaleStrategy": { "excludePreparingDelete": true } }));
    world.run();
    let name = world.pod_names()[0].clone();
    specify_delete(&mut world, &name);
    world.run();
    assert_eq!(world.pods().len(), 4);
    assert_eq!(
        states(&world)
            .iter()
            .filter(|state| *state == "PreparingDelete")
            .count(),
        1
    );
}

#[test]
fn given_an_update_hook_then_pods_wait_before_and_after_the_update() {
    let mut world = hooked("inPlaceUpdate", true);
    world.run();
    let mut next = template("nginx:2");
    next["metadata"]["labels"]["example.com/hold"] = json!("yes");
    world.edit_spec(&json!({ "template": next }));
    world.run();
    assert_eq!(world.images(), ["nginx:1"; 3]);
    let in_state = |world: &World, wanted: &str| {
        let found = world
            .pods()
            .into_iter()
            .find(|pod| pod["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] == wanted);
        found.map(name_of)
    };
    let first = in_state(&world, "PreparingUpdate").unwrap();
    release(&mut world, &first);
    world.run();
    assert_eq!(world.images(), ["nginx:1", "nginx:1", "nginx:2"]);
    assert_eq!(in_state(&world, "Updated").as_ref(), Some(&first));
    world.edit_pod(&first, |pod| {
        pod["metadata"]["labels"]["example.com/hold"] = json!("yes");
    });
    world.run();
    assert!(in_state(&world, "PreparingUpdate").is_some_and(|second| second != first));
    // A rollback while the second one waits: it goes back to Normal, is ready, and nothing but the first is changed.
    let mut back = template("nginx:1");
    back["metadata"]["labels"]["example.com/hold"] = json!("yes");
    world.edit_spec(&json!({ "template": back }));
    world.run();
    let waiting = in_state(&world, "PreparingUpdate").unwrap();
    assert_eq!(waiting, first);
    release(&mut world, &first);
    world.run();
    world.edit_pod(&first, |pod| {
        pod["metadata"]["labels"]["example.com/hold"] = json!("yes");
    });
    world.run();
    assert_eq!(
        (world.images(), states(&world)),
        (vec!["nginx:1".to_owned(); 3], vec!["Normal".to_owned(); 3])
    );
    assert_eq!(world.status("readyReplicas"), 3);
}

#[test]
fn given_a_pod_that_waits_for_its_update_when_the_type_becomes_on_delete_then_it_is_available_again() {
    let mut world = hooked("inPlaceUpdate", true);
    world.run();
    let mut next = template("nginx:2");
    next["metadata"]["labels"]["example.com/hold"] = json!("yes");
    world.edit_spec(&json!({ "template": next }));
    world.run();
    assert!(states(&world).contains(&"PreparingUpdate".to_owned()));
    world.edit_spec(&json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } }));
    world.run();
    assert_eq!(
        (states(&world), world.images(), world.status("availableReplicas")),
        (vec!["Normal".to_owned(); 3], vec!["nginx:1".to_owned(); 3], json!(3))
    );
}

#[test]
fn given_hooks_of_another_kind_then_an_updated_pod_passes_through_updated() {
    let mut world = hooked("preDelete", false);
    world.run();
    let mut next = template("nginx:2");
    next["metadata"]["labels"]["example.com/hold"] = json!("yes");
    world.edit_spec(&json!({ "template": next, "updateStrategy": { "rollingUpdate": { "maxUnavailable": 3 } } }));
    let mut seen = Vec::new();
    for _ in 0..12 {
        world.round();
        world.cluster.settle();
        seen.extend(states(&world));
    }
    seen.dedup();
    let expected = ["Updating", "Updated", "Normal"].map(str::to_owned);
    assert!(seen.ends_with(&expected), "{seen:?}");
    assert_eq!(world.images(), ["nginx:2"; 3]);
}

#[test]
fn given_hooks_then_every_change_of_state_is_a_write_of_the_pod_itself() {
    for (hook, through_pods) in [(None, false), (Some("preDelete"), true)] {
        let mut world = match hook {
            Some(hook) => hooked(hook, true),
            None => World::new(&json!({})),
        };
        let mut parts = Vec::new();
        let mut watch = |world: &mut World| {
            for _ in 0..16 {
                let plan = world.round();
                parts.extend(plan.writes().filter_map(state_written_through));
                world.cluster.settle();
            }
        };
        watch(&mut world);
        let mut next = template("nginx:2");
        next["metadata"]["labels"]["example.com/hold"] = json!("yes");
        world.edit_spec(&json!({ "template": next }));
        watch(&mut world);
        world.edit_spec(&json!({ "replicas": 2 }));
        watch(&mut world);
        assert!(parts.len() > 6, "{parts:?}");
        assert_eq!(parts.iter().all(|part| *part == "pod"), through_pods, "{parts:?}");
    }
}

/// The part of a Pod through which a lifecycle state is written, `pod` for itself.
fn state_written_through(action: &Action) -> Option<&'static str> {
    let Action::Patch { subresource, patch, .. } = action else {
        return None;
    };
    let label = &patch.document()["metadata"]["labels"]["lifecycle.apps.kruise.io/state"];
    label
        .is_string()
        .then(|| subresource.map_or("pod", Subresource::as_str))
}

#[test]
fn given_a_pre_normal_hook_then_pods_are_available_only_when_it_is_on_them() {
    let mut world = hooked("preNormal", false);
    world.run();
    assert_eq!(states(&world), ["PreparingNormal"; 3]);
    assert_eq!(
        (world.status("readyReplicas"), world.status("availableReplicas")),
        (json!(3), json!(0))
    );
    for name in world.pod_names() {
        world.edit_pod(&name, |pod| {
            pod["metadata"]["labels"]["example.com/hold"] = json!("yes");
        });
    }
    world.run();
    assert_eq!(
        (states(&world), world.status("availableReplicas")),
        (vec!["Normal".to_owned(); 3], json!(3))
    );
}
