use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::cloneset::fixtures::{Fixture as _, PodBuilder, pod, read};
use crate::shared::availability::availability;
use crate::shared::lifecycle::state;

/// The order in which the Pods go, by name.
fn order(pods: &[PodBuilder], topology: &Topology<'_>) -> Vec<String> {
    let pods: Vec<Arc<Pod>> = pods.iter().map(|pod| read(pod.as_json())).collect();
    let now = "2024-05-01T10:00:00Z".parse().unwrap();
    let members: Vec<Member<'_>> = pods
        .iter()
        .map(|pod| Member {
            pod,
            is_updated: true,
            state: state(pod),
            is_specified_delete: false,
            is_ready: true,
            availability: availability(pod, 0, now),
        })
        .collect();
    let group: Vec<&Member<'_>> = members.iter().collect();
    ranked(&group, topology)
        .iter()
        .map(|member| member.name().to_owned())
        .collect()
}

fn plain() -> Topology<'static> {
    Topology::default()
}

#[test]
fn each_criterion_wins_over_all_later_ones() {
    // Each row: the Pod that goes first, then the one that stays, equal in everything before the criterion.
    let node = |name: &str| pod(name).ready().on_node(&format!("n-{name}"));
    let table: Vec<(&str, PodBuilder, PodBuilder)> = vec![
        ("node", pod("z").pending(), node("a").pending()),
        ("phase", node("z").pending(), node("a").phase("Unknown")),
        (
            "phase again",
            node("z").phase("Unknown").cost("9"),
            node("a").unready().cost("1"),
        ),
        ("available", node("z").state("Updated").cost("9"), node("a").cost("1")),
        (
            "ready",
            node("z").unready().cost("9"),
            node("a").state("Updated").cost("1"),
        ),
        (
            "cost",
            node("z").cost("-10").restarts(0),
            node("a").cost("10").restarts(5),
        ),
        ("no cost is 0", node("z").cost("-1"), node("a")),
        (
            "ready later",
            node("z").ready_since("2024-05-01T09:59:00Z"),
            node("a").ready_since("2024-05-01T09:00:00Z").restarts(3),
        ),
        (
            "restarts",
            node("z").restarts(2).created("2024-01-01T00:00:00Z"),
            node("a").restarts(1).created("2024-02-01T00:00:00Z"),
        ),
        (
            "younger",
            node("z").created("2024-02-01T00:00:00Z"),
            node("a").created("2024-01-01T00:00:00Z"),
        ),
        ("by name", node("a"), node("z")),
    ];
    for (criterion, first, second) in table {
        let expected = vec![first.name().to_owned(), second.name().to_owned()];
        assert_eq!(
            order(&[first.clone(), second.clone()], &plain()),
            expected,
            "{criterion}"
        );
        assert_eq!(
            order(&[second, first], &plain()),
            expected,
            "{criterion}, the other way round"
        );
    }
}

#[test]
fn a_deletion_cost_counts_only_in_its_plain_form() {
    for (text, cost) in [
        ("5", 5),
        ("-5", -5),
        ("0", 0),
        ("+5", 0),
        ("007", 0),
        ("x", 0),
        ("", 0),
        ("2147483648", 0),
        ("-2147483648", i32::MIN),
    ] {
        assert_eq!(deletion_cost(&pod("a").cost(text).typed()), cost, "{text:?}");
    }
}

#[test]
fn given_several_pods_on_a_node_then_all_but_one_go_before_lonely_ones() {
    let old = |name: &str| pod(name).ready().created("2024-01-01T00:00:00Z");
    let young = |name: &str| pod(name).ready().created("2024-04-01T00:00:00Z");
    let pods = [
        old("crowd-1").on_node("n1"),
        old("crowd-2").on_node("n1"),
        old("crowd-3").on_node("n1"),
        young("alone").on_node("n2"),
    ];
    assert_eq!(order(&pods, &plain()), ["crowd-1", "crowd-2", "alone", "crowd-3"]);
}

#[test]
fn given_zones_then_pods_of_the_crowded_zone_go_first() {
    let labels: Vec<(String, Labels)> = [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "b")]
        .iter()
        .map(|(node, zone)| {
            let labels = serde_json::from_value(json!({ "topology.kubernetes.io/zone": zone })).unwrap();
            ((*node).to_owned(), labels)
        })
        .collect();
    let topology = Topology {
        keys: vec![label::NODE_ZONE.to_owned()],
        nodes: labels.iter().map(|(node, labels)| (&**node, labels)).collect(),
    };
    let pods = [
        pod("b1").ready().on_node("n4").created("2024-04-01T00:00:00Z"),
        pod("a1").ready().on_node("n1"),
        pod("a2").ready().on_node("n2"),
        pod("a3").ready().on_node("n3"),
    ];
    // Scaling from four to two takes both from zone a.
    assert_eq!(order(&pods, &topology), ["a1", "a2", "b1", "a3"]);
    // A node nobody knows counts for nothing.
    let unknown = [pod("lost").ready().on_node("n9"), pod("a1").ready().on_node("n1")];
    assert_eq!(order(&unknown, &topology), ["a1", "lost"]);
}
