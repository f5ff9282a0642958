//! What holds whatever happens: never more than allowed, in order, always an end, the same end after a crash anywhere.

use std::collections::BTreeMap;

use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use kruise_api::statefulset::v1beta1::StatefulSet;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::fixtures::{claim_template, read, template};
use super::super::ordinals::{Ordinals, of_pod_name};
use super::super::plan;
use super::super::snapshot::{Snapshot, owner_of};
use super::super::world::World;
use super::{created, deleted};
use crate::plan::harness::name_of;
use crate::plan::{Action, Outcome, Plan};

/// Whoever merges wants to be sure, whoever writes wants to know soon. What failed once is kept beside the sources and tried first.
fn thorough() -> ProptestConfig {
    let cases = if std::env::var_os("CI").is_some() { 256 } else { 32 };
    ProptestConfig {
        cases,
        ..ProptestConfig::default()
    }
}

/// A spec as admission lets it through.
fn any_spec() -> impl Strategy<Value = Value> {
    let amount = || {
        prop_oneof![
            (1..4_i32).prop_map(|count| json!(count)),
            Just(json!("30%")),
            Just(json!("50%"))
        ]
    };
    let policy = prop_oneof![Just("ReCreate"), Just("InPlaceIfPossible"), Just("InPlaceOnly")];
    let reserved = prop_oneof![Just(json!([])), Just(json!([0])), Just(json!([1, "3-4"]))];
    let retention = prop_oneof![Just("Retain"), Just("Delete")];
    (0..6_i32, any::<bool>(), 0..4_i32, amount(), proptest::option::of(amount()), policy, any::<bool>(), any::<bool>(), reserved, (retention, any::<bool>(), any::<bool>())).prop_map(
        |(replicas, ordered, partition, unavailable, limit, policy, paused, unordered, reserved, (retention, claims, hooked))| {
            let hook = json!({ "labelsHandler": { "block": "yes" } });
            let mut rules = json!({ "podUpdatePolicy": policy, "partition": partition, "maxUnavailable": 1, "paused": paused, "unorderedUpdate": null });
            let mut scale = json!({ "maxUnavailable": null });
            if !ordered {
                rules["maxUnavailable"] = unavailable;
                scale["maxUnavailable"] = json!(limit);
                rules["unorderedUpdate"] = if unordered { json!({}) } else { json!(null) };
            }
            json!({
                "replicas": replicas, "reserveOrdinals": reserved, "scaleStrategy": scale,
                "lifecycle": if hooked { json!({ "inPlaceUpdate": hook, "preDelete": hook }) } else { json!(null) },
                "template": { "metadata": { "labels": { "block": "yes" } } },
                "podManagementPolicy": if ordered { "OrderedReady" } else { "Parallel" },
                "persistentVolumeClaimRetentionPolicy": { "whenScaled": retention, "whenDeleted": "Retain" },
                "volumeClaimTemplates": if claims { json!([claim_template("1Gi")]) } else { json!([]) },
                "updateStrategy": { "rollingUpdate": rules },
            })
        },
    )
}

/// What users change in the course of a test.
#[derive(Clone, Debug)]
enum Change {
    Spec(Value),
    Image(&'static str),
    DeletePod(usize),
    NamePod(usize),
    FailPod(usize),
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => any_spec().prop_map(Change::Spec),
        3 => prop_oneof![Just("nginx:1"), Just("nginx:2"), Just("nginx:3"), Just("bad:1")].prop_map(Change::Image),
        1 => (0..6_usize).prop_map(Change::DeletePod),
        1 => (0..6_usize).prop_map(Change::NamePod),
        1 => (0..6_usize).prop_map(Change::FailPod),
    ]
}

/// What cannot be changed stays.
fn edit(world: &mut World, mut spec: Value) {
    let is_ordered = world.set()["spec"]["podManagementPolicy"] == "OrderedReady";
    spec["podManagementPolicy"] = world.set()["spec"]["podManagementPolicy"].clone();
    spec["volumeClaimTemplates"] = world.set()["spec"]["volumeClaimTemplates"].clone();
    if is_ordered {
        spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!(1);
        spec["updateStrategy"]["rollingUpdate"]["unorderedUpdate"] = json!(null);
        spec["scaleStrategy"] = json!({ "maxUnavailable": null });
    }
    world.edit_spec(&spec);
}

fn make(world: &mut World, change: &Change) {
    let nth = |world: &World, number: &usize| world.pod_names().get(*number).cloned();
    match change {
        Change::Spec(spec) => edit(world, spec.clone()),
        Change::Image(image) => world.image(image),
        Change::DeletePod(number) => {
            if let Some(name) = nth(world, number) {
                world.cluster.delete(Pod::RESOURCE, &name);
            }
        }
        Change::NamePod(number) => {
            if let Some(name) = nth(world, number) {
                world.edit_pod(&name, |pod| {
                    pod["metadata"]["labels"]["apps.kruise.io/specified-delete"] = json!("true");
                });
            }
        }
        Change::FailPod(number) => {
            if let Some(name) = nth(world, number) {
                world.edit_pod(&name, |pod| pod["status"]["phase"] = json!("Failed"));
            }
        }
    }
}

/// Pods by ordinal, and whether they are available.
fn pods(world: &World) -> BTreeMap<i32, bool> {
    let observed = world.observe();
    let env = world.env_now();
    let owner = owner_of(&observed);
    let snapshot = Snapshot::of(&observed, &owner, &env).unwrap();
    snapshot
        .all_pods()
        .map(|pod| (pod.ordinal, pod.is_healthy() && pod.member.is_available()))
        .collect()
}

/// Pods that wait for their hook before something: `Update`, `Delete`.
fn held_before(world: &World, what: &str) -> Vec<i32> {
    let pods = world.cluster.all(Pod::RESOURCE);
    let state = format!("Preparing{what}");
    let held = pods.filter(|pod| pod["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] == *state);
    ordinals(&held.map(name_of).collect::<Vec<_>>())
}

fn ordinals(names: &[String]) -> Vec<i32> {
    names.iter().map(|name| of_pod_name(name).unwrap().1).collect()
}

/// Pods that a plan takes out of service: it deletes them or begins to update them.
fn taken(plan: &Plan) -> Vec<i32> {
    let mut names = deleted(plan);
    for action in plan.writes() {
        if let Action::Patch { object, patch, .. } = action
            && object.resource == Pod::RESOURCE
        {
            let document = patch.document();
            let state = document["metadata"]["labels"]["lifecycle.apps.kruise.io/state"].as_str();
            let conditions = document["status"]["conditions"].as_array();
            let unready = conditions.is_some_and(|list| list.iter().any(|one| one["status"] == "False"));
            if unready || state.is_some_and(|state| matches!(state, "PreparingDelete" | "PreparingUpdate" | "Updating"))
            {
                names.push(object.name.clone());
            }
        }
    }
    let mut found = ordinals(&names);
    found.sort_unstable();
    found.dedup();
    found
}

/// One round; whatever it does is allowed.
fn checked_round(world: &mut World) -> Result<Plan, TestCaseError> {
    let before = pods(world);
    let held = held_before(world, "Delete");
    let set = read::<StatefulSet>(world.set());
    let wanted = Ordinals::of(&set, world.env.gates);
    let observed = world.observe();
    let env = world.env_now();
    prop_assert_eq!(
        plan(&observed, &env),
        plan(&observed, &env),
        "the same picture gives the same plan"
    );
    let owner = owner_of(&observed);
    let desired = Snapshot::of(&observed, &owner, &env).unwrap().desired;
    let plan = world.round();
    for action in plan.writes() {
        if let Action::Patch { preconditions, .. } | Action::Delete { preconditions, .. } = action {
            prop_assert!(preconditions.uid.is_some(), "{:?}", action);
        }
    }
    let is_available = |ordinal: &i32| before.get(ordinal) == Some(&true);
    let new = ordinals(&created(&plan));
    prop_assert!(new.iter().all(|ordinal| wanted.contains(*ordinal)), "{:?}", new);
    let (gone, condemned): (Vec<i32>, Vec<i32>) =
        taken(&plan).into_iter().partition(|ordinal| wanted.contains(*ordinal));
    // Of wanted Pods, so many are taken out of service that no more than allowed are.
    let unavailable = wanted.iter().filter(|ordinal| !is_available(ordinal)).count() as i64;
    let more = gone.iter().filter(|ordinal| is_available(ordinal)).count() as i64;
    prop_assert!(
        more == 0 || unavailable + more <= desired.unavailable,
        "{} of {} unavailable, {:?} taken",
        unavailable,
        wanted.count(),
        gone
    );
    if desired.is_ordered {
        prop_assert!(
            new.len() <= 1 && new.len() + gone.len() + condemned.len() <= 1,
            "{:#?}",
            plan
        );
        for made in &new {
            prop_assert!(
                wanted
                    .iter()
                    .filter(|below| below < made)
                    .all(|below| is_available(&below)),
                "{} is made before those below",
                made
            );
        }
        for ordinal in &condemned {
            prop_assert!(
                wanted.iter().all(|wanted| is_available(&wanted)),
                "{} goes while others are not available",
                ordinal
            );
            // What its hook holds does not hold up others.
            let above = before
                .keys()
                .filter(|above| !wanted.contains(**above) && *above > ordinal && !held.contains(above))
                .count();
            prop_assert_eq!(above, 0, "{} goes before those above", ordinal);
        }
    } else if let Some(limit) = desired.scale_limit {
        let lowest = wanted
            .iter()
            .filter(|ordinal| !is_available(ordinal))
            .take(usize::try_from(limit).unwrap());
        let lowest: Vec<i32> = lowest.collect();
        prop_assert!(
            new.iter().all(|ordinal| lowest.contains(ordinal)),
            "{:?} made, {:?} allowed",
            new,
            lowest
        );
    }
    Ok(plan)
}

/// Rounds until nothing changes, each of them checked.
fn checked_run(world: &mut World) -> Result<(), TestCaseError> {
    for _ in 0..60 {
        let plan = checked_round(world)?;
        world.cluster.pass(1);
        world.settle();
        if plan.is_idle() {
            break;
        }
    }
    Ok(())
}

/// What the end is like, without what depends on the way there: times, versions.
fn end(world: &World) -> (Vec<(i32, String)>, Value) {
    let fields = [
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "updateRevision",
        "volumeClaims",
    ];
    let status = fields.iter().map(|field| ((*field).to_owned(), world.status(field)));
    (world.images(), Value::Object(status.collect()))
}

proptest! {
    #![proptest_config(thorough())]

    #[test]
    fn whatever_users_do_budgets_and_order_hold_and_there_is_an_end(
        spec in any_spec(), changes in proptest::collection::vec(any_change(), 0..4),
    ) {
        let mut world = World::new(&spec);
        checked_run(&mut world)?;
        for change in &changes {
            make(&mut world, change);
            checked_round(&mut world)?;
        }
        checked_run(&mut world)?;
        world.run();
        prop_assert_eq!(world.run(), 0);
        // Whoever pauses has those wait that are held.
        if ["Update", "Delete"].into_iter().any(|what| !held_before(&world, what).is_empty()) {
            world.edit_spec(&json!({ "updateStrategy": { "rollingUpdate": { "paused": false } } }));
            world.run();
        }
        if !world.images().iter().any(|(_, image)| image.contains("bad")) && world.set()["spec"]["template"]["spec"]["containers"][0]["image"] != "bad:1" {
            let set = read::<StatefulSet>(world.set());
            let wanted: Vec<i32> = Ordinals::of(&set, world.env.gates).iter().collect();
            let there: Vec<i32> = pods(&world).into_iter().filter(|(_, available)| *available).map(|(ordinal, _)| ordinal).collect();
            prop_assert_eq!(there, wanted, "{:#?}", world.round().why);
        }
    }

    #[test]
    fn after_a_crash_at_any_write_the_end_is_the_same(
        spec in any_spec(), image in prop_oneof![Just("nginx:1"), Just("nginx:2")], grown in 0..6_i32,
    ) {
        let mut start = World::new(&spec);
        start.run();
        start.edit_spec(&json!({ "replicas": grown, "template": template(image) }));
        let mut straight = start.clone();
        straight.run();
        for crash in 0..8 {
            let mut world = start.clone();
            // The process dies after so many writes, again and again; each time it knows nothing of what it did.
            for _ in 0..3 {
                world.round_of(crash);
                world.last = Outcome::default();
                world.settle();
            }
            checked_run(&mut world)?;
            world.run();
            // An unordered update may take others first, depending on the way there; how many is the same.
            let count = |world: &World| {
                let (images, status) = end(world);
                let mut images: Vec<_> = images.into_iter().map(|(_, image)| image).collect();
                images.sort();
                (images, world.pod_names(), status)
            };
            prop_assert_eq!(count(&world), count(&straight), "crash after {} writes", crash);
        }
    }

    #[test]
    fn a_plan_from_an_old_picture_does_no_harm(
        spec in any_spec(), image in prop_oneof![Just("nginx:1"), Just("nginx:2")], added in 0..4_i64, rounds in 0..4_usize,
    ) {
        let mut world = World::new(&spec);
        world.run();
        let replicas = spec["replicas"].as_i64().unwrap() + added;
        world.edit_spec(&json!({ "replicas": replicas, "template": template(image) }));
        let stale = plan(&world.observe(), &world.env_now());
        let mut straight = world.clone();
        straight.run();
        for _ in 0..rounds {
            world.round();
            world.settle();
        }
        world.cluster.apply(&stale, usize::MAX);
        checked_run(&mut world)?;
        world.run();
        prop_assert_eq!(world.pod_names(), straight.pod_names());
        prop_assert_eq!(end(&world).1, end(&straight).1);

        // The same when it comes last of all: every name is taken, and every version is another.
        let before = end(&straight);
        straight.cluster.apply(&stale, usize::MAX);
        straight.run();
        prop_assert_eq!(end(&straight), before);
    }
}
