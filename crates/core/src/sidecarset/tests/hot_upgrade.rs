use super::super::world::hot;
use super::*;

fn world() -> World {
    let mut world = World::new(&[hot("mesh", "mesh:1")], &json!({}));
    world.pod("p0");
    world.settle();
    world
}

/// Images of both, the one that works, their versions, and the versions of the other.
fn state(world: &World) -> [String; 7] {
    let version =
        |kind: &str, number: &str| world.annotation("p0", &format!("{kind}.sidecarset.kruise.io/mesh-{number}"));
    [
        world.images("mesh-1").remove(0),
        world.images("mesh-2").remove(0),
        world.annotation("p0", "kruise.io/sidecarset-working-hotupgrade-container"),
        version("version", "1"),
        version("version", "2"),
        version("versionalt", "1"),
        version("versionalt", "2"),
    ]
}

fn version(world: &World) -> String {
    world.set()["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

#[test]
fn given_a_hot_upgrade_then_both_containers_take_turns() {
    let mut world = world();
    assert_eq!(
        state(&world),
        ["mesh:1", "empty:1", r#"{"mesh":"mesh-1"}"#, "1", "0", "0", "1"]
    );
    assert_eq!(world.status("readyPods"), 1);

    world.image("mesh:2");
    let r = version(&world);
    world.round();
    let two = r#"{"mesh":"mesh-2"}"#;
    assert_eq!(state(&world), ["mesh:1", "mesh:2", two, "1", &r, &r, "1"]);
    world.round();
    assert_eq!(world.images("mesh-1"), ["mesh:1"], "the new one does not run yet");
    assert_eq!(
        (world.status("readyPods"), world.status("updatedPods")),
        (json!(0), json!(1))
    );

    world.cluster.settle();
    let plan = world.round();
    let told: Vec<_> = plan
        .actions
        .iter()
        .flat_map(|step| &step.chains)
        .flat_map(|chain| &chain.writes)
        .collect();
    let event = told.iter().find_map(|write| write.succeeded.first()).unwrap();
    assert_eq!(
        (event.reason, event.about.as_ref().unwrap().name.as_str()),
        ("ResetContainerSucceed", "p0")
    );
    assert_eq!(state(&world), ["empty:1", "mesh:2", two, "0", &r, &r, "0"]);
    world.settle();
    assert_eq!(
        (world.status("readyPods"), world.status("updatedReadyPods")),
        (json!(1), json!(1))
    );

    world.image("mesh:3");
    let s = version(&world);
    world.round();
    assert_eq!(
        state(&world),
        ["mesh:3", "mesh:2", r#"{"mesh":"mesh-1"}"#, &s, &r, &r, &s]
    );
    world.settle();
    assert_eq!(
        state(&world),
        ["mesh:3", "empty:1", r#"{"mesh":"mesh-1"}"#, &s, "0", "0", &s]
    );
}

#[test]
fn given_a_new_container_that_never_gets_ready_then_it_is_replaced_and_the_old_one_works_on() {
    let mut world = world();
    world.image("mesh:bad");
    world.settle();
    assert_eq!(
        (world.images("mesh-1"), world.images("mesh-2")),
        (vec!["mesh:1".to_owned()], vec!["mesh:bad".to_owned()])
    );
    // The model's Pods are ready as a whole or not at all.
    world.cluster.edit(Pod::RESOURCE, "p0", |pod| {
        for status in pod["status"]["containerStatuses"].as_array_mut().unwrap() {
            status["ready"] = json!(status["name"] != "mesh-2");
        }
    });
    world.image("mesh:3");
    world.round();
    assert_eq!(
        (world.images("mesh-1"), world.images("mesh-2")),
        (vec!["mesh:1".to_owned()], vec!["mesh:3".to_owned()])
    );
    world.settle();
    assert_eq!(
        (world.images("mesh-1"), world.images("mesh-2")),
        (vec!["empty:1".to_owned()], vec!["mesh:3".to_owned()])
    );
}

#[test]
fn given_a_pause_in_the_middle_then_nothing_is_reset_before_it_ends() {
    let mut world = world();
    world.image("mesh:2");
    world.round();
    world.edit_spec(&json!({"updateStrategy": {"paused": true}}));
    world.settle();
    assert_eq!(world.images("mesh-1"), ["mesh:1"]);
    world.edit_spec(&json!({"updateStrategy": {"paused": false}}));
    world.settle();
    assert_eq!(world.images("mesh-1"), ["empty:1"]);
}
