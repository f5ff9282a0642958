//! Hot upgrades, step by step and in any order of what users and kubelets do.

use proptest::prelude::*;

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

#[test]
fn given_an_update_that_is_taken_back_before_it_ended_then_the_old_container_works_on() {
    let mut world = world();
    world.image("mesh:2");
    world.round();
    kubelet(&mut world, "mesh-2", false);
    world.image("mesh:1");
    world.round();
    assert_eq!(
        world.annotation("p0", "kruise.io/sidecarset-working-hotupgrade-container"),
        r#"{"mesh":"mesh-1"}"#
    );
    // It gets ready too late.
    kubelet(&mut world, "mesh-2", true);
    world.settle();
    assert_eq!(
        (world.images("mesh-1"), world.images("mesh-2")),
        (vec!["mesh:1".to_owned()], vec!["empty:1".to_owned()])
    );
    assert_eq!(world.status("updatedReadyPods"), 1);
}

/// Lets one container run what its Pod says.
fn kubelet(world: &mut World, container: &str, ready: bool) {
    world.cluster.edit(Pod::RESOURCE, "p0", |pod| {
        let containers = pod["spec"]["containers"].as_array().unwrap().iter();
        let image = containers.clone().find(|known| known["name"] == container).unwrap()["image"].clone();
        let statuses = pod["status"]["containerStatuses"].as_array_mut().unwrap();
        let status = statuses.iter_mut().find(|known| known["name"] == container).unwrap();
        status["imageID"] = json!(format!("id-of-{}", image.as_str().unwrap()));
        status["image"] = image;
        status["ready"] = json!(ready);
        let holds = if statuses.iter().all(|status| status["ready"] == true) {
            "True"
        } else {
            "False"
        };
        let conditions = pod["status"]["conditions"].as_array_mut().unwrap().iter_mut();
        for condition in conditions.filter(|condition| condition["type"] == "Ready") {
            condition["status"] = json!(holds);
        }
    });
}

/// Lets one container run, and get ready unless its image is broken.
fn run(world: &mut World, container: &str) {
    let is_good = !world.images(container)[0].contains("bad");
    kubelet(world, container, is_good);
}

/// The containers that do the work, with the image that the Pod has for each.
fn serving(world: &World) -> Vec<(String, String)> {
    let pod = world.cluster.get(Pod::RESOURCE, "p0").unwrap();
    let statuses = pod["status"]["containerStatuses"].as_array().unwrap().iter();
    let ready = statuses.filter(|status| status["ready"] == true && status["image"] != "empty:1");
    let ready = ready.map(|status| {
        (
            status["name"].as_str().unwrap().to_owned(),
            status["image"].as_str().unwrap().to_owned(),
        )
    });
    ready
        .filter(|(name, image)| name != "main" && world.images(name) == [&**image])
        .collect()
}

/// What users, kubelets and we do.
#[derive(Clone, Debug)]
enum Step {
    Image(&'static str),
    Kubelet(&'static str),
    Round,
    /// After so many writes the process is another one.
    Crash(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => prop_oneof![Just("mesh:1"), Just("mesh:2"), Just("mesh:3"), Just("mesh:bad")].prop_map(Step::Image),
        4 => prop_oneof![Just("mesh-1"), Just("mesh-2")].prop_map(Step::Kubelet),
        4 => Just(Step::Round),
        1 => (0..2_usize).prop_map(Step::Crash),
    ]
}

proptest! {
    #[test]
    fn somebody_works_all_the_time_and_in_the_end_it_is_the_last_image(steps in proptest::collection::vec(any_step(), 0..24)) {
        let mut world = world();
        for step in steps {
            let before = serving(&world);
            match step {
                Step::Image(image) => world.image(image),
                Step::Kubelet(container) => {
                    run(&mut world, container);
                    continue;
                }
                Step::Round => drop(world.round()),
                Step::Crash(writes) => {
                    world.round_of(writes);
                    world.last = crate::plan::Outcome::default();
                }
            }
            let works_on = before.iter().any(|(name, image)| world.images(name) == [&**image]);
            prop_assert!(before.is_empty() || works_on, "{before:?}");
        }
        world.image("mesh:9");
        for _ in 0..10 {
            run(&mut world, "mesh-1");
            run(&mut world, "mesh-2");
            world.cluster.pass(1);
            world.round();
        }
        let mut images = [world.images("mesh-1"), world.images("mesh-2")].concat();
        images.sort();
        prop_assert_eq!(images, ["empty:1", "mesh:9"]);
        prop_assert_eq!(world.status("updatedReadyPods"), 1);
    }
}
