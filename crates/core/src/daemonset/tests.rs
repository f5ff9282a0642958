//! What users see of a DaemonSet, from the outside: scenarios in the model cluster.

use kruise_api::daemonset::v1beta1::DaemonSet;
use kruise_api::gates::Gate;
use kruise_api::kind::Kind as _;
use kruise_api::node::Node;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use serde_json::{Value, json};

use super::fixtures::{in_place, node, owner, rolling, taint, template};
use super::world::World;
use crate::plan::why;
use crate::plan::{Action, Plan, Why};

mod ownership;
mod properties;
mod rehearsal;
mod takeover;
mod update;

const NODES: [&str; 3] = ["a", "b", "c"];

fn counts(world: &World) -> [i64; 4] {
    let fields = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberMisscheduled",
        "numberAvailable",
    ];
    fields.map(|field| world.status(field).as_i64().unwrap_or(0))
}

fn nodes_why(plan: &Plan) -> Vec<&why::Nodes> {
    let nodes = plan.why.iter().filter_map(|why| match why {
        Why::Nodes(why) => Some(why),
        _ => None,
    });
    nodes.collect()
}

fn created(plan: &Plan) -> usize {
    let creates =
        |action: &&Action| matches!(action, Action::Create { object, .. } if object.resource == Pod::RESOURCE);
    plan.writes().filter(creates).count()
}

fn deleted(plan: &Plan) -> usize {
    let deletes =
        |action: &&Action| matches!(action, Action::Delete { object, .. } if object.resource == Pod::RESOURCE);
    plan.writes().filter(deletes).count()
}

#[test]
fn given_three_nodes_when_created_then_each_has_a_pod_that_names_it() {
    let world = World::settled(&json!({}), &NODES);
    assert_eq!(world.shown(), "a=1 b=1 c=1");
    assert_eq!(counts(&world), [3, 3, 0, 3]);
    assert_eq!(world.status("updatedNumberScheduled"), 3);
    assert_eq!(world.status("observedGeneration"), 1);
    for pod in world.pods() {
        let name = pod["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("agent-") && name.len() == "agent-".len() + 5, "{name}");
        assert_eq!(pod["metadata"]["generateName"], "agent-");
        assert_eq!(
            pod["metadata"]["labels"]["controller-revision-hash"],
            world.status("updateRevision")
        );
        assert_eq!(pod["metadata"]["labels"].get("lifecycle.apps.kruise.io/state"), None);
        let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let field = &terms["nodeSelectorTerms"][0]["matchFields"][0];
        assert_eq!(field["values"][0], pod["spec"]["nodeName"]);
        let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
        assert_eq!(tolerations.len(), 6, "{tolerations:?}");
        let gates = pod["spec"]["readinessGates"].as_array().unwrap();
        assert_eq!(gates.len(), 1, "only the one of the webhook: {gates:?}");
    }
    let revision = world.cluster.all(ControllerRevision::RESOURCE).next().unwrap();
    let labels = revision["metadata"]["labels"].as_object().unwrap();
    assert_eq!(labels["controller-revision-hash"], world.status("updateRevision"));
    assert_eq!(labels.get("controller.kubernetes.io/hash"), None);
}

#[test]
fn given_a_template_with_affinity_then_only_the_required_part_is_replaced_and_tolerations_are_completed() {
    let mut wanted = template("agent:1");
    let seconds = json!({ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5 });
    let preferred =
        json!([{ "weight": 1, "preference": { "matchExpressions": [{ "key": "x", "operator": "Exists" }] } }]);
    wanted["spec"]["tolerations"] = json!([{ "key": "mine", "operator": "Exists" }, seconds]);
    wanted["spec"]["hostNetwork"] = json!(true);
    wanted["spec"]["affinity"] = json!({
        "podAntiAffinity": { "a": 1 },
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                { "matchExpressions": [{ "key": "name", "operator": "In", "values": ["a"] }] },
                { "matchExpressions": [{ "key": "name", "operator": "In", "values": ["c"] }] },
            ] },
        },
    });
    let world = World::settled(&json!({ "template": wanted }), &NODES);
    assert_eq!(world.shown(), "a=1 c=1");
    let spec = &world.pods()[0]["spec"];
    let node = spec["nodeName"].clone();
    assert_eq!(spec["affinity"]["podAntiAffinity"], json!({ "a": 1 }));
    let affinity = &spec["affinity"]["nodeAffinity"];
    assert_eq!(affinity["preferredDuringSchedulingIgnoredDuringExecution"], preferred);
    assert_eq!(
        affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"],
        json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] }])
    );
    let tolerations = spec["tolerations"].as_array().unwrap();
    assert_eq!(
        tolerations.len(),
        8,
        "one is replaced, one is for the network: {tolerations:?}"
    );
    assert!(
        tolerations
            .iter()
            .all(|toleration| toleration.get("tolerationSeconds").is_none())
    );
}

#[test]
fn given_the_scheduler_is_skipped_then_pods_are_bound_to_their_nodes() {
    let mut world = World::new(&json!({}), &["a"]);
    world.env.settings.daemon_pods_skip_scheduler = true;
    world.run();
    let spec = &world.pods()[0]["spec"];
    assert_eq!(spec["schedulerName"], "kubernetes.io/daemonset-controller");
    assert_eq!((&spec["nodeName"], spec.get("affinity")), (&json!("a"), None));
}

#[test]
fn given_taints_that_come_later_then_pods_stay_or_go_by_their_effect() {
    let mut world = World::settled(&json!({}), &NODES);
    world.edit_node("b", &json!({ "spec": { "taints": taint("full", "NoSchedule") } }));
    world.run();
    assert_eq!(world.shown(), "a=1 b=1 c=1");
    assert_eq!(counts(&world), [2, 2, 1, 2]);
    let plan = world.round();
    let keeps = why::Nodes::NodesOnlyKeepPods {
        because: "taint full:NoSchedule is not tolerated".to_owned(),
        nodes: std::iter::once("b").collect(),
    };
    assert_eq!(nodes_why(&plan), [&keeps]);
    world.edit_node("b", &json!({ "spec": { "taints": taint("full", "NoExecute") } }));
    world.run();
    assert_eq!((world.shown().as_str(), counts(&world)), ("a=1 c=1", [2, 2, 0, 2]));
    let plan = world.round();
    assert!(
        matches!(nodes_why(&plan)[..], [why::Nodes::NodesNotEligible { .. }]),
        "{:?}",
        plan.why
    );
    // It is back when the taint is gone.
    world.edit_node("b", &json!({ "spec": { "taints": null } }));
    world.run();
    assert_eq!(world.shown(), "a=1 b=1 c=1");
}

#[test]
fn given_a_cordoned_node_then_it_gets_a_pod() {
    let mut cordoned = node("b");
    cordoned["spec"] =
        json!({ "unschedulable": true, "taints": taint("node.kubernetes.io/unschedulable", "NoSchedule") });
    let mut world = World::new(&json!({}), &["a"]);
    world.cluster.put(Node::RESOURCE, cordoned);
    world.run();
    assert_eq!(world.shown(), "a=1 b=1");
}

#[test]
fn given_a_node_selector_that_excludes_nodes_then_their_pods_go() {
    let mut world = World::settled(&json!({}), &NODES);
    let mut only = template("agent:1");
    only["spec"]["nodeSelector"] = json!({ "name": "b" });
    world.edit_spec(&json!({ "template": only }));
    world.run();
    assert_eq!((world.shown().as_str(), counts(&world)), ("b=1", [1, 1, 0, 1]));
}

#[test]
fn given_nodes_that_come_and_go_then_pods_follow() {
    let mut world = World::settled(&json!({}), &NODES);
    world.cluster.put(Node::RESOURCE, node("d"));
    world.run();
    assert_eq!(world.shown(), "a=1 b=1 c=1 d=1");
    world.remove_node("a");
    world.run();
    assert_eq!((world.shown().as_str(), counts(&world)), ("b=1 c=1 d=1", [3, 3, 0, 3]));
    // Another node under the name of one that is gone.
    world.remove_node("b");
    world.cluster.put(Node::RESOURCE, node("b"));
    world.run();
    assert_eq!(world.shown(), "b=1 c=1 d=1");
}

#[test]
fn given_a_pending_pod_for_a_node_that_is_gone_then_it_is_deleted() {
    let mut world = World::new(&json!({}), &["a", "b"]);
    world.round();
    assert_eq!(world.living().len(), 2);
    world.cluster.delete(Node::RESOURCE, "b");
    world.run();
    assert_eq!((world.shown().as_str(), counts(&world)), ("a=1", [1, 1, 0, 1]));
}

#[test]
fn given_two_pods_on_a_node_then_the_newer_goes() {
    let mut world = World::settled(&json!({}), &["a"]);
    let old = world.pod_on("a");
    let mut second = world.pods()[0].clone();
    second["metadata"]["name"] = json!("agent-zzzzz");
    second["metadata"].as_object_mut().unwrap().remove("uid");
    second["metadata"].as_object_mut().unwrap().remove("creationTimestamp");
    world.cluster.put(Pod::RESOURCE, second);
    world.run();
    assert_eq!((world.living().len(), world.pod_on("a")), (1, old));
}

#[test]
fn given_burst_replicas_then_rounds_make_no_more() {
    let nodes: Vec<String> = (0..10).map(|number| format!("n{number}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    for (burst, most) in [(json!(2), 2), (json!("10%"), 1), (json!("50%"), 5)] {
        let mut world = World::new(&json!({ "burstReplicas": burst }), &nodes);
        let rounds: Vec<usize> = (0..20).map(|_| created(&world.step())).collect();
        assert!(rounds.iter().all(|count| *count <= most), "{rounds:?}");
        assert_eq!(rounds.iter().sum::<usize>(), 10);
    }
    let mut world = World::new(&json!({ "burstReplicas": 2 }), &nodes);
    let plan = world.round();
    assert!(
        nodes_why(&plan)
            .iter()
            .any(|why| matches!(why, why::Nodes::BurstLimited { limit: 2, nodes } if nodes.count() == 8))
    );
    assert_eq!(
        world.status("observedGeneration"),
        Value::Null,
        "the round had something to create"
    );
}

#[test]
fn given_partitioned_scaling_then_as_many_pods_are_made_as_the_partition_lets_through() {
    for partition in [json!(2), json!("67%")] {
        let mut world = World::new(
            &rolling(&json!({ "maxUnavailable": 1, "partition": partition })),
            &NODES,
        );
        world.edit_spec(&json!({ "scaleStrategy": { "partitionedScaling": true } }));
        world.run();
        assert_eq!(world.shown(), "a=1", "{partition}");
        let plan = world.round();
        assert!(
            matches!(nodes_why(&plan)[..], [why::Nodes::CreationPartitioned { .. }]),
            "{:?}",
            plan.why
        );
        world.edit_spec(&rolling(&json!({ "maxUnavailable": 1, "partition": 1 })));
        world.run();
        assert_eq!(world.shown(), "a=1 b=1");
        world.edit_spec(&rolling(&json!({ "maxUnavailable": 1 })));
        world.run();
        assert_eq!(world.shown(), "a=1 b=1 c=1");
    }
    // Without it the partition is about updates only.
    let world = World::settled(&rolling(&json!({ "maxUnavailable": 1, "partition": 2 })), &NODES);
    assert_eq!(world.shown(), "a=1 b=1 c=1");
}

#[test]
fn given_a_pod_that_fails_again_and_again_then_its_node_waits_longer_each_time() {
    let mut world = World::new(&json!({ "template": template("fail:1") }), &["a"]);
    let mut deletions = Vec::new();
    for second in 0..20 {
        let plan = world.step();
        let told = plan
            .actions
            .iter()
            .flat_map(|step| &step.chains)
            .flat_map(|chain| &chain.writes);
        if told
            .flat_map(|write| &write.succeeded)
            .any(|event| event.reason == "FailedDaemonPod")
        {
            deletions.push(second);
        }
        assert!(world.pods().len() <= 1);
    }
    assert_eq!(deletions, [1, 3, 5, 9, 17]);
    let paused = (0..40).map(|_| world.step()).find(|plan| {
        let paused = |why: &&why::Nodes| matches!(why, why::Nodes::FailedPodsBackOff { .. });
        nodes_why(plan).iter().any(paused)
    });
    assert!(paused.expect("it pauses").wake_after.is_some());
    // A change of the spec has it tried at once.
    world.image("agent:2");
    for _ in 0..6 {
        world.step();
    }
    assert_eq!(world.shown(), "a=2");
}

#[test]
fn given_a_surge_and_a_pod_that_fails_then_pods_do_not_pile_up() {
    let mut world = World::new(&rolling(&json!({ "maxSurge": 1 })), &["a"]);
    world.edit_spec(&json!({ "template": template("fail:1") }));
    let made: usize = (0..30).map(|_| created(&world.step())).sum();
    assert!(made <= 8, "{made}");
    assert!(world.pods().len() <= 2);
}

#[test]
fn given_a_pre_delete_hook_then_pods_wait_for_it_and_count_as_unavailable() {
    let mut world = World::new(&json!({}), &["a", "b"]);
    let mut hooked = template("agent:1");
    hooked["metadata"]["labels"]["hook"] = json!("on");
    world.edit_spec(&json!({
        "template": hooked, "lifecycle": { "preDelete": { "labelsHandler": { "hook": "on" } } },
    }));
    world.run();
    hooked["spec"]["containers"][0]["image"] = json!("agent:2");
    world.edit_spec(&json!({ "template": hooked }));
    world.run();
    assert_eq!(world.shown(), "a=1 b=1", "one waits, and the other may not follow");
    let waiting: Vec<&Value> = world.living();
    let state = |pod: &&Value| pod["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] == "PreparingDelete";
    assert_eq!(waiting.iter().filter(|pod| state(pod)).count(), 1);
    let plan = world.round();
    assert!(
        plan.why
            .iter()
            .any(|why| matches!(why, Why::Pods(why::Pods::HookWaiting { .. }))),
        "{:?}",
        plan.why
    );
    for _ in 0..2 {
        let held = world.living().into_iter().find(|pod| state(pod)).unwrap();
        let name = held["metadata"]["name"].as_str().unwrap().to_owned();
        world.edit_pod(&name, |pod| pod["metadata"]["labels"]["hook"] = Value::Null);
        world.run();
    }
    assert_eq!(world.shown(), "a=2 b=2");
}

#[test]
fn given_a_quota_that_keeps_a_node_empty_then_the_others_are_updated_all_the_same() {
    let mut world = World::settled(&rolling(&json!({ "maxUnavailable": 2 })), &["a", "b"]);
    world.cluster.refuses = Some(|cluster, action| {
        let is_full = cluster.all(Pod::RESOURCE).count() >= 2;
        is_full && matches!(action, Action::Create { object, .. } if object.resource == Pod::RESOURCE)
    });
    world.cluster.put(Node::RESOURCE, node("c"));
    world.image("agent:2");
    for _ in 0..20 {
        world.step();
    }
    let images: Vec<String> = world.images().into_values().flatten().collect();
    assert_eq!(images, ["agent:2", "agent:2"], "{}", world.shown());
}

#[test]
fn given_a_set_that_is_being_deleted_or_selects_everything_then_nothing_is_written() {
    let mut world = World::settled(&json!({}), &NODES);
    let alive = world.clone();
    world.cluster.edit(DaemonSet::RESOURCE, "agent", |set| {
        set["metadata"]["deletionTimestamp"] = json!("2024-05-01T10:00:00Z");
    });
    world.image("agent:2");
    let plan = world.round();
    assert!(plan.is_idle() && plan.why.contains(&Why::General(why::General::Deleting)));
    let mut world = alive;
    world.edit_spec(&json!({ "selector": { "matchLabels": null } }));
    let plan = world.round();
    assert!(plan.is_idle());
    assert_eq!(plan.events[0].reason, "SelectingAll");
}

#[test]
fn given_a_label_that_names_a_pod_for_deletion_then_nothing_happens() {
    let mut world = World::settled(&json!({}), &["a"]);
    let name = world.pod_on("a");
    world.edit_pod(&name, |pod| {
        pod["metadata"]["labels"]["apps.kruise.io/specified-delete"] = json!("true");
    });
    assert_eq!((world.run(), world.pod_on("a")), (0, name));
}

#[test]
fn given_the_scheduler_refuses_then_the_set_says_where_and_why() {
    let mut world = World::new(&json!({}), &["a"]);
    world.round();
    let name = world.pod_on("a");
    let message = "0/1 nodes are available: 1 node(s) didn't have free ports";
    world.edit_pod(&name, |pod| {
        pod["status"]["conditions"] = json!([{ "type": "PodScheduled", "status": "False", "message": message }]);
    });
    let plan = world.round();
    let expected = why::Nodes::NotPlaced {
        message: message.to_owned(),
        nodes: std::iter::once("a").collect(),
    };
    assert!(nodes_why(&plan).contains(&&expected), "{:?}", plan.why);
    assert_eq!(
        Why::Nodes(expected).to_string(),
        format!("Nodes where the scheduler places no Pod ({message}): a.")
    );
}

#[test]
fn given_min_ready_seconds_then_pods_are_ready_first_and_available_later() {
    let mut world = World::new(&json!({ "minReadySeconds": 60 }), &["a"]);
    for _ in 0..5 {
        world.step();
    }
    let plan = world.round();
    assert_eq!(
        (world.status("numberReady"), world.status("numberAvailable")),
        (json!(1), Value::Null)
    );
    assert!(plan.wake_after.is_some_and(|after| after.as_secs() <= 60));
    world.cluster.pass(60);
    world.round();
    assert_eq!(world.status("numberAvailable"), 1);
}

#[test]
fn given_images_to_pull_ahead_then_jobs_come_with_the_second_revision_and_go_with_its_end() {
    let mut world = World::new(&in_place(&json!({})), &NODES);
    world.env.gates = world.env.gates.with(Gate::PreDownloadImageForDaemonSetUpdate, true);
    world.run();
    let jobs = |world: &World| {
        world
            .cluster
            .all(kruise_api::imagepulljob::v1beta1::ImagePullJob::RESOURCE)
            .cloned()
            .collect::<Vec<Value>>()
    };
    assert_eq!(jobs(&world), Vec::<Value>::new());
    let revision = world.cluster.all(ControllerRevision::RESOURCE).next().unwrap();
    assert_eq!(
        revision["metadata"]["labels"]["apps.kruise.io/image-predownload-ignored"],
        "true"
    );
    world.image("agent:2");
    world.round();
    world.round();
    let made = jobs(&world);
    assert_eq!(made.len(), 1);
    let hash = world.status("updateRevision");
    assert_eq!(made[0]["spec"]["image"], "agent:2");
    assert_eq!(made[0]["metadata"]["labels"]["controller.kubernetes.io/hash"], hash);
    world.run();
    assert_eq!((world.shown().as_str(), jobs(&world).len()), ("a=2 b=2 c=2", 0));
}
