//! Stories of one set in the model cluster, and what single rounds decide.

mod ownership;
mod properties;
mod rehearsal;
mod takeover;
mod update;

use kruise_api::gates::Gate;
use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use kruise_api::storage::PersistentVolumeClaim;
use serde_json::{Value, json};

use super::fixtures::{Fixture as _, claim_template, env, observed, pod};
use super::world::World;
use super::{Observed, plan};
use crate::plan::{Action, Plan, Why, why};

/// Pods that a plan creates.
fn created(plan: &Plan) -> Vec<String> {
    let pods = plan.writes().filter_map(|action| match action {
        Action::Create { object, .. } if object.resource == Pod::RESOURCE => Some(object.name.clone()),
        _ => None,
    });
    pods.collect()
}

/// Pods that a plan deletes.
fn deleted(plan: &Plan) -> Vec<String> {
    let pods = plan.writes().filter_map(|action| match action {
        Action::Delete { object, .. } if object.resource == Pod::RESOURCE => Some(object.name.clone()),
        _ => None,
    });
    pods.collect()
}

/// Pods that a plan changes, and the lifecycle states that it brings them to.
fn states(plan: &Plan) -> Vec<(String, String)> {
    let states = plan.writes().filter_map(|action| match action {
        Action::Patch { object, patch, .. } if object.resource == Pod::RESOURCE => {
            let state = patch.document()["metadata"]["labels"]["lifecycle.apps.kruise.io/state"].as_str()?;
            Some((object.name.clone(), state.to_owned()))
        }
        _ => None,
    });
    states.collect()
}

fn planned(observed: &Observed) -> Plan {
    plan(observed, &env())
}

fn parallel() -> Value {
    json!({ "podManagementPolicy": "Parallel" })
}

#[test]
fn given_ordered_ready_then_pods_come_one_after_another() {
    let mut world = World::new(&json!({}));
    let mut rounds = Vec::new();
    for _ in 0..20 {
        let made = created(&world.round());
        rounds.extend((!made.is_empty()).then_some(made));
        world.settle();
    }
    assert_eq!(rounds, [["web-0"], ["web-1"], ["web-2"]]);
    world.run();
    assert_eq!(world.pod_names(), ["web-0", "web-1", "web-2"]);
    assert_eq!(world.status("availableReplicas"), 3);
    assert_eq!(world.run(), 0);
}

#[test]
fn given_ordered_ready_when_a_pod_is_not_available_then_the_others_say_that_they_wait_for_it() {
    let plan = planned(&observed(&json!({}), &[pod(0).ready(), pod(1)]));
    assert_eq!(created(&plan), [""; 0]);
    let waits = why::Ordinals::InOrder {
        pod: "web-1".to_owned(),
        state: why::OrdinalState::NotAvailable,
        waiting: ["web-2"].into_iter().collect(),
    };
    assert!(plan.why.contains(&Why::Ordinals(waits)), "{:?}", plan.why);
}

#[test]
fn given_parallel_then_pods_come_all_at_once_or_as_the_limit_allows() {
    let mut spec = parallel();
    spec["replicas"] = json!(5);
    assert_eq!(created(&planned(&observed(&spec, &[]))).len(), 5);
    spec["scaleStrategy"] = json!({ "maxUnavailable": 2 });
    assert_eq!(created(&planned(&observed(&spec, &[]))), ["web-0", "web-1"]);
    assert_eq!(
        created(&planned(&observed(&spec, &[pod(0), pod(1).ready()]))),
        ["web-2"]
    );
    let limited = planned(&observed(&spec, &[pod(0), pod(1).deleting()]));
    assert_eq!(created(&limited), [""; 0]);
    assert!(
        limited
            .why
            .iter()
            .any(|why| matches!(why, Why::Rollout(why::Rollout::ScaleUpLimited { missing: 3, .. })))
    );
}

#[test]
fn given_reserved_ordinals_then_their_pods_go_and_others_come_at_the_end() {
    let mut world = World::new(&parallel());
    world.run();
    world.edit_spec(&json!({ "reserveOrdinals": [1] }));
    world.run();
    assert_eq!(world.pod_names(), ["web-0", "web-2", "web-3"]);
    world.edit_spec(&json!({ "replicas": 2 }));
    world.run();
    assert_eq!(world.pod_names(), ["web-0", "web-2"]);
    world.edit_spec(&json!({ "replicas": 4, "reserveOrdinals": [1, "3-5"] }));
    world.run();
    assert_eq!(world.pod_names(), ["web-0", "web-2", "web-6", "web-7"]);
}

#[test]
fn given_the_gate_then_ordinals_begin_at_the_start() {
    let mut world = World::new(&json!({ "replicas": 2, "ordinals": { "start": 5 } }));
    world.run();
    assert_eq!(
        world.pod_names(),
        ["web-0", "web-1"],
        "without the gate it says nothing"
    );
    let mut world = World::new(&json!({ "replicas": 2, "ordinals": { "start": 5 } }));
    world.env.gates = world.env.gates.with(Gate::StatefulSetStartOrdinal, true);
    world.run();
    assert_eq!(world.pod_names(), ["web-5", "web-6"]);
    world.edit_spec(&json!({ "ordinals": { "start": 6 } }));
    world.run();
    assert_eq!(world.pod_names(), ["web-6", "web-7"]);
}

#[test]
fn given_ordered_ready_when_scaled_in_then_pods_go_from_the_highest_down() {
    let spec = json!({ "replicas": 1 });
    let all = [pod(0).ready(), pod(1).ready(), pod(2).ready(), pod(3).ready()];
    assert_eq!(deleted(&planned(&observed(&spec, &all))), ["web-3"]);
    let going = [
        pod(0).ready(),
        pod(1).ready(),
        pod(2).ready(),
        pod(3).ready().deleting(),
    ];
    assert_eq!(deleted(&planned(&observed(&spec, &going))), [""; 0]);
    let unhealthy_below = [pod(0).ready(), pod(1), pod(2).ready()];
    assert_eq!(
        deleted(&planned(&observed(&spec, &unhealthy_below))),
        ["web-2"],
        "it is healthy itself"
    );
    let both = [pod(0).ready(), pod(1), pod(2)];
    assert_eq!(
        deleted(&planned(&observed(&spec, &both))),
        [""; 0],
        "the lower one is the first"
    );
    let first = [pod(0).ready(), pod(1).ready(), pod(2)];
    assert_eq!(
        deleted(&planned(&observed(&spec, &first))),
        ["web-2"],
        "nobody below is unhealthy"
    );
    let replica = [pod(0), pod(1).ready()];
    assert_eq!(
        deleted(&planned(&observed(&spec, &replica))),
        [""; 0],
        "a wanted one is not available"
    );
}

#[test]
fn given_parallel_when_scaled_in_then_all_go_at_once() {
    let mut spec = parallel();
    spec["replicas"] = json!(1);
    let pods = [pod(0), pod(1).ready(), pod(2), pod(3).deleting()];
    assert_eq!(deleted(&planned(&observed(&spec, &pods))), ["web-2", "web-1"]);
}

#[test]
fn given_a_pod_that_has_ended_then_it_is_replaced_under_its_name() {
    for policy in ["OrderedReady", "Parallel"] {
        for limit in [json!(null), json!(1)] {
            let spec = json!({ "podManagementPolicy": policy, "scaleStrategy": { "maxUnavailable": limit } });
            let pods = [pod(0).ready(), pod(1).phase("Failed"), pod(2).ready()];
            let found = planned(&observed(&spec, &pods));
            assert_eq!(deleted(&found), ["web-1"], "{policy} {limit}");
            let mut world = World::new(&spec);
            world.run();
            world.edit_pod("web-1", |pod| pod["status"]["phase"] = json!("Failed"));
            let uid = world.cluster.get(Pod::RESOURCE, "web-1").unwrap()["metadata"]["uid"].clone();
            // The model's kubelet would revive it.
            world.round();
            world.run();
            let new = world.cluster.get(Pod::RESOURCE, "web-1").unwrap();
            assert_ne!(new["metadata"]["uid"], uid, "{policy} {limit}");
        }
    }
}

#[test]
fn given_a_pre_delete_hook_then_a_pod_waits_and_comes_back_when_it_is_wanted_again() {
    let hook = json!({ "preDelete": { "finalizersHandler": ["example.com/unregister"] } });
    let spec = |replicas: i32| json!({ "replicas": replicas, "lifecycle": hook, "podManagementPolicy": "Parallel" });
    let held = |state: &str| {
        [
            pod(0).ready(),
            pod(1).ready().finalizer("example.com/unregister").state(state),
        ]
    };
    let found = planned(&observed(&spec(1), &held("Normal")));
    assert_eq!(
        (deleted(&found), states(&found)),
        (vec![], vec![("web-1".to_owned(), "PreparingDelete".to_owned())])
    );
    let found = planned(&observed(&spec(1), &held("PreparingDelete")));
    assert!(found.writes().next().is_none());
    assert!(
        found
            .why
            .iter()
            .any(|why| matches!(why, Why::Pods(why::Pods::HookWaiting { .. })))
    );
    let free = [pod(0).ready(), pod(1).ready().state("PreparingDelete")];
    assert_eq!(deleted(&planned(&observed(&spec(1), &free))), ["web-1"]);
    for pods in [&held("PreparingDelete"), &free] {
        let found = planned(&observed(&spec(2), pods));
        assert_eq!(states(&found), [("web-1".to_owned(), "PreparingNormal".to_owned())]);
    }
    let specified = [
        pod(0).ready(),
        pod(1).ready().state("PreparingDelete").specified_delete(),
    ];
    let found = planned(&observed(&spec(2), &specified));
    assert_eq!((deleted(&found), states(&found)), (vec!["web-1".to_owned()], vec![]));
}

#[test]
fn given_ordered_ready_and_a_hook_that_holds_then_up_to_two_pods_prepare() {
    let hook = json!({ "preDelete": { "finalizersHandler": ["x"] } });
    let spec = json!({ "replicas": 0, "lifecycle": hook });
    let pods = |top: &str, next: &str| {
        let held = |ordinal| pod(ordinal).ready().finalizer("x");
        [held(0), held(1).state(next), held(2).state(top)]
    };
    let second = ("web-1".to_owned(), "PreparingDelete".to_owned());
    assert_eq!(
        states(&planned(&observed(&spec, &pods("PreparingDelete", "Normal")))),
        [second]
    );
    let both = planned(&observed(&spec, &pods("PreparingDelete", "PreparingDelete")));
    assert!(both.writes().next().is_none());
    let free = |ordinal| pod(ordinal).ready().state("PreparingDelete");
    let let_go = planned(&observed(&spec, &[pod(0).ready().finalizer("x"), free(1), free(2)]));
    assert_eq!(deleted(&let_go), ["web-2"], "their hooks let both go at the same time");
}

#[test]
fn given_a_new_pod_then_it_has_name_host_service_and_claims() {
    let spec = json!({ "volumeClaimTemplates": [claim_template("1Gi")], "replicas": 1 });
    let plan = planned(&observed(&spec, &[]));
    let bodies: Vec<Value> = plan
        .writes()
        .filter_map(|action| match action {
            Action::Create { body, .. } => Some(body.json()),
            _ => None,
        })
        .collect();
    let [claim, pod] = &bodies[..] else {
        panic!("{bodies:?}")
    };
    assert_eq!(claim["metadata"]["name"], "data-web-0");
    assert_eq!(claim["metadata"].get("ownerReferences"), None);
    assert_eq!(pod["metadata"]["name"], "web-0");
    assert_eq!(pod["metadata"]["generateName"], "web-");
    assert_eq!(
        (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
        (&json!("web-0"), &json!("web"))
    );
    assert_eq!(
        pod["metadata"]["labels"],
        json!({
            "app": "web", "apps.kubernetes.io/pod-index": "0", "controller-revision-hash": "web-old",
            "lifecycle.apps.kruise.io/state": "Normal", "statefulset.kubernetes.io/pod-name": "web-0",
        })
    );
    assert_eq!(
        pod["spec"]["volumes"],
        json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data-web-0" } }])
    );
    let hook = json!({ "lifecycle": { "preNormal": { "labelsHandler": { "app": "web" } } } });
    let first = |spec: &Value| {
        let plan = planned(&observed(spec, &[]));
        let create = plan
            .writes()
            .find(|action| action.object().resource == Pod::RESOURCE)
            .cloned();
        let Some(Action::Create { body, .. }) = create else {
            panic!()
        };
        body.json()["metadata"]["labels"]["lifecycle.apps.kruise.io/state"].clone()
    };
    assert_eq!(first(&hook), "Normal", "all of the hook is on the template");
    let hook = json!({ "lifecycle": { "preNormal": { "labelsHandler": { "registered": "yes" } } } });
    assert_eq!(first(&hook), "PreparingNormal");
}

#[test]
fn given_when_scaled_delete_then_claims_go_with_their_pods_and_new_pods_wait_for_that() {
    let policy = json!({ "whenScaled": "Delete", "whenDeleted": "Retain" });
    let mut world = World::new(&json!({
        "podManagementPolicy": "Parallel", "volumeClaimTemplates": [claim_template("1Gi")],
        "persistentVolumeClaimRetentionPolicy": policy,
    }));
    world.run();
    let claims = |world: &World| world.cluster.all(PersistentVolumeClaim::RESOURCE).count();
    assert_eq!(claims(&world), 3);
    world.edit_spec(&json!({ "replicas": 1 }));
    world.round();
    world.edit_spec(&json!({ "replicas": 3 }));
    let before = world
        .cluster
        .get(PersistentVolumeClaim::RESOURCE, "data-web-2")
        .unwrap()["metadata"]["uid"]
        .clone();
    world.run();
    assert_eq!(world.pod_names(), ["web-0", "web-1", "web-2"]);
    let after = world
        .cluster
        .get(PersistentVolumeClaim::RESOURCE, "data-web-2")
        .unwrap()["metadata"]["uid"]
        .clone();
    assert_ne!(before, after, "the old claim went with its Pod");
    world.edit_spec(&json!({ "replicas": 1, "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Retain" } }));
    world.run();
    assert_eq!((world.pod_names().len(), claims(&world)), (1, 3));
}

#[test]
fn given_the_gate_then_claims_grow_in_order_and_within_the_limit() {
    let mut world = World::new(&json!({
        "podManagementPolicy": "Parallel", "replicas": 4, "volumeClaimTemplates": [claim_template("1Gi")],
        "volumeClaimUpdateStrategy": { "type": "OnPodRollingUpdate" },
        "updateStrategy": { "rollingUpdate": { "maxUnavailable": 2 } },
    }));
    world.env.gates = world.env.gates.with(Gate::StatefulSetAutoResizePVCGate, true);
    world.run();
    let uids = |world: &World| -> Vec<Value> {
        world
            .cluster
            .all(Pod::RESOURCE)
            .map(|pod| pod["metadata"]["uid"].clone())
            .collect()
    };
    let before = uids(&world);
    world.edit_spec(&json!({ "volumeClaimTemplates": [claim_template("2Gi")] }));
    let plan = world.round();
    let grown: Vec<&str> = plan.writes().map(|action| action.object().name.as_str()).collect();
    assert_eq!(grown, ["data-web-3", "data-web-2"]);
    let counters = world.status("volumeClaims");
    assert_eq!(counters[0]["compatibleReplicas"], 0);
    world.run();
    assert_eq!(world.status("volumeClaims")[0]["compatibleReadyReplicas"], 4);
    assert_eq!(uids(&world), before, "nothing but the size has changed");
}

#[test]
fn given_a_name_of_somebody_elses_pod_then_others_go_on_as_the_policy_allows() {
    for (policy, expected) in [("Parallel", vec!["web-1", "web-2"]), ("OrderedReady", vec![])] {
        let mut seen = observed(&json!({ "podManagementPolicy": policy }), &[]);
        seen.names_taken.insert("web-0".to_owned());
        let plan = planned(&seen);
        assert_eq!(created(&plan), expected, "{policy}");
        assert!(
            plan.why
                .iter()
                .any(|why| matches!(why, Why::Ordinals(why::Ordinals::NamesOfOthers { .. })))
        );
        assert!(plan.events.iter().any(|event| event.reason == "FailedCreate"));
        let status = plan.status.as_ref().map(|status| format!("{status:?}")).unwrap();
        assert!(status.contains("FailedCreatePod"), "{status}");
    }
}

#[test]
fn given_a_node_that_is_gone_then_its_pods_are_named_and_never_forced() {
    let mut seen = observed(
        &parallel(),
        &[pod(0).ready(), pod(1).ready().deleting(), pod(2).ready()],
    );
    seen.lost_nodes.insert("n1".to_owned());
    let plan = planned(&seen);
    assert!(plan.writes().next().is_none(), "{plan:#?}");
    assert!(
        plan.why
            .iter()
            .any(|why| why.to_string().contains("Terminating on node n1")),
        "{:?}",
        plan.why
    );
    assert!(plan.events.iter().any(|event| event.message.contains("web-1")));
}

#[test]
fn given_12_templates_then_no_more_than_the_limit_of_old_revisions_stays() {
    let mut world = World::new(&json!({ "revisionHistoryLimit": 3 }));
    for number in 0..8 {
        world.image(&format!("nginx:{number}"));
        world.run();
    }
    let revisions = |world: &World| {
        world
            .cluster
            .all(kruise_api::revision::ControllerRevision::RESOURCE)
            .count()
    };
    assert_eq!(revisions(&world), 4);
    world.image("nginx:5");
    world.run();
    assert_eq!(revisions(&world), 4, "an older one is used again");
    assert_eq!(world.images()[0].1, "nginx:5");
}

#[test]
fn given_a_set_on_its_way_out_then_only_its_status_is_written() {
    let mut seen = observed(&json!({ "replicas": 5 }), &[pod(0).ready()]);
    std::sync::Arc::make_mut(&mut seen.set).metadata.deletion_timestamp =
        Some(crate::shared::conditions::to_second(super::fixtures::start()));
    let plan = planned(&seen);
    assert!(plan.writes().next().is_none() && plan.status.is_some());
}

#[test]
fn given_min_ready_seconds_then_availability_lags_and_the_set_looks_again() {
    let spec = json!({ "replicas": 2, "updateStrategy": { "rollingUpdate": { "minReadySeconds": 30 } } });
    let plan = planned(&observed(&spec, &[pod(0).ready_since("2024-05-01T09:59:50Z")]));
    assert_eq!(created(&plan), [""; 0]);
    assert_eq!(plan.wake_after, Some(std::time::Duration::from_secs(20)));
    let plan = planned(&observed(&spec, &[pod(0).ready_since("2024-05-01T09:59:30Z")]));
    assert_eq!(created(&plan), ["web-1"]);
}

#[test]
fn given_absurd_replicas_then_a_round_stays_small() {
    let mut spec = parallel();
    spec["replicas"] = json!(i32::MAX);
    let plan = planned(&observed(&spec, &[]));
    assert_eq!(created(&plan).len(), 2000);
}
