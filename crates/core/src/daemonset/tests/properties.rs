//! What has to hold whatever happens: nodes come and go, are cordoned and tainted between any two writes, and the process dies after any of them.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;
use crate::daemonset::plan;
use crate::plan::harness::Counts;

fn thorough() -> ProptestConfig {
    ProptestConfig {
        cases: 48,
        ..ProptestConfig::default()
    }
}

fn any_spec() -> impl Strategy<Value = Value> {
    let amount = || {
        prop_oneof![
            (1..4_i32).prop_map(|count| json!(count)),
            Just(json!("30%")),
            Just(json!("100%"))
        ]
    };
    let partition =
        prop_oneof![3 => Just(Value::Null), 1 => (0..4_i32).prop_map(|count| json!(count)), 1 => Just(json!("50%"))];
    (
        0..3_u8,
        amount(),
        partition,
        any::<bool>(),
        prop_oneof![Just(json!(2)), Just(json!("40%")), Just(Value::Null)],
    )
        .prop_map(|(way, amount, partition, in_steps, burst)| {
            let mut spec = match way {
                0 => rolling(&json!({ "rollingUpdateType": "Standard", "maxUnavailable": amount })),
                1 => rolling(&json!({ "rollingUpdateType": "Standard", "maxSurge": amount })),
                _ => in_place(&json!({ "maxUnavailable": amount })),
            };
            spec["updateStrategy"]["rollingUpdate"]["partition"] = partition;
            spec["scaleStrategy"] = json!({ "partitionedScaling": in_steps });
            spec["burstReplicas"] = burst;
            spec
        })
}

/// What happens to nodes and sets in the course of a test.
#[derive(Clone, Debug)]
enum Change {
    Add(usize),
    Remove(usize),
    Taint(usize, &'static str),
    Untaint(usize),
    Image(&'static str),
    Spec(Value),
    DeletePod(usize),
}

const POOL: [&str; 5] = ["a", "b", "c", "d", "e"];

fn any_change() -> impl Strategy<Value = Change> {
    let node = 0..POOL.len();
    let effect = prop_oneof![Just("NoSchedule"), Just("NoExecute"), Just("PreferNoSchedule")];
    prop_oneof![
        2 => node.clone().prop_map(Change::Add),
        1 => node.clone().prop_map(Change::Remove),
        2 => (node.clone(), effect).prop_map(|(node, effect)| Change::Taint(node, effect)),
        1 => node.clone().prop_map(Change::Untaint),
        3 => prop_oneof![Just("agent:1"), Just("agent:2"), Just("bad:1")].prop_map(Change::Image),
        2 => any_spec().prop_map(Change::Spec),
        1 => node.prop_map(Change::DeletePod),
    ]
}

fn make(world: &mut World, change: &Change) {
    match change {
        Change::Add(at) if world.cluster.get(Node::RESOURCE, POOL[*at]).is_none() => {
            world.cluster.put(Node::RESOURCE, node(POOL[*at]));
        }
        Change::Add(_) => {}
        Change::Remove(at) => world.remove_node(POOL[*at]),
        Change::Taint(at, effect) => world.edit_node(POOL[*at], &json!({ "spec": { "taints": taint("t", effect) } })),
        Change::Untaint(at) => world.edit_node(POOL[*at], &json!({ "spec": { "taints": null } })),
        Change::Image(image) => world.image(image),
        Change::Spec(spec) => world.edit_spec(spec),
        Change::DeletePod(at) => {
            let name = world
                .pods()
                .get(*at)
                .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
            if let Some(name) = name {
                world.cluster.delete(Pod::RESOURCE, &name);
            }
        }
    }
}

/// No node has more Pods than it may.
fn none_piles_up(world: &World) -> Result<(), TestCaseError> {
    for (node, images) in world.images() {
        prop_assert!(images.len() <= 2, "{node}: {images:?}");
    }
    Ok(())
}

/// Every node that should have exactly one Pod has it, at the newest revision where nothing holds it back.
fn is_as_it_should_be(world: &World) -> Result<(), TestCaseError> {
    let spec = &world.set()["spec"];
    let rules = &spec["updateStrategy"]["rollingUpdate"];
    let is_held = !rules["partition"].is_null() && rules["partition"] != 0;
    let newest = spec["template"]["spec"]["containers"][0]["image"].as_str().unwrap();
    let images = world.images();
    let has_bad = newest.contains("bad") || images.values().flatten().any(|image| image.contains("bad"));
    for node in world.cluster.all(Node::RESOURCE) {
        let name = node["metadata"]["name"].as_str().unwrap();
        let effect = node["spec"]["taints"][0]["effect"].as_str().unwrap_or_default();
        let found = images.get(name).map(Vec::as_slice).unwrap_or_default();
        match effect {
            "NoExecute" => prop_assert!(found.is_empty(), "{}", world.shown()),
            "NoSchedule" => prop_assert!(found.len() <= 1 || has_bad, "{}", world.shown()),
            _ if has_bad => prop_assert!(!found.is_empty() || is_held, "{}", world.shown()),
            _ if is_held => prop_assert!(found.len() <= 1, "{}", world.shown()),
            _ => prop_assert_eq!(found, [newest], "{}", world.shown()),
        }
    }
    Ok(())
}

/// Nobody changes anything from now on but the planner, and the nodes that do what they are told.
struct Undisturbed {
    start: Counts,
}

impl Undisturbed {
    fn from_now(world: &mut World) -> Self {
        world.cluster.film.clear();
        Self {
            start: world.cluster.counts(),
        }
    }

    /// At every moment enough Pods were available, unless it was so before, and then it did not get worse; and there were never more than with all surge.
    /// `begun` Pods may have been taken out of service by an update in place that was cut off: they are old and not available, and need no budget.
    fn held(self, world: &World, begun: usize) -> Result<(), TestCaseError> {
        let observed = world.observe();
        let env = world.env.clone();
        let desired = crate::daemonset::snapshot::Snapshot::of(&observed, &env)
            .unwrap()
            .desired;
        let count = |number: i32| usize::try_from(number).unwrap_or(0);
        let most = self.start.pods.max(count(desired.nodes)) + count(desired.surge);
        let least = count(desired.nodes - desired.unavailable).min(self.start.available);
        for counts in &world.cluster.film {
            prop_assert!(counts.pods <= most, "{counts:?}, and {most} allowed");
            prop_assert!(counts.available + begun >= least, "{counts:?}, and {least} needed");
        }
        Ok(())
    }
}

fn end(world: &World) -> (String, Value) {
    let fields = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberAvailable",
        "updatedNumberScheduled",
        "updateRevision",
    ];
    let status = fields.iter().map(|field| ((*field).to_owned(), world.status(field)));
    (world.shown(), Value::Object(status.collect()))
}

proptest! {
    #![proptest_config(thorough())]

    #[test]
    fn whatever_happens_there_is_an_end_and_after_it_nothing_is_written(
        spec in any_spec(), changes in proptest::collection::vec((any_change(), 0..6_usize), 0..6),
    ) {
        let mut world = World::new(&spec, &NODES);
        for (change, writes) in &changes {
            // It happens between any two writes.
            world.round_of(*writes);
            make(&mut world, change);
            world.cluster.settle();
            none_piles_up(&world)?;
        }
        world.run();
        prop_assert_eq!(world.run(), 0);
        none_piles_up(&world)?;
        is_as_it_should_be(&world)?;
    }

    #[test]
    fn a_plan_is_the_same_each_time_and_touches_only_what_is_the_sets(
        spec in any_spec(), changes in proptest::collection::vec(any_change(), 0..5),
    ) {
        let mut world = World::new(&spec, &NODES);
        world.step();
        for change in &changes {
            make(&mut world, change);
            world.step();
        }
        let (observed, env) = (world.observe(), world.next_env());
        let first = plan(&observed, &env);
        prop_assert_eq!(&first, &plan(&observed, &env));
        for action in first.writes() {
            let guarded = match action {
                Action::Create { .. } => true,
                Action::CopySecret { .. } | Action::Replace { .. } => false,
                Action::Patch { preconditions, .. } | Action::Delete { preconditions, .. } | Action::Evict { preconditions, .. } => preconditions.uid.is_some(),
            };
            prop_assert!(guarded, "{action:?}");
        }
        prop_assert!(created(&first) <= 250 && deleted(&first) <= 250);
    }

    #[test]
    fn an_update_stays_within_its_budget_at_every_moment(
        spec in any_spec(), image in prop_oneof![Just("agent:2"), Just("bad:1")],
    ) {
        let mut world = World::settled(&spec, &POOL);
        world.image(image);
        let undisturbed = Undisturbed::from_now(&mut world);
        world.run();
        undisturbed.held(&world, 0)?;
    }

    #[test]
    fn after_a_crash_at_any_write_the_end_is_the_same(spec in any_spec(), image in prop_oneof![Just("agent:1"), Just("agent:2")]) {
        let mut start = World::settled(&spec, &NODES);
        start.image(image);
        start.cluster.put(Node::RESOURCE, node("d"));
        let is_in_place = spec["updateStrategy"]["rollingUpdate"]["rollingUpdateType"] == "InPlaceIfPossible";
        let mut straight = start.clone();
        straight.run();
        for crash in 0..8 {
            let mut world = start.clone();
            let undisturbed = Undisturbed::from_now(&mut world);
            for _ in 0..3 {
                world.round_of(crash);
                world.last = crate::plan::Outcome::default();
                world.failed_pods = super::super::failed_pods::FailedPods::default();
                world.cluster.settle();
            }
            world.run();
            prop_assert_eq!(end(&world), end(&straight), "crash after {} writes", crash);
            undisturbed.held(&world, if is_in_place { 3 } else { 0 })?;
        }
    }

    #[test]
    fn a_plan_from_an_old_picture_does_no_harm(spec in any_spec(), rounds in 0..4_usize) {
        let mut world = World::settled(&spec, &NODES);
        world.image("agent:2");
        let stale = plan(&world.observe(), &world.next_env());
        let mut straight = world.clone();
        straight.run();
        for _ in 0..rounds {
            world.step();
        }
        world.cluster.apply(&stale, usize::MAX);
        world.run();
        prop_assert_eq!(end(&world), end(&straight));
    }
}
