//! Rolling updates.

use kruise_api::gates::Gate;
use kruise_api::imagepulljob::v1beta1::ImagePullJob;
use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use kruise_api::statefulset::v1beta1::StatefulSet;
use serde_json::{Value, json};

use super::super::fixtures::{Fixture as _, PodBuilder, env, observed, pod, revision, rolling, template};
use super::super::plan;
use super::super::world::World;
use super::{created, deleted, planned, states};
use crate::plan::{Guard, Why, why};

fn ready(count: i32) -> Vec<PodBuilder> {
    (0..count).map(|ordinal| pod(ordinal).ready()).collect()
}

fn rules(policy: &str, rules: &Value) -> Value {
    json!({ "podManagementPolicy": policy, "updateStrategy": { "rollingUpdate": rules } })
}

fn with_replicas(mut spec: Value, replicas: i32) -> Value {
    spec["replicas"] = json!(replicas);
    spec
}

#[test]
fn given_a_partition_then_it_counts_pods_and_not_ordinals() {
    let all = |partition: i32| {
        with_replicas(
            rules("Parallel", &json!({ "partition": partition, "maxUnavailable": 9 })),
            5,
        )
    };
    assert_eq!(
        deleted(&planned(&rolling(&all(2), &ready(5)))),
        ["web-4", "web-3", "web-2"]
    );
    assert_eq!(deleted(&planned(&rolling(&all(5), &ready(5)))), [""; 0]);
    assert_eq!(deleted(&planned(&rolling(&all(0), &ready(5)))).len(), 5);
    let mut reserved = with_replicas(rules("Parallel", &json!({ "partition": 2, "maxUnavailable": 9 })), 4);
    reserved["reserveOrdinals"] = json!([0]);
    let pods: Vec<_> = (1..5).map(|ordinal| pod(ordinal).ready()).collect();
    assert_eq!(deleted(&planned(&rolling(&reserved, &pods))), ["web-4", "web-3"]);
}

#[test]
fn given_a_partition_then_missing_pods_below_it_begin_at_the_current_revision() {
    let revisions = |spec: &Value| -> Vec<String> {
        let plan = planned(&rolling(spec, &[]));
        let bodies = plan.writes().filter_map(|action| match action {
            crate::plan::Action::Create { body, object } if object.resource == Pod::RESOURCE => Some(body.json()),
            _ => None,
        });
        bodies
            .map(|pod| {
                pod["metadata"]["labels"]["controller-revision-hash"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect()
    };
    assert_eq!(
        revisions(&rules("Parallel", &json!({ "partition": 2 }))),
        ["web-old", "web-old", "web-new"]
    );
    let unordered = rules("Parallel", &json!({ "partition": 1, "unorderedUpdate": {} }));
    assert_eq!(revisions(&unordered), ["web-old", "web-new", "web-new"]);
    let mut on_delete =
        json!({ "podManagementPolicy": "Parallel", "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } });
    assert_eq!(revisions(&on_delete), ["web-new"; 3]);
    on_delete["updateStrategy"]["type"] = json!("RollingUpdate");
    assert_eq!(revisions(&on_delete), ["web-new"; 3], "nothing is at the current one");
}

#[test]
fn given_a_partition_and_a_pod_below_it_that_is_gone_then_the_rollout_is_not_over() {
    let pods = [pod(1), pod(2)].map(|pod| pod.ready().at("web-new"));
    let spec = rules("Parallel", &json!({ "partition": 1 }));
    let current = |pods: &[PodBuilder]| {
        let status = planned(&rolling(&spec, pods))
            .status
            .map(|status| json!(status).to_string());
        status.is_some_and(|status| status.contains(r#""currentRevision":"web-new""#))
    };
    assert!(!current(&pods), "it comes back at the current revision");
    let all = [0, 1, 2].map(|ordinal| pod(ordinal).ready().at("web-new"));
    assert!(current(&all));
}

#[test]
fn given_max_unavailable_then_unavailable_pods_come_first_class_and_others_wait() {
    let spec = with_replicas(rules("Parallel", &json!({ "maxUnavailable": 2 })), 5);
    let mut pods = ready(5);
    pods[0] = pod(0);
    let plan = planned(&rolling(&spec, &pods));
    assert_eq!(deleted(&plan), ["web-4"], "one is unavailable already");
    assert!(
        plan.why
            .iter()
            .any(|why| matches!(why, Why::Rollout(why::Rollout::UpdateBudget { waiting: 4, .. })))
    );
    pods[0] = pod(0).ready();
    pods[4] = pod(4);
    assert_eq!(
        deleted(&planned(&rolling(&spec, &pods))),
        ["web-4", "web-3"],
        "the next one is the unavailable one"
    );
    let missing = &ready(5)[..3];
    assert_eq!(
        deleted(&planned(&rolling(&spec, missing))),
        [""; 0],
        "who is missing is unavailable"
    );
}

#[test]
fn given_ordered_ready_then_updates_wait_for_all_pods() {
    let spec = rules("OrderedReady", &json!({}));
    assert_eq!(deleted(&planned(&rolling(&spec, &ready(3)))), ["web-2"]);
    let mut pods = ready(3);
    pods[2] = pod(2).at("web-new");
    let plan = planned(&rolling(&spec, &pods));
    assert_eq!(deleted(&plan), [""; 0]);
    assert!(
        plan.why
            .iter()
            .any(|why| why.to_string().contains("web-2 is not available, and updates wait"))
    );
}

#[test]
fn given_an_image_only_change_in_place_then_pods_keep_their_uid() {
    for policy in ["OrderedReady", "Parallel"] {
        let mut world = World::new(&rules(policy, &json!({ "podUpdatePolicy": "InPlaceIfPossible" })));
        world.run();
        let uids = |world: &World| -> Vec<Value> {
            world
                .cluster
                .all(Pod::RESOURCE)
                .map(|pod| pod["metadata"]["uid"].clone())
                .collect()
        };
        let before = uids(&world);
        world.image("nginx:2");
        world.run();
        assert_eq!(uids(&world), before, "{policy}");
        assert!(world.images().iter().all(|(_, image)| image == "nginx:2"));
        assert_eq!(world.status("currentRevision"), world.status("updateRevision"));
        world.edit_spec(&json!({ "template": { "spec": { "containers": [{ "name": "main", "image": "nginx:2", "env": [{ "name": "A", "value": "b" }] }] } } }));
        world.run();
        assert!(
            uids(&world).iter().zip(&before).all(|(one, other)| one != other),
            "an environment is not changed in place"
        );
    }
}

#[test]
fn given_in_place_only_and_another_change_then_the_set_says_so() {
    let change = json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "main", "image": "nginx:2" }], "hostNetwork": true } });
    let mut spec = rules("Parallel", &json!({ "podUpdatePolicy": "InPlaceOnly" }));
    spec["template"] = change;
    let mut world = World::new(&rules("Parallel", &json!({ "podUpdatePolicy": "InPlaceOnly" })));
    world.run();
    world.edit_spec(&spec);
    world.run();
    assert!(world.images().iter().all(|(_, image)| image == "nginx:1"));
    assert_eq!(world.status("conditions")[0]["type"], "FailedUpdatePod");
    assert!(
        world
            .round()
            .why
            .iter()
            .any(|why| matches!(why, Why::Rollout(why::Rollout::NotInPlace { .. })))
    );
}

#[test]
fn given_a_paused_rollout_then_pods_finish_and_none_begins() {
    let paused = rules(
        "Parallel",
        &json!({ "podUpdatePolicy": "InPlaceIfPossible", "paused": true }),
    );
    let mut pods = ready(3);
    pods[2] = pod(2).ready().at("web-new").state("Updating");
    pods[1] = pod(1).ready().specified_delete();
    let plan = planned(&rolling(&paused, &pods));
    assert_eq!(states(&plan), [("web-2".to_owned(), "Normal".to_owned())]);
    assert_eq!(deleted(&plan), [""; 0], "not even who is specified");
    assert!(plan.why.contains(&Why::Rollout(why::Rollout::Paused { outdated: 2 })));
}

#[test]
fn given_pods_specified_for_deletion_then_they_go_whatever_the_partition_says() {
    let spec = rules("Parallel", &json!({ "partition": 3 }));
    let pods = [
        pod(0).ready(),
        pod(1).ready().specified_delete(),
        pod(2).ready().specified_delete(),
    ];
    let plan = planned(&observed(&spec, &pods));
    assert_eq!(deleted(&plan), ["web-2"]);
    assert!(
        plan.why
            .iter()
            .any(|why| matches!(why, Why::Rollout(why::Rollout::DeleteBudget { .. })))
    );
    let going = [
        pod(0).ready(),
        pod(1).ready().specified_delete(),
        pod(2).ready().specified_delete().deleting(),
    ];
    assert_eq!(
        deleted(&planned(&observed(&spec, &going))),
        [""; 0],
        "one after the other, and not twice"
    );
    let unavailable = [pod(0).ready(), pod(1).specified_delete(), pod(2).specified_delete()];
    assert_eq!(deleted(&planned(&observed(&spec, &unavailable))), ["web-2", "web-1"]);
}

#[test]
fn given_priorities_then_pods_are_updated_by_them() {
    let weights = json!({ "weightPriority": [{ "weight": 50, "matchSelector": { "matchLabels": { "zone": "a" } } }] });
    let unordered = json!({ "unorderedUpdate": { "priorityStrategy": weights }, "partition": 1, "maxUnavailable": 9 });
    let spec = with_replicas(rules("Parallel", &unordered), 4);
    let mut pods = ready(4);
    pods[0] = pod(0).ready().label("zone", "a");
    pods[3] = pod(3).ready().at("web-new");
    assert_eq!(
        deleted(&planned(&rolling(&spec, &pods))),
        ["web-0", "web-2"],
        "one of the others stays"
    );
}

#[test]
fn given_on_delete_then_pods_are_replaced_when_somebody_deletes_them() {
    let mut world = World::new(&json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } }));
    world.run();
    world.image("nginx:2");
    world.run();
    assert!(world.images().iter().all(|(_, image)| image == "nginx:1"));
    world.cluster.delete(Pod::RESOURCE, "web-1");
    world.run();
    assert_eq!(world.images()[1].1, "nginx:2");
    assert_ne!(world.status("currentRevision"), world.status("updateRevision"));
}

#[test]
fn given_an_update_hook_then_a_pod_waits_and_a_rollback_or_a_partition_lets_it_go() {
    let hook = json!({ "inPlaceUpdate": { "labelsHandler": { "block": "yes" } } });
    let mut spec = rules("Parallel", &json!({ "podUpdatePolicy": "InPlaceIfPossible" }));
    spec["lifecycle"] = hook;
    spec["replicas"] = json!(1);
    let held = |state: &str| pod(0).ready().label("block", "yes").state(state);
    let plan = planned(&rolling(&spec, &[held("Normal")]));
    assert_eq!(states(&plan), [("web-0".to_owned(), "PreparingUpdate".to_owned())]);
    assert!(
        planned(&rolling(&spec, &[held("PreparingUpdate")]))
            .writes()
            .next()
            .is_none()
    );
    let back = [("web-0".to_owned(), "Normal".to_owned())];
    assert_eq!(states(&planned(&observed(&spec, &[held("PreparingUpdate")]))), back);
    spec["updateStrategy"]["rollingUpdate"]["partition"] = json!(1);
    assert_eq!(states(&planned(&rolling(&spec, &[held("PreparingUpdate")]))), back);
}

#[test]
fn given_a_pod_held_before_its_deletion_then_an_update_in_place_brings_it_back_first() {
    let hook = json!({ "preDelete": { "labelsHandler": { "block": "yes" } } });
    for (policy, expected) in [
        (
            "InPlaceIfPossible",
            vec![("web-0".to_owned(), "PreparingNormal".to_owned())],
        ),
        ("ReCreate", vec![]),
    ] {
        let mut spec = rules("Parallel", &json!({ "podUpdatePolicy": policy }));
        spec["lifecycle"] = hook.clone();
        spec["replicas"] = json!(1);
        let held = pod(0).ready().label("block", "yes").state("PreparingDelete");
        let plan = planned(&rolling(&spec, &[held]));
        assert_eq!((states(&plan), deleted(&plan)), (expected, vec![]), "{policy}");
    }
}

#[test]
fn given_the_gate_then_budgets_are_asked_before_each_pod() {
    let mut env = env();
    env.gates = env.gates.with(Gate::PodUnavailableBudgetUpdateGate, true);
    for policy in ["InPlaceIfPossible", "ReCreate"] {
        let spec = rules("Parallel", &json!({ "podUpdatePolicy": policy, "maxUnavailable": 9 }));
        let found = plan(&rolling(&spec, &ready(3)), &env);
        let guards: Vec<_> = found
            .actions
            .iter()
            .flat_map(|step| &step.chains)
            .filter_map(|chain| chain.guard.clone())
            .collect();
        let expected = ["web-2", "web-1", "web-0"].map(|pod| Guard::Budget { pod: pod.to_owned() });
        assert_eq!(guards, expected, "{policy}");
    }
}

#[test]
fn given_a_broken_revision_then_parallel_sets_take_the_fix() {
    let mut world = World::new(&rules("Parallel", &json!({ "maxUnavailable": 1 })));
    world.run();
    world.image("bad:1");
    world.run();
    assert_eq!(world.images().iter().filter(|(_, image)| image == "bad:1").count(), 1);
    world.image("nginx:3");
    world.run();
    assert!(world.images().iter().all(|(_, image)| image == "nginx:3"));
    assert_eq!(created(&world.round()), [""; 0]);
}

/// A Pod that waits for a hook is not available, so the order waits for it; nobody but the update gets it on.
#[test]
fn given_ordered_ready_when_a_hook_has_let_go_then_the_update_of_that_pod_goes_on() {
    let in_place = json!({ "podUpdatePolicy": "InPlaceIfPossible" });
    let recreate = json!({ "podUpdatePolicy": "ReCreate" });
    let hooks = json!({ "inPlaceUpdate": { "labelsHandler": { "block": "yes" } }, "preDelete": { "labelsHandler": { "block": "yes" } } });
    let found = |rolling_rules: &Value, pods: [PodBuilder; 3]| {
        let mut spec = rules("OrderedReady", rolling_rules);
        spec["lifecycle"] = hooks.clone();
        let plan = planned(&rolling(&spec, &pods));
        (states(&plan), deleted(&plan))
    };
    let pods = |top: PodBuilder| [pod(0).ready(), pod(1).ready(), top.ready()];
    let updating = (vec![("web-2".to_owned(), "Updating".to_owned())], vec![]);
    let gone = (vec![], vec!["web-2".to_owned()]);
    let nothing = (vec![], vec![]);
    let preparing = || pod(2).state("PreparingUpdate");
    assert_eq!(found(&in_place, pods(preparing())), updating);
    assert_eq!(found(&in_place, pods(preparing().label("block", "yes"))), nothing);
    let leaving = || pod(2).state("PreparingDelete");
    assert_eq!(found(&recreate, pods(leaving())), gone);
    assert_eq!(found(&recreate, pods(leaving().label("block", "yes"))), nothing);
    // What the order waits for comes first.
    let lower = [pod(0), pod(1).ready(), leaving().ready()];
    assert_eq!(found(&recreate, lower), nothing);
    let mut paused = recreate;
    paused["paused"] = json!(true);
    assert_eq!(found(&paused, pods(leaving())), nothing);
}

#[test]
fn given_ordered_ready_when_the_pod_that_is_waited_for_is_specified_for_deletion_then_it_goes() {
    let spec = rules("OrderedReady", &json!({}));
    let broken = || [pod(0).ready(), pod(1).specified_delete(), pod(2).ready()];
    assert_eq!(deleted(&planned(&observed(&spec, &broken()))), ["web-1"]);
    assert_eq!(deleted(&planned(&rolling(&spec, &broken()))), ["web-1"]);
    let other = [pod(0), pod(1).ready().specified_delete(), pod(2).ready()];
    let plan = planned(&observed(&spec, &other));
    let waits = why::Ordinals::InOrder {
        pod: "web-0".to_owned(),
        state: why::OrdinalState::NotAvailable,
        waiting: ["web-1"].into_iter().collect(),
    };
    assert_eq!(deleted(&plan), [""; 0]);
    assert!(plan.why.contains(&Why::Ordinals(waits)), "{:?}", plan.why);
}

#[test]
fn given_ordered_ready_and_hooks_that_always_let_go_then_every_pod_is_updated_in_place() {
    let mut spec = rules("OrderedReady", &json!({ "podUpdatePolicy": "InPlaceIfPossible" }));
    spec["lifecycle"] = json!({ "inPlaceUpdate": { "labelsHandler": { "block": "yes" } } });
    spec["template"] = template("nginx:1");
    spec["template"]["metadata"]["labels"]["block"] = json!("yes");
    let mut world = World::new(&spec);
    world.run();
    let uids = |world: &World| -> Vec<Value> {
        let pods = world.cluster.all(Pod::RESOURCE);
        pods.map(|pod| pod["metadata"]["uid"].clone()).collect()
    };
    let before = uids(&world);
    world.image("nginx:2");
    world.run();
    assert!(
        world.images().iter().all(|(_, image)| image == "nginx:2"),
        "{:?}",
        world.images()
    );
    assert_eq!(uids(&world), before);
    assert_eq!(world.status("updatedAvailableReplicas"), 3);
}

#[test]
fn given_a_current_revision_that_somebody_replaced_then_its_missing_pods_say_so_and_others_are_made() {
    let spec = with_replicas(rules("Parallel", &json!({ "partition": 1 })), 3);
    let mut seen = rolling(&spec, &[pod(1).ready()]);
    let replaced = |data: &Value| {
        let mut revision = revision("web-old", 1, &template("nginx:1"));
        revision["data"] = data.clone();
        std::sync::Arc::new(serde_json::from_str(&revision.to_string()).unwrap())
    };
    for junk in [json!({ "junk": 1 }), json!({ "spec": { "template": "nginx:1" } })] {
        seen.revisions[0] = replaced(&junk);
        let plan = planned(&seen);
        assert_eq!(created(&plan), ["web-2"], "{junk}");
        let said = why::Ordinals::RevisionUnreadable {
            revision: "web-old".to_owned(),
            pods: ["web-0"].into_iter().collect(),
        };
        assert!(plan.why.contains(&Why::Ordinals(said)), "{:?}", plan.why);
        let told = plan
            .events
            .iter()
            .map(|event| event.message.as_str())
            .collect::<String>();
        assert!(told.contains("revision web-old has no Pod template: web-0"), "{told}");
        let status = plan.status.unwrap();
        assert!(format!("{status:?}").contains("FailedCreatePod"), "{status:?}");
    }
}

#[test]
fn given_images_to_pull_ahead_then_jobs_come_with_a_rollout_that_is_worth_it_and_go_with_its_end() {
    let jobs = |world: &World| {
        world
            .cluster
            .all(ImagePullJob::RESOURCE)
            .cloned()
            .collect::<Vec<Value>>()
    };
    let rolled = |replicas: i32, rolling_rules: Value, annotations: Value| {
        let mut world = World::new(&with_replicas(rules("Parallel", &rolling_rules), replicas));
        world.env.gates = world.env.gates.with(Gate::PreDownloadImageForInPlaceUpdate, true);
        world.env.settings.image_pull_jobs = true;
        world.cluster.edit(StatefulSet::RESOURCE, "web", |set| {
            set["metadata"]["annotations"] = annotations;
        });
        world.run();
        world.image("nginx:2");
        for _ in 0..3 {
            world.round();
        }
        world
    };
    let in_place = json!({ "podUpdatePolicy": "InPlaceIfPossible" });
    let tuned = json!({ "apps.kruise.io/image-predownload-parallelism": "4", "apps.kruise.io/image-predownload-timeout-seconds": "60" });
    let mut world = rolled(4, in_place.clone(), tuned);
    let made = jobs(&world);
    assert_eq!(made.len(), 1, "{made:?}");
    let (revision, spec) = (world.status("updateRevision"), &made[0]["spec"]);
    let revision = revision.as_str().unwrap();
    let short = revision.rsplit_once('-').unwrap().1;
    assert_eq!(made[0]["metadata"]["name"], format!("{revision}-main"));
    assert_eq!((&spec["image"], &spec["parallelism"]), (&json!("nginx:2"), &json!(4)));
    assert_eq!(spec["pullPolicy"], json!({ "backoffLimit": 1, "timeoutSeconds": 60 }));
    let others = json!({ "key": "controller-revision-hash", "operator": "NotIn", "values": [revision, short] });
    assert_eq!(spec["podSelector"]["matchExpressions"], json!([others]));
    world.run();
    assert_eq!(jobs(&world), Vec::<Value>::new());
    assert!(world.images().iter().all(|(_, image)| image == "nginx:2"));
    for (replicas, rolling_rules, annotations, expected) in [
        (3, in_place.clone(), json!({}), 0),
        (4, json!({ "podUpdatePolicy": "ReCreate" }), json!({}), 0),
        (
            4,
            json!({ "podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%" }),
            json!({}),
            0,
        ),
        (
            4,
            json!({ "podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%", "partition": 1 }),
            json!({}),
            1,
        ),
        (
            4,
            in_place,
            json!({ "apps.kruise.io/image-predownload-min-updated-ready-pods": "50%" }),
            0,
        ),
    ] {
        let world = rolled(replicas, rolling_rules.clone(), annotations);
        assert_eq!(jobs(&world).len(), expected, "{replicas} {rolling_rules}");
    }
}
