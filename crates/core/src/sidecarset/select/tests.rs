use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn set(name: &str, spec: &Value) -> SidecarSet {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

fn applies(spec: &Value, labels: &Value, namespace: &str, namespace_labels: Option<&Value>) -> Result<(), NotApplied> {
    let look = |labels: &'static Value| move |key: &str| labels.get(key).and_then(Value::as_str);
    let labels: &'static Value = Box::leak(Box::new(labels.clone()));
    let namespace: &'static str = Box::leak(namespace.to_owned().into_boxed_str());
    let set = set("a", spec);
    match namespace_labels {
        Some(found) => {
            let found: &'static Value = Box::leak(Box::new(found.clone()));
            check(&set, namespace, look(labels), Some(&look(found)))
        }
        None => check(&set, namespace, look(labels), None),
    }
}

#[test]
fn given_a_pod_then_a_set_applies_by_its_selectors_and_when_it_is_not_paused() {
    let web = json!({"app": "web"});
    let selector = json!({"matchLabels": {"app": "web"}});
    let team = json!({"matchLabels": {"team": "infra"}});
    for (spec, namespace_labels, expected) in [
        (json!({"selector": selector}), None, Ok(())),
        (
            json!({"selector": {"matchLabels": {"app": "db"}}}),
            None,
            Err(NotApplied::Selector),
        ),
        (json!({"selector": {}}), None, Err(NotApplied::Selector)),
        (json!({}), None, Err(NotApplied::Selector)),
        (
            json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]}}),
            None,
            Err(NotApplied::Selector),
        ),
        (
            json!({"selector": selector, "injectionStrategy": {"paused": true}}),
            None,
            Err(NotApplied::Paused),
        ),
        (
            json!({"selector": selector, "namespaceSelector": team}),
            None,
            Err(NotApplied::NamespaceUnknown),
        ),
        (
            json!({"selector": selector, "namespaceSelector": team}),
            Some(json!({"team": "infra"})),
            Ok(()),
        ),
        (
            json!({"selector": selector, "namespaceSelector": team}),
            Some(json!({"team": "shop"})),
            Err(NotApplied::Namespace),
        ),
        // Its own name is known of every namespace.
        (
            json!({"selector": selector, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ns1"}}}),
            None,
            Ok(()),
        ),
        (
            json!({"selector": selector, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ns2"}}}),
            None,
            Err(NotApplied::Namespace),
        ),
    ] {
        let found = applies(&spec, &web, "ns1", namespace_labels.as_ref());
        assert_eq!(found, expected, "{spec}");
    }
}

#[test]
fn given_a_canary_that_applies_then_its_base_does_not_and_the_order_is_by_scope_and_name() {
    let canary = |name: &str, base: &str, marked: bool| {
        let mut set = set(name, &json!({}));
        let annotations = set.metadata.annotations.get_or_insert_default();
        if marked {
            annotations.insert("apps.kruise.io/sidecarset-canary".into(), "true".into());
        }
        annotations.insert("apps.kruise.io/sidecarset-base".into(), base.into());
        set
    };
    let pinned = set(
        "z",
        &json!({"namespaceSelector": {"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["ns1", "ns2"]}]}}),
    );
    let mut sets = vec![
        set("log", &json!({})),
        canary("next", "log", true),
        canary("self", "self", true),
        canary("half", "a", false),
        set("a", &json!({})),
        pinned,
    ];
    let replaced = settle(&mut sets);
    let names: Vec<_> = sets.iter().map(kruise_api::meta::Object::name).collect();
    assert_eq!(names, ["z", "a", "half", "next", "self"]);
    assert_eq!(replaced.len(), 1);
    assert_eq!(
        (replaced[0].0.name(), &replaced[0].1),
        ("log", &NotApplied::Canary("next".into()))
    );
}

fn revision(name: &str, set: &str, version: &str, number: i64) -> ControllerRevision {
    let labels = json!({"kruise.io/sidecarset-name": set, "apps.kruise.io/sidecarset-custom-version": version});
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "revision": number})).unwrap()
}

#[test]
fn given_a_named_revision_then_its_name_wins_and_of_a_custom_version_the_newest_is_found() {
    let all = [
        revision("a-1", "a", "v1", 1),
        revision("a-2", "a", "v1", 9),
        revision("b-1", "b", "v1", 12),
        revision("a-3", "a", "v2", 10),
    ];
    let find = |strategy: Value| {
        let set = set("a", &json!({"injectionStrategy": {"revision": strategy}}));
        let named = named_revision(&set)?;
        Some(find_revision("a", named, &all).map(|found| found.name().to_owned()))
    };
    assert_eq!(find(json!({"customVersion": "v1"})), Some(Some("a-2".into())));
    assert_eq!(
        find(json!({"customVersion": "v1", "revisionName": "b-1"})),
        Some(Some("b-1".into()))
    );
    assert_eq!(find(json!({"customVersion": "v3"})), Some(None));
    assert_eq!(find(json!({"customVersion": "", "revisionName": ""})), None);
    assert_eq!(find(json!({"policy": "Always"})), None);
}

#[test]
fn given_a_policy_then_the_pods_that_stay_behind_get_the_named_revision() {
    let gets = |update: Value, policy: &str, chance: u64| {
        let revision = json!({"revisionName": "a-1", "policy": policy});
        let set = set(
            "a",
            &json!({"updateStrategy": update, "injectionStrategy": {"revision": revision}}),
        );
        gets_named_revision(&set, |key| (key == "app").then_some("web"), chance)
    };
    let web = json!({"selector": {"matchLabels": {"app": "web"}}});
    let other = json!({"selector": {"matchLabels": {"app": "db"}}});
    assert!(gets(json!({}), "Always", 0) && gets(web.clone(), "Always", 0) && gets(other.clone(), "", 0));
    assert!(gets(json!({"paused": true, "partition": 0}), "Partial", 0));
    assert!(gets(other, "Partial", 0) && !gets(web, "Partial", 0));
    assert!(!gets(json!({}), "Partial", 0) && !gets(json!({"partition": 5}), "Partial", 0));
    assert!(gets(json!({"partition": "100%"}), "Partial", 99_999) && !gets(json!({"partition": "0%"}), "Partial", 0));
    assert!(!gets(json!({"partition": "x"}), "Partial", 0));
    let drawn = (0..100_000)
        .filter(|chance| gets(json!({"partition": "30%"}), "Partial", *chance))
        .count();
    assert_eq!(drawn, 30_000);
}

fn any_labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    proptest::collection::btree_map("[abc]", "[xy]?", 0..4)
}

fn any_selector() -> impl Strategy<Value = Value> {
    let term = (
        "[abc]",
        prop_oneof![
            Just("In"),
            Just("NotIn"),
            Just("Exists"),
            Just("DoesNotExist"),
            Just("Odd")
        ],
        proptest::collection::vec("[xy]?", 0..3),
    )
        .prop_map(|(key, operator, values)| match operator {
            "Exists" | "DoesNotExist" => json!({"key": key, "operator": operator}),
            _ => json!({"key": key, "operator": operator, "values": values}),
        });
    (any_labels(), proptest::collection::vec(term, 0..3))
        .prop_map(|(labels, terms)| json!({"matchLabels": labels, "matchExpressions": terms}))
}

proptest! {
    #[test]
    fn given_any_selector_then_the_index_finds_exactly_once_whatever_applies(
        selector in any_selector(), labels in any_labels(), pinned in proptest::option::of("ns[12]"),
    ) {
        let mut spec = json!({"selector": selector});
        if let Some(name) = pinned {
            spec["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
        }
        let set = set("a", &spec);
        let mut keys = Vec::new();
        index_keys(&set, &mut |key| keys.push(key.to_owned()));
        let mut found = 0;
        let pairs = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        lookup_keys("ns1", pairs, |key| found += keys.iter().filter(|each| *each == key).count());
        let applies = check(&set, "ns1", |key| labels.get(key).map(String::as_str), None).is_ok();
        prop_assert!(found <= 1);
        prop_assert!(found == 1 || !applies, "{spec} {labels:?} {keys:?}");
    }
}
