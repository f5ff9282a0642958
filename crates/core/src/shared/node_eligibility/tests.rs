use serde_json::{Value, json};

use super::*;

fn node(labels: &Value, taints: &Value) -> Node {
    let node = json!({"metadata": {"name": "n1", "labels": labels}, "spec": {"taints": taints}});
    serde_json::from_value(node).unwrap()
}

fn requirements(spec: &Value) -> NodeRequirements {
    NodeRequirements::of_template(&json!({ "spec": spec })).unwrap()
}

fn fits(spec: &Value, labels: &Value) -> bool {
    requirements(spec).fit(&node(labels, &Value::Null)).runs()
}

fn required(terms: &Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

#[test]
fn given_operators_on_labels_then_nodes_fit_as_the_scheduler_says() {
    let labels = json!({"zone": "a", "cores": "8", "odd": "8x"});
    for (operator, key, values, expected) in [
        ("In", "zone", json!(["a", "b"]), true),
        ("In", "zone", json!(["b"]), false),
        ("In", "none", json!(["a"]), false),
        ("In", "zone", json!([]), false),
        ("NotIn", "zone", json!(["b"]), true),
        ("NotIn", "zone", json!(["a"]), false),
        ("NotIn", "none", json!(["a"]), true),
        ("NotIn", "none", json!([]), false),
        ("Exists", "zone", json!([]), true),
        ("Exists", "zone", Value::Null, true),
        ("Exists", "none", json!([]), false),
        ("Exists", "zone", json!(["a"]), false),
        ("DoesNotExist", "none", json!([]), true),
        ("DoesNotExist", "zone", json!([]), false),
        ("DoesNotExist", "none", json!(["a"]), false),
        ("Gt", "cores", json!(["7"]), true),
        ("Gt", "cores", json!(["8"]), false),
        ("Gt", "cores", json!(["x"]), false),
        ("Gt", "cores", json!(["1", "2"]), false),
        ("Gt", "odd", json!(["1"]), false),
        ("Gt", "none", json!(["1"]), false),
        ("Lt", "cores", json!(["9"]), true),
        ("Lt", "cores", json!(["-9"]), false),
        ("Near", "zone", json!(["a"]), false),
    ] {
        let terms = json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
        assert_eq!(fits(&required(&terms), &labels), expected, "{terms}");
    }
}

#[test]
fn given_terms_then_one_has_to_hold_with_all_of_it() {
    let labels = json!({"zone": "a", "disk": "ssd"});
    let zone = json!({"key": "zone", "operator": "In", "values": ["a"]});
    let disk = json!({"key": "disk", "operator": "In", "values": ["hdd"]});
    let name = |operator: &str, value: &str| json!({"key": "metadata.name", "operator": operator, "values": [value]});
    for (terms, expected) in [
        (json!([]), false),
        (Value::Null, false),
        (json!([{}]), false),
        (json!([{"matchExpressions": [zone, disk]}]), false),
        (
            json!([{"matchExpressions": [disk]}, {"matchExpressions": [zone]}]),
            true,
        ),
        (json!([{"matchFields": [name("In", "n1")]}]), true),
        (json!([{"matchFields": [name("In", "n2")]}]), false),
        (json!([{"matchFields": [name("NotIn", "n2")]}]), true),
        (json!([{"matchFields": [name("Exists", "n1")]}]), false),
        (
            json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}]}]),
            false,
        ),
        (
            json!([{"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["n1"]}]}]),
            false,
        ),
        (
            json!([{"matchExpressions": [zone], "matchFields": [name("In", "n2")]}]),
            false,
        ),
        // One term that nobody understands does not spoil the others.
        (
            json!([{"matchFields": [name("Near", "n1")]}, {"matchExpressions": [zone]}]),
            true,
        ),
    ] {
        assert_eq!(fits(&required(&terms), &labels), expected, "{terms}");
    }
}

#[test]
fn given_a_name_or_a_node_selector_then_both_count() {
    let labels = json!({"zone": "a"});
    for (spec, expected) in [
        (json!({}), true),
        (Value::Null, true),
        (json!({"nodeName": "n1"}), true),
        (json!({"nodeName": ""}), true),
        (json!({"nodeName": "n2"}), false),
        (json!({"nodeSelector": {"zone": "a"}}), true),
        (json!({"nodeSelector": {"zone": "b"}}), false),
        (json!({"nodeSelector": {"zone": "a", "more": ""}}), false),
    ] {
        assert_eq!(fits(&spec, &labels), expected, "{spec}");
    }
}

#[test]
fn given_taints_then_new_pods_stay_away_and_old_ones_go_only_for_no_execute() {
    let taint = |effect: &str| json!([{"key": "k", "value": "v", "effect": effect}]);
    for (taints, tolerations, expected) in [
        (taint("NoSchedule"), json!([]), (false, true)),
        (taint("NoExecute"), json!([]), (false, false)),
        (taint("PreferNoSchedule"), json!([]), (true, true)),
        (taint("NoSchedule"), json!([{"operator": "Exists"}]), (true, true)),
        (
            taint("NoExecute"),
            json!([{"key": "k", "operator": "Exists"}]),
            (true, true),
        ),
        (taint("NoExecute"), json!([{"key": "k", "value": "v"}]), (true, true)),
        (
            taint("NoExecute"),
            json!([{"key": "k", "operator": "Equal", "value": "w"}]),
            (false, false),
        ),
        (
            taint("NoExecute"),
            json!([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]),
            (false, false),
        ),
        (
            taint("NoExecute"),
            json!([{"key": "k", "operator": "Exists", "tolerationSeconds": 5}]),
            (true, true),
        ),
        (
            taint("NoSchedule"),
            json!([{"key": "k", "operator": "Almost"}]),
            (false, true),
        ),
        (
            json!([{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]),
            json!([{"key": "a", "operator": "Exists"}]),
            (false, false),
        ),
    ] {
        let requirements = requirements(&json!({ "tolerations": tolerations }));
        let node = node(&json!({}), &taints);
        let fit = requirements.fit(&node);
        assert_eq!((fit.runs(), fit.stays()), expected, "{taints} {tolerations}");
    }
}

#[test]
fn given_a_node_in_trouble_then_daemons_stay_and_come_but_for_the_network() {
    for (key, effect, plain, host) in [
        ("node.kubernetes.io/not-ready", "NoExecute", true, true),
        ("node.kubernetes.io/unreachable", "NoExecute", true, true),
        ("node.kubernetes.io/disk-pressure", "NoSchedule", true, true),
        ("node.kubernetes.io/memory-pressure", "NoSchedule", true, true),
        ("node.kubernetes.io/pid-pressure", "NoSchedule", true, true),
        ("node.kubernetes.io/unschedulable", "NoSchedule", true, true),
        ("node.kubernetes.io/network-unavailable", "NoSchedule", false, true),
        ("node.kubernetes.io/not-ready", "NoSchedule", false, false),
    ] {
        let node = node(&json!({}), &json!([{"key": key, "effect": effect}]));
        let runs = |host: bool| {
            let requirements = requirements(&json!({ "hostNetwork": host })).with_daemon_tolerations();
            requirements.fit(&node).runs()
        };
        assert_eq!((runs(false), runs(true)), (plain, host), "{key} {effect}");
    }
}

#[test]
fn given_a_template_that_cannot_be_read_then_the_field_is_named() {
    let error = NodeRequirements::of_template(&json!({"spec": {"nodeSelector": 1}})).unwrap_err();
    assert!(error.starts_with("spec.template.spec: "), "{error}");
}

#[test]
fn given_the_affinity_of_a_daemon_then_its_node_is_known() {
    let terms = |json: Value| -> Vec<NodeTerm> { serde_json::from_value(json).unwrap() };
    let named = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]}]);
    assert_eq!(affinity::only_node(&terms(named)), Some("n7"));
    let labelled = json!([{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]);
    assert_eq!(affinity::only_node(&terms(labelled)), None);
}
