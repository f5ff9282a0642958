//! Whatever happens: never in more Pods than allowed, never twice in one, an end, and nothing written after it.

use proptest::prelude::*;

use super::*;

/// What kubelets and users do.
#[derive(Clone, Debug)]
enum Change {
    Set(usize, u8),
    Join,
    Leave(usize),
    Take(usize),
    Pause(bool),
    Parallelism(i32),
    Replicas(Option<i32>),
    Pass(i64),
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (0..6_usize, 0..6_u8).prop_map(|(pod, state)| Change::Set(pod, state)),
        1 => Just(Change::Join),
        1 => (0..6_usize).prop_map(Change::Leave),
        1 => (0..6_usize).prop_map(Change::Take),
        1 => any::<bool>().prop_map(Change::Pause),
        1 => (-1..4_i32).prop_map(Change::Parallelism),
        1 => proptest::option::of(-1..5_i32).prop_map(Change::Replicas),
        1 => (0..20_i64).prop_map(Change::Pass),
    ]
}

fn any_spec() -> impl Strategy<Value = Value> {
    let both = json!([container("debug"), container("more")]);
    let containers = prop_oneof![
        4 => Just(json!([container("debug")])),
        2 => Just(both),
        1 => Just(json!([])),
        1 => Just(json!({"odd": 1})),
    ];
    (
        proptest::option::of(-1..4_i32),
        proptest::option::of(-1..5_i32),
        proptest::option::of(Just(15)),
        containers,
    )
        .prop_map(|(parallelism, replicas, deadline, containers)| {
            json!({
                "parallelism": parallelism, "replicas": replicas, "activeDeadlineSeconds": deadline,
                "ttlSecondsAfterFinished": 5, "template": {"ephemeralContainers": containers},
            })
        })
}

fn make(world: &mut World, change: &Change) {
    let pods: Vec<String> = world.cluster.all(Pod::RESOURCE).map(name_of).collect();
    let nth = |number: &usize| pods.get(*number).cloned();
    match change {
        Change::Set(number, state) => {
            let state = match state {
                0 => waiting("ContainerCreating"),
                1 => waiting("ErrImagePull"),
                2 => waiting("RunContainerError"),
                3 => running(),
                4 => ended(0),
                _ => ended(7),
            };
            if let Some(pod) = nth(number) {
                for container in containers_of(world, &pod) {
                    // What has ended does not begin again.
                    let known =
                        &world.cluster.get(Pod::RESOURCE, &pod).unwrap()["status"]["ephemeralContainerStatuses"];
                    let has_ended = known
                        .as_array()
                        .into_iter()
                        .flatten()
                        .any(|status| status["name"] == *container && status["state"]["terminated"].is_object());
                    if !has_ended {
                        world.set_one(&pod, &container, &state);
                    }
                }
            }
        }
        Change::Join => world.join(&format!("q{}", pods.len())),
        Change::Leave(number) => {
            if let Some(pod) = nth(number) {
                world.cluster.objects.remove(&(Pod::RESOURCE, pod));
            }
        }
        Change::Take(number) => {
            if let Some(pod) = nth(number).filter(|pod| containers_of(world, pod).is_empty()) {
                world.edit_pod(&pod, |pod| {
                    pod["spec"]["ephemeralContainers"] = json!([container("debug")]);
                });
            }
        }
        Change::Pause(on) => world.edit(&json!({"paused": on})),
        Change::Parallelism(count) => world.edit(&json!({"parallelism": count})),
        Change::Replicas(count) => world.edit(&json!({"replicas": count})),
        Change::Pass(seconds) => world.cluster.pass(*seconds),
    }
}

/// The names of the containers that the job put into a Pod.
fn containers_of(world: &World, pod: &str) -> Vec<String> {
    let list = world.cluster.get(Pod::RESOURCE, pod).unwrap()["spec"]["ephemeralContainers"].clone();
    let list = list.as_array().cloned().unwrap_or_default();
    let own = list.iter().filter(|container| container["env"][0]["value"] == "u-job");
    own.map(|container| container["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Pods in which containers of the job run, or are about to: what users see, counted without the planner.
fn busy(world: &World) -> usize {
    let pods = world.cluster.all(Pod::RESOURCE).map(name_of);
    pods.filter(|name| {
        let own = containers_of(world, name);
        let pod = world.cluster.get(Pod::RESOURCE, name).unwrap();
        let statuses = pod["status"]["ephemeralContainerStatuses"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let is_busy = |container: &String| {
            let known = statuses.iter().find(|status| status["name"] == **container);
            known.is_none_or(|status| {
                status["state"]["running"].is_object() || status["state"]["waiting"]["reason"] == "ContainerCreating"
            })
        };
        own.iter().any(is_busy)
    })
    .count()
}

fn round_within_limits(world: &mut World, writes: usize) -> Result<(), TestCaseError> {
    if !world.is_there() {
        return Ok(());
    }
    let job = world.observe().job;
    let limit = usize::try_from(job.spec.parallelism.unwrap_or(1)).unwrap_or(0);
    let (before, pods) = (
        busy(world),
        world.cluster.all(Pod::RESOURCE).cloned().collect::<Vec<_>>(),
    );
    let plan = world.round_of(writes);
    prop_assert!(busy(world) <= limit.max(before), "{} busy, {limit} may be", busy(world));
    if is_finished(&job) || job.spec.paused {
        let after: Vec<Value> = world.cluster.all(Pod::RESOURCE).cloned().collect();
        prop_assert_eq!(pods, after, "a job that has ended or is paused touches no Pod");
    }
    if is_finished(&job) {
        prop_assert!(plan.status.is_none());
    }
    prop_assert!(world.last.failures.is_empty(), "{:?}", world.last.failures);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_happens_limits_hold_and_an_end_is_an_end(
        spec in any_spec(), pods in 0..5_usize, changes in proptest::collection::vec(any_change(), 0..14),
    ) {
        let mut world = World::fresh(pods, &spec);
        for change in &changes {
            round_within_limits(&mut world, usize::MAX)?;
            make(&mut world, change);
        }
        world.run();
        if world.is_there() {
            let observed = world.observe();
            let env = Env::at(world.cluster.now);
            let one = plan(&observed, &env);
            prop_assert!(one.is_idle(), "{one:#?}");
            prop_assert_eq!(&one, &plan(&observed, &env));
        }
    }

    #[test]
    fn after_a_crash_at_any_write_the_end_is_the_same(
        spec in any_spec(), pods in 1..5_usize, states in proptest::collection::vec((0..5_usize, 3..6_u8), 0..5),
    ) {
        let go = |world: &mut World, crash: usize| -> Result<(), TestCaseError> {
            for (pod, state) in &states {
                round_within_limits(world, crash)?;
                world.last = Outcome::default();
                world.run();
                make(world, &Change::Set(*pod, *state));
                round_within_limits(world, crash)?;
            }
            world.run();
            Ok(())
        };
        let mut straight = World::fresh(pods, &spec);
        go(&mut straight, usize::MAX)?;
        for crash in 0..5 {
            let mut world = World::fresh(pods, &spec);
            go(&mut world, crash)?;
            prop_assert_eq!(world.is_there(), straight.is_there());
            prop_assert_eq!(world.injected(), straight.injected());
            if world.is_there() {
                prop_assert_eq!(world.brief(), straight.brief(), "crash after {} writes", crash);
                prop_assert_eq!(world.conditions(), straight.conditions());
            }
        }
    }

    #[test]
    fn a_plan_from_an_old_picture_puts_nothing_there_twice(spec in any_spec(), pods in 1..5_usize, rounds in 0..3_usize) {
        let mut world = World::new(pods, &spec);
        let stale = plan(&world.observe(), &Env::at(world.cluster.now));
        for _ in 0..rounds {
            world.run();
        }
        let before = world.injected();
        let outcome = world.cluster.apply(&stale, usize::MAX);
        if rounds > 0 {
            prop_assert_eq!(before, world.injected());
            prop_assert!(outcome.failures.iter().all(|failure| failure.class.is_passing()), "{:?}", outcome.failures);
        }
        for name in world.injected() {
            let names = containers_of(&world, &name);
            let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
            prop_assert_eq!(distinct.len(), names.len());
        }
    }
}
