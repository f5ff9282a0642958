use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kruise_api::names::object::VERSION_IGNORED;
use kruise_api::node::Node;
use kruise_api::workloadspread::v1beta1::WorkloadSpread;
use serde_json::{Value, json};

use super::ledger::{Answer, Ask, Leave, leave, place};
use super::*;
use crate::plan::{Action, Env, Plan};
use crate::shared::fixture::{Fixture as _, PodBuilder, at, running_pod};

mod planning;
mod properties;

/// A spread over a CloneSet: `a` with room for two, `b` without a limit.
pub(super) fn two_subsets() -> Value {
    json!([
        {"name": "a", "maxReplicas": 2, "requiredNodeSelector": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}},
        {"name": "b", "requiredNodeSelector": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["b"]}]},
         "patch": {"metadata": {"labels": {"tier": "b"}, "annotations": {"note": "b"}}}},
    ])
}

#[expect(clippy::needless_pass_by_value, reason = "it reads better where it is called")]
pub(super) fn spread(kind: &str, subsets: Value, status: Value) -> WorkloadSpread {
    let api_version = if kind == "CloneSet" {
        "apps.kruise.io/v1beta1"
    } else {
        "apps/v1"
    };
    let object = json!({
        "metadata": {"name": "spread", "namespace": "ns", "uid": "s", "resourceVersion": "5", "generation": 2},
        "spec": {"targetRef": {"apiVersion": api_version, "kind": kind, "name": "web"}, "subsets": subsets},
        "status": status,
    });
    serde_json::from_value(object).unwrap()
}

fn ledger_of(list: &Value) -> Value {
    json!({"versionedSubsetStatuses": {"versionIgnored": list}})
}

fn ask(pod: &str) -> Ask {
    Ask {
        namespace: "ns".to_owned(),
        spread: "spread".to_owned(),
        version: VERSION_IGNORED.to_owned(),
        pod: pod.to_owned(),
    }
}

fn placed(spread: &WorkloadSpread, pod: &str, replicas: Option<i32>) -> Answer {
    place(spread, &ask(pod), "uuid-1", replicas, at("10:00:00")).unwrap()
}

fn goes(subset: &str, passed_others: bool) -> Answer {
    Answer::Goes {
        subset: subset.to_owned(),
        passed_others,
    }
}

/// The ledger as it is after an entry: for each subset what is missing, and who is in its maps.
fn after(spread: &WorkloadSpread, answer: Answer) -> (String, String, Value) {
    let Answer::Take(entry) = answer else {
        panic!("{answer:?}")
    };
    let status = entry.written(spread.status.as_ref());
    let list = &entry.patch()["status"]["versionedSubsetStatuses"][VERSION_IGNORED];
    assert_eq!(
        *list,
        serde_json::to_value(&status.versioned_subset_statuses[VERSION_IGNORED]).unwrap()
    );
    (entry.subset.clone(), entry.uid.clone(), list.clone())
}

#[test]
fn given_new_pods_then_the_first_subset_with_room_takes_them() {
    let new = spread("CloneSet", two_subsets(), Value::Null);
    let (subset, uid, list) = after(&new, placed(&new, "p", None));
    assert_eq!((subset.as_str(), uid.as_str()), ("a", ""));
    assert_eq!(list[0]["missingReplicas"], 1);
    assert_eq!(list[0]["creatingPods"], json!({"p": "2024-05-01T10:00:00Z"}));
    assert_eq!(list[1], json!({"name": "b", "replicas": 0, "missingReplicas": -1}));
    // Without a name it gets an id.
    let (_, uid, list) = after(&new, placed(&new, "", None));
    assert_eq!(
        (uid.as_str(), &list[0]["creatingPods"]["uuid-1"]),
        ("uuid-1", &json!("2024-05-01T10:00:00Z"))
    );

    let refused = json!([{"type": "Schedulable", "status": "False", "reason": "PodUnschedulable", "message": "", "lastTransitionTime": "2024-05-01T09:59:00Z"}]);
    for (what, first, expected) in [
        (
            "full",
            json!({"name": "a", "replicas": 2, "missingReplicas": 0}),
            goes("b", true),
        ),
        (
            "finds no nodes",
            json!({"name": "a", "replicas": 0, "missingReplicas": 2, "conditions": refused}),
            goes("b", false),
        ),
        (
            "its limit was lowered",
            json!({"name": "a", "replicas": 2, "missingReplicas": 8}),
            goes("b", true),
        ),
        (
            "let in, not seen",
            json!({"name": "a", "replicas": 1, "missingReplicas": 1, "creatingPods": {"x": "2024-05-01T09:59:59Z"}}),
            goes("b", true),
        ),
    ] {
        let known = spread(
            "CloneSet",
            two_subsets(),
            ledger_of(&json!([first, {"name": "b", "replicas": 0, "missingReplicas": -1}])),
        );
        assert_eq!(placed(&known, "p", None), expected, "{what}");
    }
    // One that had no limit keeps its Pods when it gets one.
    let known = json!([{"name": "a", "replicas": 2, "missingReplicas": -1}, {"name": "b", "replicas": 0, "missingReplicas": -1}]);
    let known = spread("CloneSet", two_subsets(), ledger_of(&known));
    assert_eq!(placed(&known, "p", None), goes("b", true));
    // What is known of all versions holds for a new one.
    let refused = spread(
        "CloneSet",
        two_subsets(),
        json!({"subsetStatuses": [{"name": "a", "replicas": 0, "missingReplicas": 2, "conditions": refused}]}),
    );
    assert_eq!(placed(&refused, "p", None), goes("b", false));
    let full = spread("CloneSet", json!([{"name": "a", "maxReplicas": 0}]), Value::Null);
    assert_eq!(placed(&full, "p", None), Answer::NoRoom);
}

#[test]
fn given_a_pod_that_was_let_in_then_it_goes_to_the_same_subset_and_takes_no_second_place() {
    let list =
        json!([{"name": "a", "replicas": 1, "missingReplicas": 0, "creatingPods": {"p": "2024-05-01T09:59:45Z"}}]);
    let known = spread("CloneSet", two_subsets(), ledger_of(&list));
    let (subset, _, list) = after(&known, placed(&known, "p", None));
    assert_eq!((subset.as_str(), &list[0]["missingReplicas"]), ("a", &json!(0)));
    assert_eq!(list[0]["creatingPods"], json!({"p": "2024-05-01T10:00:00Z"}));
    assert_eq!(placed(&known, "q", None), goes("b", true));
}

#[test]
fn given_shares_then_the_replicas_are_asked_for_once() {
    let shares = json!([{"name": "a", "maxReplicas": "50%"}, {"name": "b", "maxReplicas": "50%"}]);
    let new = spread("CloneSet", shares.clone(), Value::Null);
    assert_eq!(placed(&new, "p", None), Answer::NeedsReplicas);
    let (_, _, list) = after(&new, placed(&new, "p", Some(5)));
    assert_eq!(
        (&list[0]["missingReplicas"], &list[1]["missingReplicas"]),
        (&json!(2), &json!(3))
    );
    let known = spread("CloneSet", shares, ledger_of(&list));
    assert!(matches!(placed(&known, "q", None), Answer::Take(_)));
    let bad = spread("CloneSet", json!([{"name": "a", "maxReplicas": "x"}]), Value::Null);
    assert!(place(&bad, &ask("p"), "id", Some(1), at("10:00:00")).is_err());
}

fn leaving(pod: &str, uid: &str, subset: &str) -> Leave {
    Leave {
        pod: pod.to_owned(),
        uid: uid.to_owned(),
        subset: subset.to_owned(),
        version: VERSION_IGNORED.to_owned(),
        made: Some(at("09:00:00")),
    }
}

#[test]
fn given_pods_that_leave_then_each_makes_room_once() {
    let first = |fields: Value| {
        let mut first = json!({"name": "a", "replicas": 2, "missingReplicas": 0});
        for (key, value) in fields.as_object().unwrap() {
            first[key] = value.clone();
        }
        ledger_of(&json!([first, {"name": "b", "replicas": 1, "missingReplicas": -1}]))
    };
    for (what, status, leave_, expected) in [
        (
            "one of a",
            first(json!({})),
            leaving("p", "", "a"),
            Some((1, vec!["p"])),
        ),
        (
            "noted before",
            first(json!({"deletingPods": {"p": "2024-05-01T09:59:59Z"}})),
            leaving("p", "", "a"),
            None,
        ),
        (
            "its name was another's",
            first(json!({"deletingPods": {"p": "2024-05-01T08:00:00Z"}})),
            leaving("p", "", "a"),
            Some((1, vec!["p"])),
        ),
        (
            "not seen yet",
            first(json!({"creatingPods": {"p": "2024-05-01T09:59:59Z"}})),
            leaving("p", "", "a"),
            Some((1, vec!["p"])),
        ),
        (
            "not seen yet, by its id",
            first(json!({"replicas": 1, "creatingPods": {"u": "2024-05-01T09:59:59Z"}})),
            leaving("p", "u", "a"),
            Some((1, vec!["p"])),
        ),
        (
            "too many",
            first(json!({"replicas": 4})),
            leaving("p", "", "a"),
            Some((0, vec!["p"])),
        ),
        ("no limit", first(json!({})), leaving("p", "", "b"), None),
        ("a subset that is gone", first(json!({})), leaving("p", "", "c"), None),
        ("no ledger", Value::Null, leaving("p", "", "a"), None),
    ] {
        let known = spread("CloneSet", two_subsets(), status);
        let entry = leave(&known, &leave_, at("10:00:00"));
        let found = entry.map(|entry| {
            let list = entry.patch()["status"]["versionedSubsetStatuses"][VERSION_IGNORED].clone();
            assert!(list[0].get("creatingPods").is_none(), "{what}: {list}");
            let names: Vec<String> = list[0]["deletingPods"].as_object().unwrap().keys().cloned().collect();
            (list[0]["missingReplicas"].as_i64().unwrap(), names)
        });
        let expected = expected.map(|(room, names)| (room, names.into_iter().map(str::to_owned).collect()));
        assert_eq!(found, expected, "{what}");
    }
    let only = spread("CloneSet", json!([{"name": "a"}]), first(json!({})));
    assert_eq!(leave(&only, &leaving("p", "", "a"), at("10:00:00")), None);
    let ordinals = spread("StatefulSet", two_subsets(), first(json!({})));
    assert_eq!(leave(&ordinals, &leaving("p", "", "a"), at("10:00:00")), None);
}

fn injected(mut pod: Value, subset: &Value, uid: &str) -> Value {
    let subset = serde_json::from_value(subset.clone()).unwrap();
    inject::inject(&mut pod, "spread", &subset, uid).unwrap();
    pod
}

#[test]
fn given_a_subset_then_the_pod_gets_what_it_adds() {
    let term = json!({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}], "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]});
    let subset = json!({"name": "a", "requiredNodeSelector": term, "tolerations": [{"key": "spot", "operator": "Exists"}],
        "preferredNodeSelector": [{"weight": 5, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}],
        "patch": {"metadata": {"labels": {"tier": "a"}, "annotations": {"apps.kruise.io/matched-workloadspread": "mine"}}}});
    let empty = injected(json!({"spec": {"containers": []}}), &subset, "");
    let nodes = &empty["spec"]["affinity"]["nodeAffinity"];
    assert_eq!(
        nodes["requiredDuringSchedulingIgnoredDuringExecution"],
        json!({"nodeSelectorTerms": [term]})
    );
    assert_eq!(nodes["preferredDuringSchedulingIgnoredDuringExecution"][0]["weight"], 5);
    assert_eq!(
        empty["spec"]["tolerations"],
        json!([{"key": "spot", "operator": "Exists"}])
    );
    assert_eq!(empty["metadata"]["labels"]["tier"], "a");
    assert_eq!(
        empty["metadata"]["annotations"]["apps.kruise.io/matched-workloadspread"],
        r#"{"name":"spread","subset":"a"}"#
    );
    // Terms are alternatives: ours is added to each.
    let own = json!([{"matchExpressions": [{"key": "x", "operator": "Exists"}]}, {"matchFields": []}]);
    let pod = json!({"spec": {"tolerations": [{"key": "own"}], "affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": own}}}}});
    let both = injected(pod, &subset, "u-1");
    let terms = &both["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    assert_eq!(terms[0]["matchExpressions"].as_array().unwrap().len(), 2);
    assert_eq!(terms[0]["matchFields"], term["matchFields"]);
    assert_eq!(terms[1], term);
    assert_eq!(both["spec"]["tolerations"][0]["key"], "own");
    assert_eq!(
        both["metadata"]["annotations"]["apps.kruise.io/matched-workloadspread"],
        r#"{"name":"spread","subset":"a","uid":"u-1"}"#
    );
    let bare = injected(json!({"spec": {}}), &json!({"name": "a"}), "");
    assert_eq!(bare["spec"]["affinity"], json!({"nodeAffinity": {}}));
}

#[test]
fn given_another_priority_class_then_what_belonged_to_the_one_before_goes() {
    let pod = json!({"spec": {"priorityClassName": "high", "priority": 100, "preemptionPolicy": "Never"}});
    for (patch, expected) in [
        (
            json!({"spec": {"priorityClassName": "low"}}),
            json!({"priorityClassName": "low"}),
        ),
        (
            json!({"spec": {"priorityClassName": "low", "priority": 7}}),
            json!({"priorityClassName": "low", "priority": 7}),
        ),
        (json!({"spec": {"priorityClassName": "high"}}), pod["spec"].clone()),
        (json!({"metadata": {}}), pod["spec"].clone()),
    ] {
        let mut after = injected(pod.clone(), &json!({"name": "a", "patch": patch}), "");
        after["spec"].as_object_mut().unwrap().remove("affinity");
        assert_eq!(after["spec"], expected, "{patch}");
    }
    let bad = serde_json::from_value(json!({"name": "a", "patch": {"spec": {"containers": [{}]}}})).unwrap();
    assert!(
        inject::inject(&mut json!({"spec": {}}), "s", &bad, "")
            .unwrap_err()
            .contains("subset a")
    );
    assert!(inject::inject(&mut json!("x"), "s", &bad, "").is_err());
}

pub(super) fn node(name: &str, pool: &str) -> Arc<Node> {
    let node = json!({"metadata": {"name": name, "labels": {"pool": pool}}, "spec": {}});
    Arc::new(serde_json::from_value(node).unwrap())
}

pub(super) fn in_subset(name: &str, subset: &str) -> PodBuilder {
    let matched = json!({"name": "spread", "subset": subset}).to_string();
    running_pod(name)
        .ready()
        .annotation("apps.kruise.io/matched-workloadspread", matched)
        .set("/metadata/creationTimestamp", json!("2024-05-01T09:00:00Z"))
        .set(
            "/metadata/ownerReferences",
            json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": "w", "controller": true}]),
        )
}

pub(super) fn observed(spread: WorkloadSpread, pods: &[PodBuilder]) -> Observed {
    let nodes = [node("node1", "a"), node("node2", "b"), node("node3", "c")];
    Observed {
        spread: Arc::new(spread),
        workload: Ok(Workload {
            replicas: i32::try_from(pods.len()).unwrap(),
            newest: Some(VERSION_IGNORED.to_owned()),
        }),
        pods: pods.iter().map(|pod| Arc::new(pod.typed())).collect(),
        nodes: nodes
            .into_iter()
            .map(|node| (node.metadata.name.to_string(), node))
            .collect(),
        versioned: VersionedKinds::read("deployment,replicaset"),
        is_watched: true,
    }
}

fn planned(observed: &Observed, time: &str) -> Plan {
    observed.plan(&Env::at(at(time)))
}

fn adaptive(status: Value) -> WorkloadSpread {
    let mut spread = spread("CloneSet", two_subsets(), status);
    spread.spec.schedule_strategy =
        serde_json::from_value(json!({"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}})).unwrap();
    spread
}

/// The spread after its status was written.
fn stored(spread: &WorkloadSpread, plan: &Plan) -> WorkloadSpread {
    let mut object = serde_json::to_value(spread).unwrap();
    if let Some(Action::Patch { patch, .. }) = &plan.status {
        kruise_api::merge_patch::merge(&mut object, patch.document());
    }
    serde_json::from_value(object).unwrap()
}

#[test]
fn given_a_status_then_it_is_told_in_sentences() {
    let list = json!([
        {"name": "a", "replicas": 1, "missingReplicas": 1, "creatingPods": {"x": "2024-05-01T09:59:59Z"}},
        {"name": "b", "replicas": 3, "missingReplicas": -1},
    ]);
    let lines = explain::subsets(&spread("CloneSet", two_subsets(), ledger_of(&list)));
    assert_eq!(
        lines,
        [
            "versionIgnored: subset a has 1 Pods, room for 1 more, 1 let in and not seen yet",
            "versionIgnored: subset b has 3 Pods, no limit",
        ]
    );
}
