use super::*;
use crate::plan::Plan;
use crate::shared::owner::Owner;
use kruise_api::raw::Raw;
use proptest::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the original wrote, recorded in a cluster.
#[derive(Deserialize)]
struct Recorded {
    revisions: Vec<Revision>,
    workloads: Vec<Stored>,
    claims: Vec<Claims>,
}

#[derive(Deserialize)]
struct Revision {
    name: String,
    data: String,
}

#[derive(Deserialize)]
struct Stored {
    name: String,
    template: Value,
    revision: String,
}

#[derive(Deserialize)]
struct Claims {
    claims: Value,
    hash: String,
}

fn recorded() -> Recorded {
    serde_json::from_str(include_str!("../../../fixtures/hashes.json")).unwrap()
}

#[test]
fn the_example_of_the_rule_holds() {
    let json = r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"demo"}},"spec":{"containers":[{"image":"nginx:1.25","name":"main","resources":{}}]}}}}"#;
    assert_eq!(hash(json, 0), "788944f45");
    assert_ne!(hash(json, 1), hash(json, 0));
    let template = json!({"metadata": {"labels": {"app": "demo"}}, "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]}});
    assert_eq!(data(&template), json);
}

#[test]
fn given_revisions_of_the_original_then_names_and_bytes_are_ours_too() {
    let recorded = recorded();
    assert!(recorded.revisions.len() > 30);
    for Revision {
        name: recorded,
        data: bytes,
    } in recorded.revisions
    {
        let workload = recorded.rsplit_once('-').unwrap().0;
        assert_eq!(name(workload, &hash(&bytes, 0)), recorded);
        let value: Value = serde_json::from_str(&bytes).unwrap();
        assert_eq!(data(&template(&value).unwrap()), bytes);
    }
}

#[test]
fn given_workloads_as_they_were_stored_then_their_template_gives_the_recorded_revision() {
    let recorded = recorded();
    assert!(recorded.workloads.len() > 30);
    for Stored {
        name: workload,
        template,
        revision,
    } in recorded.workloads
    {
        assert_eq!(name(&workload, &hash(&data(&template), 0)), revision, "{template}");
    }
}

#[test]
fn given_claim_templates_then_their_hash_is_the_recorded_one_whatever_phase_and_order_they_have() {
    for Claims { claims, hash } in recorded().claims {
        assert_eq!(claims_hash(&claims), hash);
        let mut stored = claims.clone();
        stored[0]["status"] = json!({"phase": "Pending"});
        stored[0]["apiVersion"] = json!("");
        assert_eq!(claims_hash(&stored), hash);
    }
    let claim = |name: &str| json!({"metadata": {"name": name}, "spec": {}});
    assert_eq!(
        claims_hash(&json!([claim("a"), claim("b")])),
        claims_hash(&json!([claim("b"), claim("a")]))
    );
    for none in [json!(null), json!([]), json!("x")] {
        assert_eq!(claims_hash(&none), "");
    }
}

#[test]
fn given_fields_then_they_are_written_as_kubernetes_types_are() {
    let written = |container: Value, spec: Value| {
        let mut spec = spec;
        spec["containers"] = json!([container]);
        let text = data(&json!({"spec": spec}));
        serde_json::from_str::<Value>(&text).unwrap()["spec"]["template"]["spec"].clone()
    };
    for (name, container, spec, expected) in [
        // Values that are empty go, unless the field tells "empty" from "not given".
        (
            "flags",
            json!({"stdin": false, "tty": true}),
            json!({"hostNetwork": false, "enableServiceLinks": false}),
            json!({"containers": [{"name": "", "resources": {}, "tty": true}], "enableServiceLinks": false}),
        ),
        (
            "texts",
            json!({"name": "a", "image": "", "workingDir": ""}),
            json!({"runtimeClassName": ""}),
            json!({"containers": [{"name": "a", "resources": {}}], "runtimeClassName": ""}),
        ),
        (
            "lists",
            json!({"name": "a", "args": [], "env": [{"name": "A", "value": ""}]}),
            json!({"volumes": [], "nodeSelector": {}, "securityContext": {}}),
            json!({"containers": [{"env": [{"name": "A"}], "name": "a", "resources": {}}], "securityContext": {}}),
        ),
        // What nobody knows goes too.
        (
            "unknown",
            json!({"name": "a", "newThing": 1}),
            json!({"hostnameOverride": "x", "nope": {}}),
            json!({"containers": [{"name": "a", "resources": {}}]}),
        ),
        // Amounts are written in one form.
        (
            "amounts",
            json!({"name": "a", "resources": {"limits": {"cpu": "0.5", "memory": 1024}}}),
            json!({}),
            json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": "500m", "memory": "1024"}}}]}),
        ),
        // What is required is there also when it is not given.
        (
            "required",
            json!({"name": "a", "ports": [{}], "livenessProbe": {"grpc": {}, "httpGet": {"path": "/"}}}),
            json!({}),
            json!({"containers": [{"livenessProbe": {"grpc": {"port": 0, "service": null}, "httpGet": {"path": "/", "port": 0}}, "name": "a", "ports": [{"containerPort": 0}], "resources": {}}]}),
        ),
        (
            "divisor",
            json!({"name": "a", "env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}),
            json!({}),
            json!({"containers": [{"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"divisor": "0", "resource": "limits.cpu"}}}], "name": "a", "resources": {}}]}),
        ),
        // Numbers pass through a float.
        (
            "numbers",
            json!({"name": "a"}),
            json!({"terminationGracePeriodSeconds": 0, "priority": 9_007_199_254_740_993_i64}),
            json!({"containers": [{"name": "a", "resources": {}}], "priority": 9_007_199_254_740_992_i64, "terminationGracePeriodSeconds": 0}),
        ),
    ] {
        assert_eq!(written(container, spec), expected, "{name}");
    }
    assert_eq!(
        data(&json!({})),
        r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null},"spec":{"containers":null}}}}"#
    );
}

#[test]
fn equal_is_what_says_the_same() {
    let plain = data(&json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x"}]}}));
    let other = r#"{"spec": {"template": {"spec": {"containers": [{"name": "x", "args": []}]}, "metadata": {"labels": {"a": "b"}, "annotations": {}}}}}"#;
    assert!(is_same_data(&plain, &plain) && is_same_data(&plain, other));
    assert!(!is_same_data(
        &plain,
        &data(&json!({"spec": {"containers": [{"name": "y"}]}}))
    ));
    for bad in ["", "null", "{}", "[1]", r#"{"spec":{}}"#] {
        assert!(!is_same_data(&plain, bad), "{bad}");
    }
    // "false" is not "nothing said" where the difference counts.
    let links = |value: Value| data(&json!({"spec": {"enableServiceLinks": value}}));
    assert!(!is_same_data(&links(json!(false)), &links(json!(null))));
}

#[test]
fn names_and_hashes_mean_the_same_revision() {
    assert_eq!(
        (short("demo-7c9f8"), short("7c9f8"), short("a-b-c")),
        ("7c9f8", "7c9f8", "c")
    );
    assert!(
        is_same("demo-7c9f8", "7c9f8") && is_same("demo-7c9f8", "other-7c9f8") && !is_same("demo-7c9f8", "demo-7c9f9")
    );
    assert_eq!(name(&"a".repeat(250), "x").len(), 225);
    let at = |label: &str| pod(&json!({"metadata": {"labels": {"controller-revision-hash": label}}}));
    assert!(is_at(&at("7c9f8"), "demo-7c9f8") && !is_at(&at(""), "") && !is_at(&pod(&json!({})), ""));
}

fn pod(value: &Value) -> Pod {
    serde_json::from_value(value.clone()).unwrap()
}

fn owner() -> Owner {
    Owner {
        api_version: "apps.kruise.io/v1beta1".into(),
        kind: "CloneSet".into(),
        name: "demo".into(),
        uid: "u-1".into(),
    }
}

fn candidate(image: &str) -> Candidate {
    let template = Raw::from_value(
        &json!({"metadata": {"labels": {"app": "demo"}}, "spec": {"containers": [{"name": "main", "image": image}]}}),
    );
    Candidate::of(&Workload {
        owner: &owner(),
        namespace: "ns",
        annotations: Some(&BTreeMap::from([("note".to_owned(), "x".to_owned())])),
        template: &template,
        claims: Some(&Raw::default()),
    })
}

fn stored(image: &str, number: i64, collisions: i32, claims: Option<&str>) -> ControllerRevision {
    let Choice::Create { name, object, .. } = choose(&candidate(image), &[], collisions) else {
        panic!("nothing is known")
    };
    let mut object = object;
    object["metadata"]["name"] = json!(name);
    object["metadata"]["resourceVersion"] = json!("77");
    object["metadata"]["annotations"]["kruise.io/cloneset-volumeclaimtemplate-hash"] = json!(claims);
    if claims.is_none() {
        object["metadata"].as_object_mut().unwrap().remove("annotations");
    }
    object["revision"] = json!(number);
    serde_json::from_value(object).unwrap()
}

#[test]
fn given_no_revision_then_one_is_made_with_everything_that_belongs_to_it() {
    let Choice::Create {
        name,
        collisions,
        object,
    } = choose(&candidate("a:1"), &[], 0)
    else {
        panic!("nothing is known")
    };
    let hash = short(&name);
    assert_eq!(collisions, 0);
    assert_eq!(
        object,
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": {
                "name": name, "namespace": "ns",
                "labels": {"app": "demo", "controller.kubernetes.io/hash": hash},
                "annotations": {"note": "x", "kruise.io/cloneset-volumeclaimtemplate-hash": ""},
                "ownerReferences": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "demo", "uid": "u-1",
                    "controller": true, "blockOwnerDeletion": true}],
            },
            "data": {"spec": {"template": {"$patch": "replace", "metadata": {"creationTimestamp": null, "labels": {"app": "demo"}},
                "spec": {"containers": [{"image": "a:1", "name": "main", "resources": {}}]}}}},
            "revision": 1,
        })
    );
}

#[test]
fn given_a_rollback_then_the_old_revision_gets_the_highest_number_and_none_is_made() {
    let (one, two) = (stored("a:1", 1, 0, Some("")), stored("a:2", 5, 0, Some("")));
    assert_eq!(choose(&candidate("a:2"), &[&one, &two], 0), Choice::Use(&two));
    let patch = json!({"revision": 6});
    assert_eq!(
        choose(&candidate("a:1"), &[&one, &two], 0),
        Choice::Renumber { revision: &one, patch }
    );
    let old = stored("a:1", 1, 0, None);
    let Choice::Renumber { patch, .. } = choose(&candidate("a:1"), &[&old, &two], 0) else {
        panic!("it is known")
    };
    assert_eq!(
        patch["metadata"]["annotations"],
        json!({"kruise.io/cloneset-volumeclaimtemplate-hash": ""})
    );
}

#[test]
fn given_a_taken_name_then_another_is_chosen_or_the_object_is_used() {
    let candidate = candidate("a:1");
    let Choice::Create { name: wanted, .. } = choose(&candidate, &[], 3) else {
        panic!("nothing is known")
    };
    let mut other =
        serde_json::to_value(json!({"metadata": {"name": wanted}, "revision": 1, "data": {"spec": {}}})).unwrap();
    let taken: ControllerRevision = serde_json::from_value(other.clone()).unwrap();
    let Choice::Create { name, collisions, .. } = choose(&candidate, &[&taken], 3) else {
        panic!("it has other data")
    };
    assert_eq!(collisions, 4);
    assert_ne!(name, wanted);
    assert_eq!(name_taken(&candidate, &taken), NameTaken::Collision);
    other["data"] = serde_json::from_str(candidate.data()).unwrap();
    let ours: ControllerRevision = serde_json::from_value(other).unwrap();
    assert_eq!(name_taken(&candidate, &ours), NameTaken::Use);
}

#[test]
fn given_revisions_of_others_then_only_ours_and_orphans_count_sorted_by_number() {
    let revision = |name: &str, number: i64, owner: Option<&str>, app: &str| -> ControllerRevision {
        let owners = owner
            .map(|uid| json!([{"uid": uid, "controller": true, "kind": "CloneSet", "apiVersion": "x", "name": "y"}]));
        serde_json::from_value(
            json!({"metadata": {"name": name, "labels": {"app": app}, "ownerReferences": owners}, "revision": number}),
        )
        .unwrap()
    };
    let all = [
        revision("c", 2, Some("u-1"), "demo"),
        revision("b", 1, None, "demo"),
        revision("a", 2, Some("u-1"), "demo"),
        revision("foreign", 3, Some("u-2"), "demo"),
        revision("unselected", 3, Some("u-1"), "other"),
    ];
    let selector = serde_json::from_value(json!({"matchLabels": {"app": "demo"}})).unwrap();
    let ours = belonging(&all, &selector, &"u-1".into());
    let names: Vec<_> = ours.iter().map(|revision| revision.name()).collect();
    assert_eq!(names, ["b", "a", "c"]);
    assert_eq!(find(&ours, "c").unwrap().name(), "c");
    assert!(find(&ours, "foreign").is_none());
}

#[test]
fn given_orphans_then_a_kind_that_adopts_becomes_their_owner() {
    let orphan = |name: &str| json!({"metadata": {"name": name, "resourceVersion": "7"}, "revision": 1});
    let own = json!({"metadata": {"name": "own", "ownerReferences": [owner().reference()]}, "revision": 2});
    let mut going = orphan("going");
    going["metadata"]["deletionTimestamp"] = json!("2024-05-01T10:00:00Z");
    let seen: Vec<Arc<ControllerRevision>> = [orphan("lost"), going, own]
        .into_iter()
        .map(|value| Arc::new(serde_json::from_value(value).unwrap()))
        .collect();
    let history = History {
        seen: &seen,
        selector: &serde_json::from_value(json!({})).unwrap(),
        current: "",
        collisions: 0,
    };
    let template = Raw::from_value(&json!({"spec": {}}));
    let workload = Workload {
        owner: &owner(),
        namespace: "ns",
        annotations: None,
        template: &template,
        claims: None,
    };
    let mut plan = Plan::default();
    Revisions::of(&workload, &history).unwrap().adopt(&owner(), &mut plan);
    let adopted: Vec<&str> = plan.writes().map(|action| &*action.object().name).collect();
    assert_eq!(adopted, ["lost"]);
}

#[test]
fn given_more_than_the_limit_then_the_oldest_that_nobody_uses_go() {
    let revision = |number: i64| -> ControllerRevision {
        serde_json::from_value(json!({"metadata": {"name": format!("demo-h{number}")}, "revision": number})).unwrap()
    };
    let all: Vec<_> = (1..=12).map(revision).collect();
    let all: Vec<_> = all.iter().collect();
    for (limit, live, expected) in [
        (2, vec!["demo-h12", "h1", ""], vec![2, 3, 4, 5, 6, 7, 8, 9]),
        (10, vec!["demo-h12"], vec![1]),
        (20, vec![], vec![]),
        (-1, vec!["demo-h12"], (1..=11).collect()),
    ] {
        let gone: Vec<_> = superfluous(&all, live, limit)
            .iter()
            .map(|revision| revision.revision)
            .collect();
        assert_eq!(gone, expected, "{limit}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 4.0)),
        "[a-z<>&\u{2028}]{0,6}".prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "metadata",
        "spec",
        "containers",
        "name",
        "image",
        "env",
        "resources",
        "limits",
        "cpu",
        "volumes",
        "ports",
        "labels",
        "x",
    ]);
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(keys.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn given_any_template_then_writing_it_twice_changes_nothing(value in any_json()) {
        let once = data(&value);
        let read: Value = serde_json::from_str(&once).unwrap();
        prop_assert_eq!(&data(&template(&read).unwrap()), &once);
        let _ = claims_hash(&Value::Array(vec![value]));
    }
}
