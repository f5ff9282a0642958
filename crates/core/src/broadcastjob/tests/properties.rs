//! Whatever happens: never more Pods than allowed, never two on a node, an end, and nothing written after it.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// What nodes and users do.
#[derive(Clone, Debug)]
enum Change {
    End(usize, bool),
    Join,
    Leave(usize),
    Cordon(usize, bool),
    Pause(bool),
    Parallelism(i32),
    DeletePod(usize),
    Pass(i64),
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0..6_usize, any::<bool>()).prop_map(|(node, well)| Change::End(node, well)),
        1 => Just(Change::Join),
        1 => (0..6_usize).prop_map(Change::Leave),
        1 => (0..6_usize, any::<bool>()).prop_map(|(node, on)| Change::Cordon(node, on)),
        1 => any::<bool>().prop_map(Change::Pause),
        1 => (0..4_i32).prop_map(Change::Parallelism),
        1 => (0..6_usize).prop_map(Change::DeletePod),
        1 => (0..20_i64).prop_map(Change::Pass),
    ]
}

fn any_spec() -> impl Strategy<Value = Value> {
    let failure = prop_oneof![Just("FailFast"), Just("Continue"), Just("Pause"), Just("Odd")];
    let parallelism = prop_oneof![(0..4_i32).prop_map(|n| json!(n)), Just(json!("50%")), Just(json!("x"))];
    let completion = prop_oneof![
        2 => Just(json!({"type": "Always"})),
        1 => Just(json!({"type": "Never"})),
        1 => Just(json!({"type": "Always", "activeDeadlineSeconds": 15, "ttlSecondsAfterFinished": 5})),
    ];
    (failure, parallelism, completion).prop_map(|(failure, parallelism, completion)| {
        json!({"failurePolicy": {"type": failure}, "parallelism": parallelism, "completionPolicy": completion})
    })
}

fn is_there(world: &World) -> bool {
    world.cluster.get(BroadcastJob::RESOURCE, "job").is_some()
}

fn make(world: &mut World, change: &Change) {
    let nodes: Vec<String> = world.cluster.all(Node::RESOURCE).map(name_of).collect();
    let nth = |number: &usize| nodes.get(*number).cloned();
    match change {
        Change::End(number, well) => {
            if let Some(node) = nth(number).filter(|node| world.pod_on(node).is_some()) {
                world.set(&node, if *well { "Succeeded" } else { "Failed" });
            }
        }
        Change::Join => world.join(&format!("m{}", nodes.len())),
        Change::Leave(number) => {
            if let Some(node) = nth(number) {
                world.cluster.objects.remove(&(Node::RESOURCE, node));
            }
        }
        Change::Cordon(number, on) => {
            if let Some(node) = nth(number) {
                world.edit_node(&node, |node| node["spec"] = json!({"unschedulable": on}));
            }
        }
        Change::Pause(on) => world.edit(&json!({"paused": on})),
        Change::Parallelism(count) => world.edit(&json!({"parallelism": count})),
        Change::DeletePod(number) => {
            let name = world.pods().get(*number).map(name_of);
            if let Some(name) = name {
                world.cluster.delete(Pod::RESOURCE, &name);
                world.remove_terminating();
            }
        }
        Change::Pass(seconds) => world.cluster.pass(*seconds),
    }
}

/// The nodes of Pods that have neither ended nor are on their way out.
fn living(world: &World) -> Vec<String> {
    let observed = world.observe();
    let is_living = |pod: &&Arc<Pod>| !counts::has_ended(pod) && !pod.metadata.is_deleting();
    let pods = observed.pods.iter().filter(is_living);
    pods.map(|pod| counts::node_of(pod).to_owned()).collect()
}

/// How many may run, as the spec says.
fn limit(world: &World) -> usize {
    let observed = world.observe();
    let fitter = Fitter::of_template(&observed.job.spec.template.value()).unwrap();
    let counts = Counts::of(&observed, &fitter);
    let limit = scale::parallelism(observed.job.spec.parallelism.as_ref(), counts.desired);
    usize::try_from(limit.unwrap_or(0)).unwrap_or(0)
}

/// One round does not bring more Pods than allowed, nor two to a node.
fn round_within_limits(world: &mut World, writes: usize) -> Result<(), TestCaseError> {
    if !is_there(world) {
        return Ok(());
    }
    let before = living(world).len();
    let limit = limit(world);
    world.round_of(writes);
    if !is_there(world) {
        return Ok(());
    }
    let nodes = living(world);
    prop_assert!(nodes.len() <= limit.max(before), "{} run, {limit} may", nodes.len());
    let distinct: BTreeSet<&String> = nodes.iter().collect();
    prop_assert_eq!(distinct.len(), nodes.len(), "two Pods on a node: {:?}", nodes);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_happens_limits_hold_and_an_end_is_an_end(
        spec in any_spec(), nodes in 0..5_usize, changes in proptest::collection::vec(any_change(), 0..12),
    ) {
        let mut world = World::new(nodes, &spec);
        for change in &changes {
            round_within_limits(&mut world, usize::MAX)?;
            if !is_there(&world) {
                break;
            }
            make(&mut world, change);
        }
        world.run();
        if is_there(&world) {
            world.remove_terminating();
            world.run();
        }
        if is_there(&world) {
            let observed = world.observe();
            let one = plan(&observed, &Env::at(world.cluster.now));
            prop_assert!(one.is_idle(), "{one:#?}");
            prop_assert_eq!(&one, &plan(&observed, &Env::at(world.cluster.now)));
            if is_finished(&observed.job) && holds(&observed.job, "Failed") {
                prop_assert!(living(&world).is_empty());
            }
        }
    }

    #[test]
    fn after_a_crash_at_any_write_the_end_is_the_same(
        spec in any_spec(), nodes in 1..5_usize, ended in proptest::collection::vec((0..5_usize, any::<bool>()), 0..4),
    ) {
        let go = |world: &mut World, crash: usize| -> Result<(), TestCaseError> {
            for (node, well) in &ended {
                round_within_limits(world, crash)?;
                world.last = Outcome::default();
                world.run();
                if is_there(world) {
                    make(world, &Change::End(*node, *well));
                }
                round_within_limits(world, crash)?;
            }
            world.run();
            if is_there(world) {
                world.remove_terminating();
                world.run();
            }
            Ok(())
        };
        let mut straight = World::new(nodes, &spec);
        go(&mut straight, usize::MAX)?;
        for crash in 0..6 {
            let mut world = World::new(nodes, &spec);
            go(&mut world, crash)?;
            prop_assert_eq!(is_there(&world), is_there(&straight));
            if is_there(&world) {
                prop_assert_eq!(world.brief(), straight.brief(), "crash after {} writes", crash);
                prop_assert_eq!(living(&world), living(&straight));
            }
        }
    }

    #[test]
    fn a_plan_from_an_old_picture_makes_no_second_pod(spec in any_spec(), nodes in 1..5_usize, rounds in 0..3_usize) {
        let mut world = World::new(nodes, &spec);
        let stale = plan(&world.observe(), &Env::at(world.cluster.now));
        for _ in 0..rounds {
            world.run();
        }
        world.cluster.apply(&stale, usize::MAX);
        let nodes = living(&world);
        let distinct: BTreeSet<&String> = nodes.iter().collect();
        prop_assert_eq!(distinct.len(), nodes.len());
    }
}
