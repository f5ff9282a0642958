//! What is planned for Pods and the status.

use super::*;

/// What is written to each Pod.
fn patches(plan: &Plan) -> BTreeMap<String, Value> {
    let writes = plan.writes().filter_map(|action| match action {
        Action::Patch { object, patch, .. } => Some((object.name.clone(), patch.document()["metadata"].clone())),
        _ => None,
    });
    writes.collect()
}

fn costs(plan: &Plan) -> Vec<i64> {
    let cost = |metadata: Value| metadata["annotations"]["controller.kubernetes.io/pod-deletion-cost"].clone();
    let costs = patches(plan).into_values().map(cost);
    costs.map(|cost| cost.as_str().unwrap().parse().unwrap()).collect()
}

fn status_of(plan: &Plan) -> Value {
    match &plan.status {
        Some(Action::Patch { patch, .. }) => patch.document()["status"].clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn given_pods_then_they_cost_what_their_place_says() {
    let three = json!([{"name": "a", "maxReplicas": 10}, {"name": "b", "maxReplicas": 10}, {"name": "c"}]);
    for (each, a, b) in [
        (10, vec![300; 10], vec![200; 10]),
        (
            20,
            [vec![-100; 10], vec![300; 10]].concat(),
            [vec![-200; 10], vec![200; 10]].concat(),
        ),
    ] {
        let pods: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .flat_map(|subset| (0..each).map(move |number| in_subset(&format!("{subset}-{number:02}"), subset)))
            .collect();
        let plan = planned(
            &observed(spread("CloneSet", three.clone(), Value::Null), &pods),
            "10:00:00",
        );
        let mut found = costs(&plan);
        for part in found.chunks_mut(each) {
            part.sort_unstable();
        }
        assert_eq!(found, [a, b, vec![100; each]].concat(), "{each}");
    }
    // Old versions the other way round; Pods in no subset first of all.
    let mut old = observed(
        spread("CloneSet", three, Value::Null),
        &[in_subset("p", "a"), in_subset("q", "gone")],
    );
    assert_eq!(costs(&planned(&old, "10:00:00")), [300, -400]);
    old.workload.as_mut().unwrap().newest = Some("other".to_owned());
    assert_eq!(costs(&planned(&old, "10:00:00")), [100, -400]);
    old.workload.as_mut().unwrap().newest = None;
    assert!(patches(&planned(&old, "10:00:00")).is_empty());
    assert!(planned(&old, "10:00:00").wake_after.is_some());
    // Kinds that do not go by costs have none.
    let jobs = observed(
        spread("StatefulSet", two_subsets(), Value::Null),
        &[in_subset("p", "a")],
    );
    assert!(patches(&planned(&jobs, "10:00:00")).is_empty());
}

#[test]
fn given_more_pods_than_the_limit_then_the_least_useful_go_first() {
    let subsets = json!([{"name": "a", "maxReplicas": 1}, {"name": "b"}]);
    let pods = [
        in_subset("p", "a"),
        in_subset("q", "a")
            .set("/status/phase", json!("Pending"))
            .set("/spec/nodeName", json!("")),
        in_subset("r", "a").set("/metadata/creationTimestamp", json!("2024-05-01T09:30:00Z")),
    ];
    assert_eq!(
        costs(&planned(
            &observed(spread("CloneSet", subsets, Value::Null), &pods),
            "10:00:00"
        )),
        [200, -100, -100]
    );
}

#[test]
fn given_pods_that_were_there_before_then_they_get_the_subset_of_their_node() {
    let free = |name: &str, node: &str| {
        let mut pod = in_subset(name, "a").set("/spec/nodeName", json!(node));
        pod = pod.set("/metadata/annotations", json!({}));
        pod
    };
    let pods = [
        free("on-a", "node1"),
        free("on-b", "node2"),
        free("on-c", "node3"),
        free("nowhere", ""),
    ];
    let mut known = observed(spread("CloneSet", two_subsets(), Value::Null), &pods);
    let plan = planned(&known, "10:00:00");
    let told = patches(&plan);
    let matched = |name: &str| told[name]["annotations"]["apps.kruise.io/matched-workloadspread"].clone();
    assert_eq!(matched("on-a"), r#"{"name":"spread","subset":"a"}"#);
    assert_eq!(matched("on-b"), r#"{"name":"spread","subset":"b"}"#);
    assert_eq!((matched("on-c"), matched("nowhere")), (Value::Null, Value::Null));
    assert_eq!(told["on-b"]["labels"], json!({"tier": "b"}));
    assert_eq!(told["on-b"]["annotations"]["note"], "b");
    assert_eq!(costs(&plan), [-300, 200, 100, -300]);
    let text = serde_json::to_value(&plan.why).unwrap().to_string();
    assert!(text.contains("inNoSubset") && text.contains("nowhere"), "{text}");
    // Opted out.
    let ignoring = Arc::make_mut(&mut known.spread);
    ignoring.metadata.annotations = Some(BTreeMap::from([(
        "workloadspread.kruise.io/ignore-patch-existing-pods-metadata".to_owned(),
        "True".to_owned(),
    )]));
    let told = patches(&planned(&known, "10:00:00"));
    assert_eq!(told["on-b"].get("labels"), None);
    assert!(told["on-b"]["annotations"]["apps.kruise.io/matched-workloadspread"].is_string());
}

#[test]
fn given_several_subsets_for_a_node_then_preference_counts_before_looks_and_room() {
    let prefer = |weight: i32| json!([{"weight": weight, "preference": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}}]);
    let patch = json!({"metadata": {"labels": {"tier": "x"}}});
    for (what, subsets, expected) in [
        ("the first of equals", json!([{"name": "a"}, {"name": "b"}]), "a"),
        (
            "preferred",
            json!([{"name": "a"}, {"name": "b", "preferredNodeSelector": prefer(1)}]),
            "b",
        ),
        (
            "looks like it",
            json!([{"name": "a", "patch": {"metadata": {"labels": {"tier": "y"}}}}, {"name": "b", "patch": patch}]),
            "b",
        ),
        (
            "a spec changes something",
            json!([{"name": "a", "patch": {"spec": {"priority": 1}}}, {"name": "b"}]),
            "b",
        ),
        ("has room", json!([{"name": "a", "maxReplicas": 0}, {"name": "b"}]), "b"),
        (
            "looks before room",
            json!([{"name": "a", "maxReplicas": 0, "patch": patch}, {"name": "b", "patch": {"spec": {"x": 1}}}]),
            "a",
        ),
    ] {
        let pod = in_subset("p", "a")
            .set("/metadata/annotations", json!({}))
            .label("tier", "x");
        let told = patches(&planned(
            &observed(spread("CloneSet", subsets, Value::Null), &[pod]),
            "10:00:00",
        ));
        let matched = told["p"]["annotations"]["apps.kruise.io/matched-workloadspread"]
            .as_str()
            .unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(matched).unwrap()["subset"],
            expected,
            "{what}"
        );
    }
    // Taints have to be tolerated, by the Pod or the subset.
    let tainted = json!({"metadata": {"name": "node1"}, "spec": {"taints": [{"key": "spot", "effect": "NoSchedule"}]}});
    let subsets = json!([{"name": "a"}, {"name": "b", "tolerations": [{"key": "spot", "operator": "Exists"}]}]);
    let pod = in_subset("p", "a").set("/metadata/annotations", json!({}));
    let mut known = observed(spread("CloneSet", subsets, Value::Null), &[pod]);
    known
        .nodes
        .insert("node1".to_owned(), Arc::new(serde_json::from_value(tainted).unwrap()));
    assert!(
        patches(&planned(&known, "10:00:00"))["p"]
            .to_string()
            .contains(r#"subset\":\"b"#)
    );
}

#[test]
fn given_entries_then_they_are_forgotten_when_seen_or_after_their_time_which_is_told() {
    let list = json!([
        {"name": "a", "replicas": 0, "missingReplicas": 0,
         "creatingPods": {"seen": "2024-05-01T09:59:59Z", "uid-7": "2024-05-01T09:59:59Z", "coming": "2024-05-01T09:59:40Z", "lost": "2024-05-01T09:59:30Z"},
         "deletingPods": {"seen": "2024-05-01T09:59:50Z", "stays": "2024-05-01T09:59:45Z", "gone": "2024-05-01T09:59:59Z"}},
        {"name": "b", "replicas": 0, "missingReplicas": -1},
    ]);
    let subsets = json!([{"name": "a", "maxReplicas": 9}, {"name": "b"}]);
    let with_id = in_subset("other", "a").annotation(
        "apps.kruise.io/matched-workloadspread",
        r#"{"name":"spread","subset":"a","uid":"uid-7"}"#,
    );
    let pods = [in_subset("seen", "a"), in_subset("stays", "a"), with_id];
    let mut status = ledger_of(&list);
    status["subsetStatuses"] = json!([]);
    let plan = planned(&observed(spread("CloneSet", subsets, status), &pods), "10:00:00");
    let first = &status_of(&plan)["versionedSubsetStatuses"][VERSION_IGNORED][0];
    assert_eq!(first["replicas"], 3);
    // The deletion of `seen` is under way, and it was let in again since: both are kept.
    assert_eq!(
        first["deletingPods"],
        json!({"seen": "2024-05-01T09:59:50Z", "gone": "2024-05-01T09:59:59Z"})
    );
    assert_eq!(
        first["creatingPods"],
        json!({"coming": "2024-05-01T09:59:40Z", "seen": "2024-05-01T09:59:59Z"})
    );
    assert_eq!(first["missingReplicas"], 9 - 3 + 1 - 2);
    let told: Vec<_> = plan
        .events
        .iter()
        .map(|event| (event.reason, event.message.as_str()))
        .collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told.iter()
            .any(|(reason, text)| *reason == "CreatePodFailed" && text.contains("lost")),
        "{told:?}"
    );
    assert!(
        told.iter()
            .any(|(reason, text)| *reason == "DeletePodFailed" && text.contains("stays")),
        "{told:?}"
    );
    assert_eq!(plan.wake_after, Some(Duration::from_secs(4)));
}

#[test]
fn given_versions_without_pods_then_they_are_kept_while_somebody_comes() {
    let list = |creating: Value| json!([{"name": "a", "replicas": 0, "missingReplicas": 2, "creatingPods": creating}]);
    let status =
        json!({"versionedSubsetStatuses": {"old": list(json!({})), "new": list(json!({"p": "2024-05-01T09:59:59Z"}))}});
    let mut known = observed(spread("Deployment", two_subsets(), status), &[]);
    let versions = status_of(&planned(&known, "10:00:00"))["versionedSubsetStatuses"].clone();
    assert_eq!(versions["old"], Value::Null);
    assert_eq!(versions["new"][0]["missingReplicas"], 1);
    known.workload = Err("no right".to_owned());
    let plan = planned(&known, "10:00:00");
    assert!(plan.status.is_none() && plan.wake_after.is_some() && !plan.why.is_empty());
}

/// A Pod of `a` that found no node, made at 09:59:00.
fn waiting(name: &str) -> PodBuilder {
    in_subset(name, "a")
        .set("/metadata/creationTimestamp", json!("2024-05-01T09:59:00Z"))
        .set("/spec/nodeName", json!(""))
        .set("/status/phase", json!("Pending"))
        .set(
            "/status/conditions",
            json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]),
        )
}

fn deletes(plan: &Plan) -> Vec<&str> {
    let writes = plan.writes().filter_map(|action| match action {
        Action::Delete { object, preconditions } => {
            assert!(preconditions.resource_version.is_some());
            Some(object.name.as_str())
        }
        _ => None,
    });
    writes.collect()
}

#[test]
fn given_a_pod_that_finds_no_node_then_its_subset_is_written_down_before_it_goes() {
    let pods = [waiting("p"), in_subset("q", "b")];
    let early = planned(&observed(adaptive(Value::Null), &pods), "09:59:20");
    assert_eq!(early.wake_after, Some(Duration::from_secs(11)));
    assert_eq!(
        status_of(&early)["subsetStatuses"][0]["conditions"][0]["status"],
        "True"
    );
    let first = planned(&observed(adaptive(Value::Null), &pods), "09:59:31");
    let condition = &status_of(&first)["subsetStatuses"][0]["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("PodUnschedulable"))
    );
    assert!(deletes(&first).is_empty(), "not before it is written down");
    let written = stored(&adaptive(Value::Null), &first);
    let second = planned(&observed(written.clone(), &pods), "09:59:32");
    assert_eq!(deletes(&second), ["p"]);
    assert!(second.status.is_none(), "{:?}", second.status);
    // The one in its place goes elsewhere, also in a version of its own.
    assert_eq!(placed(&written, "new", None), goes("b", false));
    // For five minutes, and then it is tried again.
    let waits = planned(&observed(written.clone(), &pods[1..]), "10:04:30");
    assert_eq!(waits.wake_after, Some(Duration::from_secs(1)));
    assert!(waits.events.is_empty());
    let again = planned(&observed(written, &pods[1..]), "10:04:31");
    let condition = &status_of(&again)["subsetStatuses"][0];
    assert!(condition.to_string().contains("Sufficient"), "{condition}");
    assert_eq!(again.events[0].reason, "RecoverSchedulable");
    assert_eq!(again.events.len(), 1);
}

#[test]
fn given_no_time_to_wait_or_the_last_subset_then_nobody_is_moved() {
    let mut last = waiting("p").annotation(
        "apps.kruise.io/matched-workloadspread",
        r#"{"name":"spread","subset":"b"}"#,
    );
    let plan = planned(
        &observed(adaptive(Value::Null), std::slice::from_ref(&last)),
        "10:30:00",
    );
    let again = planned(
        &observed(stored(&adaptive(Value::Null), &plan), &[last.clone()]),
        "10:30:00",
    );
    assert!(deletes(&plan).is_empty() && deletes(&again).is_empty());
    assert_eq!(status_of(&plan)["subsetStatuses"][1]["conditions"][0]["status"], "True");
    last = waiting("p");
    let fixed = planned(
        &observed(spread("CloneSet", two_subsets(), Value::Null), &[last]),
        "10:30:00",
    );
    assert_eq!(status_of(&fixed)["subsetStatuses"][0].get("conditions"), None);
}

#[test]
fn given_nothing_new_then_nothing_is_written() {
    let pods = [
        in_subset("p", "a").annotation("controller.kubernetes.io/pod-deletion-cost", "200"),
        in_subset("q", "b").annotation("controller.kubernetes.io/pod-deletion-cost", "100"),
    ];
    let known = observed(spread("CloneSet", two_subsets(), Value::Null), &pods);
    let plan = planned(&known, "10:00:00");
    let known = observed(stored(&known.spread, &plan), &pods);
    assert_eq!(planned(&known, "10:00:01"), Plan::default());
    let mut gone = known;
    Arc::make_mut(&mut gone.spread).metadata.deletion_timestamp =
        serde_json::from_value(json!("2024-05-01T09:00:00Z")).unwrap();
    assert!(planned(&gone, "10:00:00").is_idle());
}

#[test]
fn given_the_recording_of_the_original_then_status_and_costs_are_the_same() {
    // Steps 3 and 6: two in each subset; then the limit of the first is lowered to one.
    let pods = ["first", "first", "second", "second"];
    let pods: Vec<_> = pods
        .iter()
        .enumerate()
        .map(|(number, subset)| in_subset(&format!("p{number}"), subset))
        .collect();
    let subsets = |most: i32| json!([{"name": "first", "maxReplicas": most}, {"name": "second"}]);
    let plan = planned(
        &observed(spread("CloneSet", subsets(2), Value::Null), &pods),
        "10:00:00",
    );
    assert_eq!(costs(&plan), [200, 200, 100, 100]);
    let list = json!([{"missingReplicas": 0, "name": "first", "replicas": 2}, {"missingReplicas": -1, "name": "second", "replicas": 2}]);
    assert_eq!(
        status_of(&plan),
        json!({"observedGeneration": 2, "subsetStatuses": list, "versionedSubsetStatuses": {"versionIgnored": list}})
    );
    let plan = planned(
        &observed(spread("CloneSet", subsets(1), Value::Null), &pods[..2]),
        "10:00:00",
    );
    let mut found = costs(&plan);
    found.sort_unstable();
    assert_eq!(found, [-100, 200]);
    assert_eq!(
        status_of(&plan)["subsetStatuses"][0],
        json!({"missingReplicas": 0, "name": "first", "replicas": 2})
    );
    // Step 1: no Pods.
    let plan = planned(&observed(spread("CloneSet", subsets(2), Value::Null), &[]), "10:00:00");
    assert_eq!(
        status_of(&plan),
        json!({"observedGeneration": 2, "subsetStatuses": [{"missingReplicas": 2, "name": "first", "replicas": 0}, {"missingReplicas": -1, "name": "second", "replicas": 0}]})
    );
}
