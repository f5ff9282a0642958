//! What holds whatever happens: never more than allowed, always an end, the same end after a crash anywhere.

use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use kruise_api::resource::Subresource;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::fixtures::{Fixture as _, PodBuilder, env, from_parts, pod, revision, set, template};
use super::super::world::World;
use super::super::{Observed, plan};
use crate::plan::harness::Counts;
use crate::plan::{Action, IdSource, Plan};

/// Whoever merges wants to be sure, whoever writes wants to know soon. What failed once is kept beside the sources and tried first.
fn thorough() -> ProptestConfig {
    let cases = if std::env::var_os("CI").is_some() { 256 } else { 32 };
    ProptestConfig {
        cases,
        ..ProptestConfig::default()
    }
}

/// A spec in which something is going on.
fn any_spec() -> impl Strategy<Value = Value> {
    let amount = || {
        prop_oneof![
            (0..4_i32).prop_map(|count| json!(count)),
            Just(json!("30%")),
            Just(json!("50%"))
        ]
    };
    let policy = prop_oneof![Just("ReCreate"), Just("InPlaceIfPossible"), Just("InPlaceOnly")];
    let limit = proptest::option::of(1..4_i32);
    (
        0..7_i32,
        amount(),
        amount(),
        amount(),
        policy,
        any::<bool>(),
        limit,
        any::<bool>(),
    )
        .prop_map(
            |(replicas, partition, unavailable, surge, policy, paused, limit, exclude)| {
                // As validation wants it: one of the two has to be above 0, and in-place updates have no surge.
                let surge = if policy == "InPlaceOnly" { json!(0) } else { surge };
                let unavailable = if surge == json!(0) && unavailable == json!(0) {
                    json!(1)
                } else {
                    unavailable
                };
                json!({
                    "replicas": replicas,
                    "scaleStrategy": { "maxUnavailable": limit, "excludePreparingDelete": exclude },
                    "updateStrategy": { "rollingUpdate": {
                        "podUpdatePolicy": policy, "partition": partition, "maxUnavailable": unavailable,
                        "maxSurge": surge, "paused": paused,
                    } },
                })
            },
        )
}

fn any_pod() -> impl Strategy<Value = PodBuilder> {
    let state = prop_oneof![
        6 => Just("Normal"),
        1 => Just("PreparingNormal"),
        1 => Just("PreparingUpdate"),
        1 => Just("Updating"),
        1 => Just("Updated"),
        1 => Just("PreparingDelete"),
        1 => Just("SomethingElse"),
    ];
    let revision = prop_oneof![
        Just("web-old"),
        Just("web-new"),
        Just("old"),
        Just("web-gone"),
        Just("")
    ];
    (
        0..3_u8,
        state,
        revision,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        0..9_u8,
    )
        .prop_map(|(readiness, state, revision, specified_delete, node, foreign, rare)| {
            let mut built = pod("web-x").at(revision).state(state);
            built = match readiness {
                0 => built.pending(),
                1 => built.unready(),
                _ => built.ready(),
            };
            if specified_delete && rare < 4 {
                built = built.specified_delete();
            }
            if node || readiness == 2 {
                built = built.on_node("n1");
            }
            if rare == 5 {
                built = built.deleting();
            }
            if rare == 6 {
                built = built.annotation("apps.kruise.io/inplace-update-state", "{not json");
            }
            if rare == 7 {
                built = built.label("app", "other");
            }
            if rare == 8 {
                built = built.phase("Failed");
            }
            if foreign && rare == 4 {
                built.object()["metadata"]["ownerReferences"][0]["uid"] = json!("33333333-3333-4333-8333-333333333333");
            }
            built
        })
}

/// A set in the middle of anything.
fn any_observed() -> impl Strategy<Value = Observed> {
    (any_spec(), proptest::collection::vec(any_pod(), 0..12), any::<bool>()).prop_map(|(spec, pods, rolling)| {
        let pods: Vec<PodBuilder> = pods
            .into_iter()
            .enumerate()
            .map(|(number, mut pod)| {
                let name = format!("web-p{number}");
                pod.object()["metadata"]["name"] = json!(name);
                pod.object()["metadata"]["uid"] = json!(format!("uid-{name}"));
                pod.object()["metadata"]["labels"]["apps.kruise.io/cloneset-instance-id"] = json!(format!("p{number}"));
                pod
            })
            .collect();
        let mut document = set(&spec);
        if rolling {
            document["spec"]["template"] = template("nginx:2");
        }
        document["status"] = json!({ "currentRevision": "web-old", "updateRevision": "web-old" });
        let revisions = [
            revision("web-old", 1, &template("nginx:1")),
            revision("web-new", 2, &template("nginx:2")),
        ];
        from_parts(&document, &pods, &[], &revisions)
    })
}

/// Names of Pods that a plan deletes, or takes out of service.
fn harmed(plan: &Plan) -> Vec<String> {
    let is_harm = |action: &&Action| match action {
        Action::Delete { object, .. } => object.resource == Pod::RESOURCE,
        Action::Patch {
            object,
            subresource,
            patch,
            ..
        } => {
            let document = patch.document();
            let leaves = document["metadata"]["labels"]["lifecycle.apps.kruise.io/state"].as_str();
            let conditions = document["status"]["conditions"].as_array();
            let unready = conditions.is_some_and(|list| list.iter().any(|one| one["status"] == "False"));
            object.resource == Pod::RESOURCE
                && (*subresource == Some(Subresource::Status) && unready
                    || leaves.is_some_and(|state| matches!(state, "PreparingDelete" | "PreparingUpdate" | "Updating")))
        }
        _ => false,
    };
    let mut names: Vec<String> = plan
        .writes()
        .filter(is_harm)
        .map(|action| action.object().name.clone())
        .collect();
    names.sort();
    names.dedup();
    names
}

proptest! {
    #[test]
    fn a_plan_never_takes_more_than_allowed_and_never_a_foreign_pod(observed in any_observed(), seed: u64) {
        let env = crate::plan::Env { ids: IdSource::seeded(seed), ..env() };
        let first = plan(&observed, &env);
        prop_assert_eq!(&first, &plan(&observed, &env), "the same picture gives the same plan");

        let snapshot = super::super::snapshot::Snapshot::of(&observed, &env).unwrap();
        let foreign = |name: &str| {
            let pod = observed.pods.iter().find(|pod| &*pod.metadata.name == name);
            pod.is_some_and(|pod| pod.metadata.controller().is_none_or(|owner| owner.uid != snapshot.uid))
        };
        for action in first.writes() {
            prop_assert!(!foreign(&action.object().name), "{action:?}");
            let guarded = match action {
                Action::Create { .. } => true,
                Action::CopySecret { .. } | Action::Replace { .. } => false,
                Action::Patch { preconditions, .. } | Action::Delete { preconditions, .. } | Action::Evict { preconditions, .. } => {
                    preconditions.uid.is_some()
                }
            };
            prop_assert!(guarded, "{action:?}");
        }

        // Enough Pods stay available. Pods that are specified for deletion and not available were not counted, as users
        // know it.
        let available = |name: &str| snapshot.members.iter().any(|member| member.name() == name && member.is_available());
        let before = snapshot.members.iter().filter(|member| member.is_available()).count() as i64;
        let taken = harmed(&first).iter().filter(|name| available(name)).count() as i64;
        let uncounted = snapshot.members.iter().filter(|member| member.is_specified_delete && !member.is_available()).count() as i64;
        let floor = snapshot.desired.replicas - snapshot.desired.unavailable - uncounted;
        prop_assert!(taken == 0 || before - taken >= floor, "{taken} of {before} taken, {floor} needed: {first:#?}");

        // And there are never more than replicas and surge.
        let created = first.writes().filter(|action| {
            matches!(action, Action::Create { object, .. } if object.resource == Pod::RESOURCE)
        }).count() as i64;
        let preparing_delete = snapshot.members.iter().filter(|member| member.is_preparing_delete()).count() as i64;
        let excluded = if snapshot.count_options().exclude_preparing_delete { preparing_delete } else { 0 };
        let counted = snapshot.members.len() as i64 - excluded;
        prop_assert!(created == 0 || counted + created <= snapshot.desired.replicas + snapshot.desired.surge);
    }
}

/// What users change in the course of a test.
#[derive(Clone, Debug)]
enum Change {
    Spec(Value),
    Image(&'static str),
    DeletePod(usize),
    NamePod(usize),
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => any_spec().prop_map(Change::Spec),
        3 => prop_oneof![Just("nginx:1"), Just("nginx:2"), Just("nginx:3"), Just("bad:1")].prop_map(Change::Image),
        1 => (0..6_usize).prop_map(Change::DeletePod),
        1 => (0..6_usize).prop_map(Change::NamePod),
    ]
}

fn make(world: &mut World, change: &Change) {
    let nth = |world: &World, number: usize| world.pod_names().get(number).cloned();
    match change {
        Change::Spec(spec) => world.edit_spec(spec),
        Change::Image(image) => world.image(image),
        Change::DeletePod(number) => {
            if let Some(name) = nth(world, *number) {
                world.cluster.delete(Pod::RESOURCE, &name);
            }
        }
        Change::NamePod(number) => {
            if let Some(name) = nth(world, *number) {
                super::specify_delete(world, &name);
            }
        }
    }
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

    /// At every moment there were not more Pods than wanted, surge included, and enough of them available: unless it was so before, and then it did not
    /// get worse. Pods that are specified for deletion and not available were not counted, as users know it. `doubled` Pods were made by mistake.
    fn held(self, world: &World, doubled: usize) -> Result<(), TestCaseError> {
        let observed = world.observe();
        let desired = super::super::snapshot::Snapshot::of(&observed, &world.env)
            .unwrap()
            .desired;
        let count = |pods: i64| usize::try_from(pods).unwrap_or(0);
        let most = self.start.pods.max(count(desired.replicas + desired.surge)) + doubled;
        let enough = count(desired.replicas - desired.unavailable);
        let mut given_up = self.start.given_up;
        for counts in &world.cluster.film {
            given_up = given_up.max(counts.given_up);
            prop_assert!(counts.pods <= most, "{counts:?}, and {most} allowed");
            let least = enough.min(self.start.available);
            prop_assert!(counts.available + given_up >= least, "{counts:?}, and {least} needed");
        }
        Ok(())
    }
}

/// What the end is like, without what depends on the way there: random names, times, versions.
fn end(world: &World) -> (Vec<String>, Value) {
    let status = [
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "expectedUpdatedReplicas",
        "updateRevision",
    ];
    let status = status
        .iter()
        .map(|field| (*field).to_owned())
        .map(|field| (field.clone(), world.status(&field)));
    (world.images(), Value::Object(status.collect()))
}

proptest! {
    #![proptest_config(thorough())]

    #[test]
    fn whatever_users_do_there_is_an_end_and_after_it_nothing_is_written(
        spec in any_spec(), changes in proptest::collection::vec(any_change(), 0..4),
    ) {
        let mut world = World::new(&spec);
        world.run();
        for change in &changes {
            make(&mut world, change);
            let undisturbed = Undisturbed::from_now(&mut world);
            world.round();
            undisturbed.held(&world, 0)?;
        }
        let undisturbed = Undisturbed::from_now(&mut world);
        world.run();
        prop_assert_eq!(world.run(), 0);
        undisturbed.held(&world, 0)?;
        let replicas = world.set()["spec"]["replicas"].as_u64().unwrap() as usize;
        let all_good = !world.images().iter().any(|image| image.contains("bad"));
        if all_good {
            prop_assert_eq!(world.pods().len(), replicas, "{:#?}", world.round().why);
        }
    }

    #[test]
    fn after_a_crash_at_any_write_the_end_is_the_same(
        spec in any_spec(), image in prop_oneof![Just("nginx:1"), Just("nginx:2")], grown in 0..7_i32,
    ) {
        let mut start = World::new(&spec);
        start.run();
        start.edit_spec(&json!({ "replicas": grown, "template": template(image) }));
        let mut straight = start.clone();
        straight.run();
        for crash in 0..8 {
            let mut world = start.clone();
            let undisturbed = Undisturbed::from_now(&mut world);
            // The process dies after so many writes, again and again; each time it knows nothing of what it did.
            for _ in 0..3 {
                world.round_of(crash);
                world.last = crate::plan::Outcome::default();
                world.cluster.settle();
            }
            world.run();
            prop_assert_eq!(end(&world), end(&straight), "crash after {} writes", crash);
            undisturbed.held(&world, 0)?;
        }
    }

    #[test]
    fn a_plan_from_an_old_picture_does_no_harm(
        spec in any_spec(), image in prop_oneof![Just("nginx:1"), Just("nginx:2")], added in 0..4_i64,
        rounds in 0..4_usize,
    ) {
        let mut world = World::new(&spec);
        world.run();
        let replicas = spec["replicas"].as_i64().unwrap() + added;
        world.edit_spec(&json!({ "replicas": replicas, "template": template(image) }));
        let stale = plan(&world.observe(), &world.next_env());
        let made = stale.writes().filter(|action| matches!(action, Action::Create { object, .. } if object.resource == Pod::RESOURCE));
        let made = made.count();
        prop_assert!(made > 0 || added == 0 || world.set()["spec"]["scaleStrategy"]["maxUnavailable"].is_number());
        let mut straight = world.clone();
        straight.run();

        // Something has changed since, or everything: what the old plan still does must not lead elsewhere. Pods that it makes are too many, as nothing
        // tells the server that they were made before.
        for _ in 0..rounds {
            world.round();
            world.cluster.settle();
        }
        let undisturbed = Undisturbed::from_now(&mut world);
        world.cluster.apply(&stale, usize::MAX);
        world.run();
        prop_assert_eq!(end(&world), end(&straight));
        undisturbed.held(&world, made)?;

        // The same when it comes last of all.
        let undisturbed = Undisturbed::from_now(&mut straight);
        let before = end(&straight);
        straight.cluster.apply(&stale, usize::MAX);
        straight.run();
        prop_assert_eq!(end(&straight), before);
        undisturbed.held(&straight, made)?;
    }
}
