use super::world::{World, container};
use crate::plan::{Action, Env, Plan, Progress, Why, why};
use kruise_api::gates::{Gate, Gates};
use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use serde_json::{Value, json};

mod hot_upgrade;
mod missing;
mod properties;
mod rehearsal;
mod takeover;

fn world(pods: usize, strategy: &Value) -> World {
    let mut world = World::new(&[container("log", "log:1")], strategy);
    for number in 0..pods {
        world.pod(&format!("p{number}"));
    }
    world.settle();
    world
}

fn updated(world: &World) -> usize {
    world.images("log").iter().filter(|image| *image == "log:2").count()
}

#[test]
fn given_a_new_image_then_pods_get_it_within_the_budget_and_the_partition() {
    let mut world = world(10, &json!({"partition": 3, "maxUnavailable": 2}));
    assert_eq!(world.status("matchedPods"), 10);
    world.image("log:2");
    let mut rounds = 0;
    loop {
        let before = updated(&world);
        let plan = world.round();
        assert!(updated(&world) - before <= 2, "{plan:#?}");
        if plan.is_idle() {
            break;
        }
        world.cluster.settle();
        rounds += 1;
    }
    assert!(rounds >= 4);
    assert_eq!(updated(&world), 7);
    assert_eq!(
        (world.status("updatedPods"), world.status("updatedReadyPods")),
        (json!(7), json!(7))
    );
}

#[test]
fn given_a_partition_then_so_many_pods_are_kept() {
    for (pods, partition, expected) in [
        (1, json!("50%"), 0),
        (2, json!("99%"), 1),
        (2, json!("100%"), 0),
        (4, json!("50%"), 2),
        (3, json!(7), 0),
        (3, json!(0), 3),
    ] {
        let mut world = world(pods, &json!({"partition": partition, "maxUnavailable": "100%"}));
        world.image("log:2");
        world.settle();
        assert_eq!(updated(&world), expected, "{partition} of {pods}");
    }
}

#[test]
fn given_a_selector_then_only_its_pods_are_updated_and_a_new_label_makes_another() {
    let mut world = world(2, &json!({"selector": {"matchLabels": {"canary": "true"}}}));
    let label = |world: &mut World, pod: &str| {
        world.cluster.edit(Pod::RESOURCE, pod, |pod| {
            pod["metadata"]["labels"]["canary"] = json!("true");
        });
    };
    label(&mut world, "p1");
    world.image("log:2");
    world.settle();
    assert_eq!(world.images("log"), ["log:1", "log:2"]);
    label(&mut world, "p0");
    world.settle();
    assert_eq!(updated(&world), 2);
}

#[test]
fn given_pods_that_are_not_ready_then_they_cost_nothing_of_the_budget() {
    let mut world = world(3, &json!({"maxUnavailable": 0}));
    world.image("log:2");
    world.settle();
    assert_eq!(updated(&world), 0, "all are ready");
    world.edit_spec(&json!({"updateStrategy": {"maxUnavailable": 3}}));
    world.image("log:bad");
    world.settle();
    world.edit_spec(&json!({"updateStrategy": {"maxUnavailable": 0}}));
    world.image("log:2");
    world.settle();
    assert_eq!(updated(&world), 3, "a broken image is replaced");
}

#[test]
fn given_an_update_then_only_the_image_and_the_records_change() {
    let mut world = world(1, &json!({}));
    let before = world.cluster.get(Pod::RESOURCE, "p0").unwrap().clone();
    world.image("log:2");
    let plan = world.round();
    let patches: Vec<&Value> = plan
        .writes()
        .filter_map(|action| match action {
            Action::Patch { object, patch, .. } if object.resource == Pod::RESOURCE => Some(patch.document()),
            _ => None,
        })
        .collect();
    assert_eq!(patches.len(), 1);
    assert_eq!(
        patches[0]["spec"],
        json!({"containers": [{"name": "log", "image": "log:2"}]})
    );
    let after = world.cluster.get(Pod::RESOURCE, "p0").unwrap();
    assert_eq!(after["spec"]["containers"][0], before["spec"]["containers"][0]);
    let key = "kruise.io/sidecarset-hash-without-image";
    assert_eq!(
        after["metadata"]["annotations"][key],
        before["metadata"]["annotations"][key]
    );
    let state: Value =
        serde_json::from_str(&world.annotation("p0", "kruise.io/sidecarset-inplace-update-state")).unwrap();
    assert_eq!(
        state["log"]["lastContainerStatuses"],
        json!({"log": {"imageID": "id-of-log:1"}})
    );
    let hash = &world.set()["metadata"]["annotations"]["kruise.io/sidecarset-hash"];
    let record: Value = serde_json::from_str(&world.annotation("p0", "kruise.io/sidecarset-hash")).unwrap();
    assert_eq!(&record["log"]["hash"], hash);
    assert_eq!(record["log"]["controllerRevision"], world.status("latestRevision"));
    assert_eq!(world.condition("p0"), None, "it comes with the next round");
    world.settle();
    assert_eq!(
        world.condition("p0"),
        Some(("True".to_owned(), r#"{"log":true}"#.to_owned()))
    );
}

#[test]
fn given_more_than_images_then_no_pod_is_updated_and_each_says_so() {
    let mut world = world(2, &json!({}));
    let mut changed = container("log", "log:2");
    changed["command"] = json!(["run"]);
    world.edit_spec(&json!({"containers": [changed]}));
    let plan = world.round();
    assert_eq!(plan.events[0].reason, "NotUpgradablePods");
    assert!(plan.events[0].message.contains("detected 2 not upgradable"));
    world.settle();
    assert_eq!(updated(&world), 0);
    for pod in ["p0", "p1"] {
        let expected = ("False".to_owned(), r#"{"log":false}"#.to_owned());
        assert_eq!(world.condition(pod), Some(expected));
    }
    assert_eq!(world.round().events, [], "it is told once");
    world.edit_spec(&json!({"containers": [container("log", "log:1")]}));
    world.settle();
    assert_eq!(world.condition("p0").unwrap().0, "True", "back at its own hash");
    assert_eq!(world.status("updatedPods"), 2);
}

#[test]
fn given_a_change_of_volumes_then_there_is_a_revision_and_no_update() {
    let mut world = world(2, &json!({}));
    let first = world.status("latestRevision");
    world.edit_spec(&json!({"volumes": [{"name": "buf", "emptyDir": {}}]}));
    world.settle();
    assert_ne!(world.status("latestRevision"), first);
    assert_eq!(world.cluster.all(ControllerRevision::RESOURCE).count(), 2);
    assert_eq!(
        (world.status("updatedPods"), world.status("matchedPods")),
        (json!(2), json!(2))
    );
}

#[test]
fn given_a_rollback_then_the_old_revision_has_the_highest_number() {
    let mut world = world(1, &json!({}));
    let first = world.status("latestRevision");
    world.image("log:2");
    world.settle();
    world.image("log:1");
    world.settle();
    assert_eq!(world.status("latestRevision"), first);
    let numbers: Vec<_> = world
        .cluster
        .all(ControllerRevision::RESOURCE)
        .map(|revision| (revision["metadata"]["name"] == first, revision["revision"].clone()))
        .collect();
    assert!(
        numbers.contains(&(true, json!(3))) && numbers.contains(&(false, json!(2))),
        "{numbers:?}"
    );
    assert_eq!(world.images("log"), ["log:1"]);
}

#[test]
fn given_a_history_limit_then_the_oldest_go_but_none_that_is_used_or_named() {
    let mut world = world(1, &json!({"paused": true}));
    let first = world.status("latestRevision");
    world.cluster.edit(Pod::RESOURCE, "p0", |pod| {
        let key = "kruise.io/sidecarset-hash";
        let text = pod["metadata"]["annotations"][key].as_str().unwrap();
        let mut record: Value = serde_json::from_str(text).unwrap();
        record["log"]["controllerRevision"] = first.clone();
        pod["metadata"]["annotations"][key] = json!(record.to_string());
    });
    world.edit_spec(&json!({"revisionHistoryLimit": 2, "customVersion": "v1"}));
    world.settle();
    for number in 2..7 {
        world.image(&format!("log:{number}"));
        world.settle();
        if number == 3 {
            world.edit_spec(
                &json!({"injectionStrategy": {"revision": {"revisionName": world.status("latestRevision")}}}),
            );
        }
    }
    let names: Vec<&Value> = world
        .cluster
        .all(ControllerRevision::RESOURCE)
        .map(|revision| &revision["metadata"]["name"])
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    let named = &world.set()["spec"]["injectionStrategy"]["revision"]["revisionName"];
    assert!(names.contains(&named) && names.contains(&&first) && names.contains(&&world.status("latestRevision")));
    let labels = &world
        .cluster
        .get(ControllerRevision::RESOURCE, named.as_str().unwrap())
        .unwrap()["metadata"]["labels"];
    assert_eq!(labels["apps.kruise.io/sidecarset-custom-version"], "v1");
    assert_eq!(labels["kruise.io/sidecarset-name"], "log");
}

#[test]
fn given_a_pause_or_no_update_then_only_the_status_follows() {
    for strategy in [json!({"paused": true}), json!({"type": "NotUpdate"})] {
        let mut world = world(2, &strategy);
        world.image("log:2");
        world.settle();
        assert_eq!(updated(&world), 0);
        assert_eq!(
            (world.status("updatedPods"), world.status("readyPods")),
            (json!(0), json!(2))
        );
    }
}

#[test]
fn given_an_annotation_that_cannot_be_read_then_only_that_pod_stays() {
    for key in [
        "kruise.io/sidecarset-hash",
        "kruise.io/sidecarset-hash-without-image",
        "kruise.io/sidecarset-inplace-update-state",
    ] {
        let mut world = world(3, &json!({"maxUnavailable": 3}));
        world.cluster.edit(Pod::RESOURCE, "p1", |pod| {
            pod["metadata"]["annotations"][key] = json!("{not json");
        });
        world.image("log:2");
        world.settle();
        assert_eq!(world.images("log"), ["log:2", "log:1", "log:2"], "{key}");
        let plan = super::plan(&world.observe(), &world.env());
        assert!(json!(plan).to_string().contains("unreadable"), "{plan:#?}");
    }
}

#[test]
fn given_the_oldest_records_then_they_are_read_and_written_anew() {
    let mut world = world(1, &json!({}));
    let hashes = world.set()["metadata"]["annotations"].clone();
    for key in ["kruise.io/sidecarset-hash", "kruise.io/sidecarset-hash-without-image"] {
        let old = json!({"log": hashes[key]}).to_string();
        world.cluster.edit(Pod::RESOURCE, "p0", |pod| {
            pod["metadata"]["annotations"][key] = json!(old);
        });
    }
    assert!(world.round().is_idle());
    world.image("log:2");
    world.settle();
    assert_eq!(updated(&world), 1);
    let record: Value =
        serde_json::from_str(&world.annotation("p0", "kruise.io/sidecarset-hash-without-image")).unwrap();
    assert_eq!(record["log"]["sidecarSetName"], "log");
}

#[test]
fn given_pods_that_are_not_managed_then_they_do_not_count() {
    let mut world = world(5, &json!({"maxUnavailable": "100%"}));
    let edits: [fn(&mut Value); 4] = [
        |pod| pod["metadata"]["labels"]["app"] = json!("other"),
        |pod| pod["metadata"]["annotations"]["kruise.io/sidecarset-injected-list"] = json!("logs"),
        |pod| pod["metadata"]["deletionTimestamp"] = json!("2024-05-01T10:00:00Z"),
        |pod| pod["spec"]["containers"][1]["name"] = json!("renamed"),
    ];
    for (number, edit) in edits.into_iter().enumerate() {
        world.cluster.edit(Pod::RESOURCE, &format!("p{number}"), edit);
    }
    world.round();
    assert_eq!(world.status("matchedPods"), 1);
}

#[test]
fn given_a_container_of_another_set_in_the_place_of_ours_then_it_is_left_alone_and_people_are_told() {
    let mut world = World::new(&[container("log", "log:1"), container("own", "own:1")], &json!({}));
    world.pod("p0");
    world.cluster.edit(Pod::RESOURCE, "p0", |pod| {
        pod["spec"]["containers"][1]["image"] = json!("another:1");
        for key in ["kruise.io/sidecarset-hash", "kruise.io/sidecarset-hash-without-image"] {
            let text = pod["metadata"]["annotations"][key].as_str().unwrap();
            let mut records: Value = serde_json::from_str(text).unwrap();
            records["log"]["sidecarList"] = json!(["own"]);
            pod["metadata"]["annotations"][key] = json!(records.to_string());
        }
    });
    world.settle();
    world.edit_spec(&json!({"containers": [container("log", "log:2"), container("own", "own:2")]}));
    world.settle();
    assert_eq!(
        (world.images("log"), world.images("own")),
        (vec!["another:1".to_owned()], vec!["own:2".to_owned()])
    );
    assert_eq!(world.status("updatedReadyPods"), 1);
    let records: Value = serde_json::from_str(&world.annotation("p0", "kruise.io/sidecarset-hash")).unwrap();
    assert_eq!(records["log"]["sidecarList"], json!(["own"]));
    let told = json!(super::plan(&world.observe(), &world.env())).to_string();
    assert!(told.contains("sidecarsOfOthers") && told.contains("ns/p0"), "{told}");
}

#[test]
fn given_a_named_revision_that_is_gone_then_people_are_told_until_it_is_there() {
    let mut world = world(1, &json!({}));
    let tells = |world: &World| {
        json!(super::plan(&world.observe(), &world.env()))
            .to_string()
            .contains("revisionGone")
    };
    let latest = world.status("latestRevision");
    for (named, gone) in [
        (json!({"revisionName": latest}), false),
        (json!({"revisionName": "log-none"}), true),
        (json!({"revisionName": null, "customVersion": "v1"}), true),
    ] {
        world.edit_spec(&json!({"injectionStrategy": {"revision": named}}));
        assert_eq!(tells(&world), gone, "{named}");
    }
    world.edit_spec(&json!({"injectionStrategy": {"paused": true}}));
    assert!(!tells(&world), "nobody is refused while injection is paused");
    world.edit_spec(&json!({"injectionStrategy": {"paused": false}, "customVersion": "v1"}));
    world.settle();
    assert!(!tells(&world));
}

#[test]
fn given_a_write_that_is_refused_then_the_pod_is_left_alone_for_a_while() {
    let mut world = world(3, &json!({"maxUnavailable": 1}));
    world.image("log:2");
    world.cluster.refuses = Some(|_, action| {
        let object = action.object();
        object.resource == Pod::RESOURCE && object.name == "p0"
    });
    for _ in 0..20 {
        world.round();
        world.cluster.settle();
    }
    assert_eq!(world.images("log"), ["log:1", "log:2", "log:2"]);
    let plan: Plan = super::plan(&world.observe(), &world.env());
    assert!(plan.wake_after.is_some(), "{plan:#?}");
}

#[test]
fn given_budgets_then_they_are_asked_and_a_pod_that_is_refused_holds_up_no_other() {
    let mut world = world(4, &json!({"maxUnavailable": 1}));
    world.image("log:2");
    let guards = |env: &Env| -> usize {
        let plan = super::plan(&world.observe(), env);
        let chains = plan.actions.iter().flat_map(|step| &step.chains);
        chains.filter(|chain| chain.guard.is_some()).count()
    };
    assert_eq!(guards(&world.env()), 0, "without the gate nobody asks");
    let asking = Env {
        gates: Gates::default().with(Gate::PodUnavailableBudgetUpdateGate, true),
        ..world.env()
    };
    let plan = super::plan(&world.observe(), &asking);
    let mut progress = Progress::of(&plan);
    let mut asked = Vec::new();
    while let Some(turn) = progress.next_turn() {
        let Some(question) = turn.question() else {
            let _ = progress.answered(turn, Ok(()));
            continue;
        };
        asked.push(question.pod.to_owned());
        if asked.len() <= 2 {
            progress.refused(&turn);
        } else {
            let _ = progress.answered(turn, Ok(()));
        }
    }
    assert_eq!(
        asked.len(),
        3,
        "two are refused, one is updated, and no more may be: {asked:?}"
    );
    world.last = progress.finish().outcome;
    let plan = super::plan(&world.observe(), &asking);
    let told = |why: &Why| matches!(why, Why::Rollout(why::Rollout::BudgetRefused { .. }));
    assert!(plan.why.iter().any(told), "{:?}", plan.why);
    assert!(
        serde_json::to_string(&plan.why).unwrap().contains("ns/"),
        "Pods of a cluster-wide set are told with their namespaces"
    );
}

#[test]
fn given_annotations_to_patch_then_they_come_with_the_update() {
    let mut world = world(1, &json!({}));
    world.edit_spec(&json!({"patchPodMetadata": [{"annotations": {"weight": "1"}, "patchPolicy": "Overwrite"}]}));
    world.image("log:2");
    world.settle();
    assert_eq!(world.annotation("p0", "weight"), "1");
    world.edit_spec(
        &json!({"patchPodMetadata": [{"annotations": {"weight": "2", "new": "3"}, "patchPolicy": "Retain"}]}),
    );
    world.image("log:1");
    let mut observed = world.observe();
    let needed = super::annotations_to_read(&observed, &world.env());
    assert_eq!(needed.len(), 1);
    let plan = super::plan(&observed, &world.env());
    assert!(
        plan.writes().all(|action| action.object().resource != Pod::RESOURCE),
        "they are not known yet"
    );
    let known = [("weight".to_owned(), "1".to_owned())].into();
    observed.annotations.insert(needed[0].clone(), known);
    let plan = super::plan(&observed, &world.env());
    world.cluster.apply(&plan, usize::MAX);
    assert_eq!(
        (world.annotation("p0", "weight"), world.annotation("p0", "new")),
        ("1".to_owned(), "3".to_owned())
    );
}

#[test]
fn given_a_set_on_its_way_out_then_nothing_is_done() {
    let mut world = world(1, &json!({}));
    world.image("log:2");
    let mut observed = world.observe();
    let mut set = (*observed.set).clone();
    set.metadata.deletion_timestamp = set.metadata.creation_timestamp.clone();
    observed.set = std::sync::Arc::new(set);
    assert!(super::plan(&observed, &world.env()).is_idle());
}
