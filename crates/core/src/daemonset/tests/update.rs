//! Updates: one at a time or many, in place or not, with a surge, held back by partition, selector, pause and type.

use super::*;

/// The most Pods that were not available, and the most that were there, from now on until all comes to rest.
fn until_rest(world: &mut World) -> (usize, usize) {
    world.cluster.film.clear();
    let nodes = world.cluster.all(Node::RESOURCE).count();
    world.run();
    let film = &world.cluster.film;
    let missing = film.iter().map(|counts| nodes.saturating_sub(counts.available)).max();
    let most = film.iter().map(|counts| counts.pods).max();
    (missing.unwrap_or(0), most.unwrap_or(0))
}

#[test]
fn given_max_unavailable_then_so_many_nodes_are_replaced_at_a_time() {
    for (unavailable, at_a_time) in [(json!(1), 1), (json!("50%"), 2), (json!("100%"), 3)] {
        let mut world = World::settled(&rolling(&json!({ "maxUnavailable": unavailable })), &NODES);
        world.image("agent:2");
        assert_eq!(until_rest(&mut world), (at_a_time, 3), "{unavailable}");
        assert_eq!(world.shown(), "a=2 b=2 c=2");
        assert_eq!(world.status("updatedNumberScheduled"), 3);
    }
}

#[test]
fn given_a_bad_image_then_the_update_stops_and_says_why() {
    let mut world = World::settled(&json!({}), &NODES);
    world.image("bad:1");
    world.run();
    assert_eq!(world.shown(), "a=1 b=1 c=bad:1", "the last node comes first");
    let plan = world.round();
    let budget = why::Rollout::UpdateBudget {
        allowed: 1,
        unavailable: 1,
        waiting: 2,
    };
    assert!(plan.why.contains(&Why::Rollout(budget)), "{:?}", plan.why);
    // What is not available is replaced without a budget.
    world.image("agent:3");
    world.run();
    assert_eq!(world.shown(), "a=3 b=3 c=3");
}

#[test]
fn given_max_surge_then_the_new_pod_is_available_before_the_old_one_goes() {
    let mut world = World::settled(&rolling(&json!({ "maxSurge": 1 })), &NODES);
    world.edit_spec(&json!({ "minReadySeconds": 5 }));
    world.run();
    world.image("agent:2");
    for _ in 0..3 {
        world.step();
    }
    assert_eq!(world.shown(), "a=1 b=1 c=1+2");
    assert_eq!(world.status("updatedNumberScheduled"), 0, "the old one is the first");
    let plan = world.round();
    assert!(plan.wake_after.is_some());
    let waiting = why::Nodes::SurgeBudget {
        allowed: 1,
        surging: 1,
        waiting: 2,
    };
    assert!(nodes_why(&plan).contains(&&waiting), "{:?}", plan.why);
    let (missing, most) = until_rest(&mut world);
    assert_eq!((missing, most), (0, 4));
    assert_eq!(world.shown(), "a=2 b=2 c=2");
}

#[test]
fn given_max_surge_and_old_pods_that_are_not_ready_then_new_ones_need_no_budget() {
    let mut world = World::settled(&rolling(&json!({ "maxSurge": 1 })), &NODES);
    world.image("bad:1");
    for _ in 0..4 {
        world.step();
    }
    assert_eq!(world.shown(), "a=1 b=1 c=1+bad:1");
    world.edit_spec(&rolling(&json!({ "maxUnavailable": "100%" })));
    world.run();
    assert_eq!(world.shown(), "a=bad:1 b=bad:1 c=bad:1");
    world.edit_spec(&rolling(&json!({ "maxSurge": 1 })));
    world.image("agent:3");
    let plan = world.round();
    assert_eq!(created(&plan), 3);
    world.run();
    assert_eq!(world.shown(), "a=3 b=3 c=3");
}

#[test]
fn given_in_place_and_an_image_then_pods_are_kept() {
    let mut world = World::settled(&in_place(&json!({})), &NODES);
    for pod in world.pods() {
        let gates = pod["spec"]["readinessGates"].as_array().unwrap();
        assert_eq!(gates.len(), 2, "{gates:?}");
    }
    let before = world.uids();
    world.image("agent:2");
    assert_eq!(until_rest(&mut world), (1, 3));
    assert_eq!((world.shown().as_str(), world.uids()), ("a=2 b=2 c=2", before));
    let hash = world.status("updateRevision");
    for pod in world.pods() {
        assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], hash);
        let record = pod["metadata"]["annotations"]["apps.kruise.io/inplace-update-state"]
            .as_str()
            .unwrap();
        let record: Value = serde_json::from_str(record).unwrap();
        assert_eq!(record["revision"], hash);
        assert_eq!(pod["metadata"]["labels"].get("lifecycle.apps.kruise.io/state"), None);
    }
    // There and back again: the old revision gets the highest number.
    let numbers = |world: &World| {
        let mut all: Vec<i64> = world
            .cluster
            .all(ControllerRevision::RESOURCE)
            .map(|revision| revision["revision"].as_i64().unwrap())
            .collect();
        all.sort_unstable();
        all
    };
    assert_eq!(numbers(&world), [1, 2]);
    world.image("agent:1");
    world.run();
    assert_eq!((world.shown().as_str(), numbers(&world)), ("a=1 b=1 c=1", vec![2, 3]));
}

#[test]
fn given_in_place_and_another_change_then_pods_are_replaced_and_the_set_says_why() {
    let mut world = World::settled(&in_place(&json!({})), &["a"]);
    let before = world.uids();
    let mut next = template("agent:1");
    next["spec"]["containers"][0]["env"] = json!([{ "name": "A", "value": "1" }]);
    world.edit_spec(&json!({ "template": next }));
    let plan = world.round();
    assert!(
        plan.why.iter().any(
            |why| matches!(why, Why::Rollout(why::Rollout::Recreating { because, .. }) if because.contains("env"))
        ),
        "{:?}",
        plan.why
    );
    world.run();
    assert_ne!(world.uids(), before);
    assert_eq!(world.shown(), "a=1");
}

#[test]
fn given_pods_without_the_readiness_gate_then_the_first_update_replaces_them_and_the_next_does_not() {
    let mut world = World::settled(&json!({}), &["a"]);
    world.edit_spec(&in_place(&json!({})));
    assert_eq!(world.run(), 1, "only the status");
    let before = world.uids();
    world.image("agent:2");
    world.run();
    let replaced = world.uids();
    assert_ne!(replaced, before);
    world.image("agent:3");
    world.run();
    assert_eq!((world.shown().as_str(), world.uids()), ("a=3", replaced));
}

#[test]
fn given_a_partition_then_the_last_nodes_are_updated() {
    for partition in [json!(2), json!("67%")] {
        let mut world = World::settled(&in_place(&json!({ "partition": partition })), &NODES);
        world.image("agent:2");
        world.run();
        assert_eq!(world.shown(), "a=1 b=1 c=2", "{partition}");
        let plan = world.round();
        assert!(
            plan.why.contains(&Why::Rollout(why::Rollout::Partition { keeps: 2 })),
            "{:?}",
            plan.why
        );
        world.edit_spec(&in_place(&json!({ "partition": 0 })));
        world.run();
        assert_eq!(world.shown(), "a=2 b=2 c=2");
    }
}

#[test]
fn given_a_selector_then_only_its_nodes_are_updated_and_labels_count_at_once() {
    let canary = json!({ "matchLabels": { "canary": "true" } });
    let mut world = World::settled(&in_place(&json!({ "selector": canary })), &NODES);
    world.edit_node("b", &json!({ "metadata": { "labels": { "canary": "true" } } }));
    world.image("agent:2");
    world.run();
    assert_eq!(world.shown(), "a=1 b=2 c=1");
    let plan = world.round();
    assert!(
        matches!(nodes_why(&plan)[..], [why::Nodes::NodesNotSelected { .. }]),
        "{:?}",
        plan.why
    );
    world.edit_node("a", &json!({ "metadata": { "labels": { "canary": "true" } } }));
    world.run();
    assert_eq!(world.shown(), "a=2 b=2 c=1");
    world.edit_spec(&json!({ "updateStrategy": { "rollingUpdate": { "selector": {"matchLabels": null} } } }));
    world.run();
    assert_eq!(world.shown(), "a=2 b=2 c=2", "an empty one chooses all");
}

#[test]
fn given_paused_or_on_delete_then_pods_change_only_when_they_are_deleted() {
    let paused = rolling(&json!({ "maxUnavailable": 1, "paused": true }));
    let on_delete = json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } });
    for spec in [paused, on_delete] {
        let mut world = World::settled(&spec, &NODES);
        world.image("agent:2");
        world.run();
        assert_eq!(world.shown(), "a=1 b=1 c=1");
        let plan = world.round();
        let said = |why: &Why| {
            matches!(
                why,
                Why::Rollout(why::Rollout::Paused { outdated: 3 } | why::Rollout::OnDelete { outdated: 3 })
            )
        };
        assert!(plan.why.iter().any(said), "{:?}", plan.why);
        let name = world.pod_on("b");
        world.cluster.delete(Pod::RESOURCE, &name);
        world.run();
        assert_eq!(world.shown(), "a=1 b=2 c=1");
    }
}

#[test]
fn given_a_node_that_only_keeps_its_pod_then_the_gate_decides_whether_an_update_takes_it() {
    for gate in [false, true] {
        let mut world = World::settled(&rolling(&json!({ "maxUnavailable": "100%" })), &NODES);
        world.env.gates = world.env.gates.with(Gate::DaemonSetPruneIneligibleNodes, gate);
        world.edit_node("b", &json!({ "spec": { "taints": taint("full", "NoSchedule") } }));
        world.image("agent:2");
        world.run();
        let expected = if gate { "a=2 b=1 c=2" } else { "a=2 c=2" };
        assert_eq!(world.shown(), expected);
    }
}

#[test]
fn given_the_gate_of_budgets_then_each_update_has_to_be_granted() {
    for spec in [in_place(&json!({})), json!({})] {
        let mut world = World::settled(&spec, &["a"]);
        world.env.gates = world.env.gates.with(Gate::PodUnavailableBudgetUpdateGate, true);
        let name = world.pod_on("a");
        world.image("agent:2");
        let plan = world.round();
        let chains = plan.actions.iter().flat_map(|step| &step.chains);
        let guards: Vec<_> = chains.filter_map(|chain| chain.guard.clone()).collect();
        assert_eq!(guards, [crate::plan::Guard::Budget { pod: name }]);
    }
}

#[test]
fn given_a_history_limit_then_old_revisions_go_that_no_pod_is_at() {
    let mut world = World::settled(&in_place(&json!({})), &["a", "b"]);
    world.edit_spec(&json!({ "revisionHistoryLimit": 1 }));
    for image in ["agent:2", "agent:3", "agent:4"] {
        world.image(image);
        world.run();
    }
    let mut numbers: Vec<i64> = world
        .cluster
        .all(ControllerRevision::RESOURCE)
        .map(|revision| revision["revision"].as_i64().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [3, 4]);
    // One that a Pod is at stays, and counts.
    world.edit_spec(&in_place(&json!({ "partition": 1 })));
    for image in ["agent:5", "agent:6"] {
        world.image(image);
        world.run();
    }
    assert_eq!(world.shown(), "a=4 b=6");
    let mut numbers: Vec<i64> = world
        .cluster
        .all(ControllerRevision::RESOURCE)
        .map(|revision| revision["revision"].as_i64().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [4, 6]);
}

#[test]
fn given_burst_replicas_then_no_more_pods_are_updated_in_place_at_a_time_and_none_is_no_reason_to_spin() {
    for (burst, at_a_time, limited) in [(json!(2), 2, 1), (json!(0), 0, 3), (json!("10%"), 1, 2)] {
        let mut spec = in_place(&json!({ "maxUnavailable": 3 }));
        let mut world = World::settled(&spec, &NODES);
        spec["burstReplicas"] = burst.clone();
        world.edit_spec(&spec);
        world.image("agent:2");
        let plan = world.round();
        let pods: std::collections::BTreeSet<&str> = plan
            .writes()
            .map(Action::object)
            .filter(|object| object.resource == Pod::RESOURCE)
            .map(|object| object.name.as_str())
            .collect();
        assert_eq!(pods.len(), at_a_time, "{burst}");
        assert_eq!(plan.wake_after, None, "{burst}");
        let said = nodes_why(&plan);
        let is_said =
            |why: &&why::Nodes| matches!(why, why::Nodes::BurstLimited { nodes, .. } if nodes.count() == limited);
        assert!(said.iter().any(is_said), "{burst}: {said:?}");
    }
}
