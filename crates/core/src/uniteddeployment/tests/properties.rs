//! What holds for every plan, whatever users do and wherever a process dies.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::world::{World, spec, template};
use super::super::{WorkloadKind, plan};
use super::KINDS;

/// What a user does, or what happens.
#[derive(Clone, Debug)]
enum Step {
    Replicas(i32),
    Image(u8),
    Partition(usize, i32),
    Subsets(u8),
    Full(usize),
    Empty,
    Pass(i64),
    EditReplicas(usize, i32),
    Delete(usize),
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..12i32).prop_map(Step::Replicas),
        (1..4u8).prop_map(Step::Image),
        (0..4usize, 0..5i32).prop_map(|(subset, count)| Step::Partition(subset, count)),
        (1..16u8).prop_map(Step::Subsets),
        (0..4usize).prop_map(Step::Full),
        Just(Step::Empty),
        (0..400i64).prop_map(Step::Pass),
        (0..4usize, 0..9i32).prop_map(|(child, count)| Step::EditReplicas(child, count)),
        (0..4usize).prop_map(Step::Delete),
    ]
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Average,
    Limits,
    Adaptive,
    Reserving,
}

fn subsets(shape: Shape, mask: u8) -> Value {
    let chosen = NAMES.iter().enumerate().filter(|(bit, _)| mask & (1 << bit) != 0);
    let all: Vec<Value> = chosen
        .enumerate()
        .map(|(place, (_, name))| match shape {
            Shape::Average => json!({"name": name}),
            // The first has no limit.
            _ if place == 0 => json!({"name": name, "minReplicas": 1}),
            _ => json!({"name": name, "minReplicas": 0, "maxReplicas": 3}),
        })
        .collect();
    json!(all)
}

fn world(kind: WorkloadKind, shape: Shape) -> World {
    let mut given = spec(kind, 5, &subsets(shape, 0b0111));
    let reserves = matches!(shape, Shape::Reserving);
    if matches!(shape, Shape::Adaptive | Shape::Reserving) {
        given["topology"]["scheduleStrategy"] =
            json!({"type": "Adaptive", "adaptive": {"reserveUnschedulablePods": reserves}});
    }
    World::with(&given)
}

fn take(world: &mut World, step: &Step, kind: WorkloadKind, shape: Shape) {
    let child = |world: &World, index: usize| {
        let all = world.all(kind);
        all.get(index)
            .map(|child| child["metadata"]["name"].as_str().unwrap().to_owned())
    };
    match step {
        Step::Replicas(count) => world.change(|spec| spec["replicas"] = json!(count)),
        Step::Image(tag) => {
            let new = template(kind, &format!("nginx:{tag}"));
            world.change(|spec| spec["template"] = new);
        }
        Step::Partition(subset, count) => world.change(|spec| {
            spec["updateStrategy"]["manualUpdate"]["partitions"][NAMES[*subset]] = json!(count);
        }),
        Step::Subsets(mask) => world.change(|spec| spec["topology"]["subsets"] = subsets(shape, *mask)),
        Step::Full(subset) => {
            world.full.insert(NAMES[*subset].to_owned());
        }
        Step::Empty => world.full.clear(),
        Step::Pass(seconds) => world.cluster.pass(*seconds),
        Step::EditReplicas(index, count) => {
            if let Some(name) = child(world, *index) {
                world
                    .cluster
                    .edit(kind.resource(), &name, |child| child["spec"]["replicas"] = json!(count));
            }
        }
        Step::Delete(index) => {
            if let Some(name) = child(world, *index) {
                world.cluster.delete(kind.resource(), &name);
            }
        }
    }
}

/// Waits until no time has to be waited for any more.
fn rest(world: &mut World) {
    for _ in 0..8 {
        world.rest();
        world.cluster.pass(400);
    }
    world.rest();
}

fn end(world: &World, kind: WorkloadKind) -> BTreeMap<String, (i64, String)> {
    let children = world.children(kind).into_iter();
    children
        .map(|(subset, child)| {
            let image = &child["spec"]["template"]["spec"]["containers"][0]["image"];
            (
                subset,
                (
                    child["spec"]["replicas"].as_i64().unwrap(),
                    image.as_str().unwrap().to_owned(),
                ),
            )
        })
        .collect()
}

fn any_shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        Just(Shape::Average),
        Just(Shape::Limits),
        Just(Shape::Adaptive),
        Just(Shape::Reserving)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_story_comes_to_rest_with_all_pods_placed(
        kind in 0..4usize, shape in any_shape(), steps in prop::collection::vec(any_step(), 1..8),
    ) {
        let kind = KINDS[kind];
        let mut world = world(kind, shape);
        for step in &steps {
            take(&mut world, step, kind, shape);
            world.round(3);
            world.settle();
        }
        world.full.clear();
        rest(&mut world);
        let wanted = world.united()["spec"]["replicas"].as_i64().unwrap();
        let sum: i64 = world.replicas(kind).iter().sum();
        prop_assert_eq!(sum, wanted);
        let subsets = world.united()["spec"]["topology"]["subsets"].as_array().unwrap().len();
        prop_assert_eq!(world.children(kind).len(), subsets);
        // The same picture gives the same plan.
        let observed = world.observed();
        prop_assert_eq!(plan(&observed, &world.env()), plan(&observed, &world.env()));
    }

    #[test]
    fn a_crash_after_any_write_ends_where_none_would(
        kind in 0..4usize, shape in any_shape(), before in any_step(), after in any_step(), budget in 0..9usize,
    ) {
        let kind = KINDS[kind];
        let mut world = world(kind, shape);
        world.rest();
        take(&mut world, &before, kind, shape);
        world.round(2);
        take(&mut world, &after, kind, shape);
        let mut crashed = world.clone();
        crashed.round(budget);
        crashed.last = crate::plan::Outcome::default();
        for world in [&mut world, &mut crashed] {
            world.full.clear();
            rest(world);
        }
        // Where Pods go one by one depends on who is ready first; how many there are does not.
        let sum = |world: &World| world.replicas(kind).iter().sum::<i64>();
        prop_assert_eq!(sum(&world), sum(&crashed));
        if matches!(shape, Shape::Limits) {
            prop_assert_eq!(end(&world, kind), end(&crashed, kind));
        }
    }

    #[test]
    fn an_old_picture_does_no_harm(kind in 0..4usize, shape in any_shape(), step in any_step(), later in any_step()) {
        let kind = KINDS[kind];
        let mut world = world(kind, shape);
        world.rest();
        take(&mut world, &step, kind, shape);
        let old = world.plan();
        world.rest();
        take(&mut world, &later, kind, shape);
        world.cluster.apply(&old, usize::MAX);
        world.full.clear();
        rest(&mut world);
        let wanted = world.united()["spec"]["replicas"].as_i64().unwrap();
        prop_assert_eq!(world.replicas(kind).iter().sum::<i64>(), wanted);
    }
}
