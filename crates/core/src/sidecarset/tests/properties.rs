//! What holds whatever happens: never more than allowed, always an end, the same end after a crash anywhere.

use proptest::prelude::*;

use super::super::world::hot;
use super::*;

fn thorough() -> ProptestConfig {
    let cases = if std::env::var_os("CI").is_some() { 256 } else { 24 };
    ProptestConfig {
        cases,
        ..ProptestConfig::default()
    }
}

fn any_strategy() -> impl Strategy<Value = Value> {
    let amount = || {
        prop_oneof![
            (0..4_i32).prop_map(|count| json!(count)),
            Just(json!("30%")),
            Just(json!("100%"))
        ]
    };
    (amount(), 1..4_i32, any::<bool>()).prop_map(|(partition, unavailable, scatter)| {
        let terms = if scatter {
            json!([{"key": "zone", "value": "*"}])
        } else {
            json!([])
        };
        json!({"partition": partition, "maxUnavailable": unavailable, "scatterStrategy": terms})
    })
}

fn any_world() -> impl Strategy<Value = World> {
    (any_strategy(), 0..6_usize, any::<bool>()).prop_map(|(strategy, pods, is_hot)| {
        let sidecar = if is_hot {
            hot("log", "log:1")
        } else {
            container("log", "log:1")
        };
        let mut world = World::new(&[sidecar, container("agent", "agent:1")], &strategy);
        for number in 0..pods {
            let name = format!("p{number}");
            world.pod(&name);
            let zone = format!("z{}", number % 2);
            world.cluster.edit(Pod::RESOURCE, &name, |pod| {
                pod["metadata"]["labels"]["zone"] = json!(zone);
            });
        }
        world.settle();
        world
    })
}

/// What users see in the end: the images, and the numbers.
fn end(world: &World) -> Value {
    let pods = world.cluster.all(Pod::RESOURCE);
    let pods: Vec<Value> = pods
        .map(|pod| {
            let containers = pod["spec"]["containers"].as_array().unwrap();
            let images: Vec<&Value> = containers.iter().map(|container| &container["image"]).collect();
            json!([pod["metadata"]["name"], images])
        })
        .collect();
    let mut status = world.set()["status"].clone();
    status.as_object_mut().unwrap().remove("observedGeneration");
    json!([pods, status])
}

proptest! {
    #![proptest_config(thorough())]

    #[test]
    fn it_comes_to_the_same_end_after_a_crash_anywhere(world in any_world(), writes in 0..12_usize) {
        let mut straight = world.clone();
        straight.image("log:2");
        straight.settle();
        let mut crashed = world;
        crashed.image("log:2");
        let mut left = writes;
        for _ in 0..20 {
            let before = crashed.cluster.writes;
            crashed.round_of(left);
            left -= (crashed.cluster.writes - before).min(left);
            if left == 0 {
                break;
            }
            crashed.cluster.settle();
        }
        // The next process knows nothing of what the last one did.
        crashed.last = crate::plan::Outcome::default();
        crashed.settle();
        prop_assert_eq!(end(&crashed), end(&straight));
    }

    #[test]
    fn no_more_pods_than_allowed_are_under_way(world in any_world()) {
        let mut world = world;
        let most = world.set()["spec"]["updateStrategy"]["maxUnavailable"].as_u64().unwrap() as usize;
        world.image("log:2");
        for _ in 0..30 {
            let before: Vec<Value> = world.cluster.all(Pod::RESOURCE).cloned().collect();
            world.round();
            let after = world.cluster.all(Pod::RESOURCE);
            let changed = after.zip(&before).filter(|(after, before)| {
                let hash = |pod: &Value| pod["metadata"]["annotations"]["kruise.io/sidecarset-hash"].clone();
                hash(after) != hash(before)
            });
            prop_assert!(changed.count() <= most);
            world.cluster.settle();
        }
    }

    #[test]
    fn an_old_picture_does_no_harm(world in any_world()) {
        let mut world = world;
        world.image("log:2");
        let old = super::super::plan(&world.observe(), &world.env());
        world.settle();
        let before = end(&world);
        world.cluster.apply(&old, usize::MAX);
        world.settle();
        prop_assert_eq!(end(&world), before);
    }
}

#[test]
fn equal_pictures_give_equal_plans_whatever_their_order() {
    let mut world = World::new(&[container("log", "log:1")], &json!({"maxUnavailable": 2}));
    for pod in ["a", "b", "c", "d"] {
        world.pod(pod);
    }
    world.settle();
    world.image("log:2");
    let mut observed = world.observe();
    let plan = super::super::plan(&observed, &world.env());
    observed.pods.reverse();
    observed.revisions.reverse();
    assert_eq!(super::super::plan(&observed, &world.env()), plan);
}
