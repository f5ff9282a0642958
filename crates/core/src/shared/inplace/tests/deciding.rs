//! Which changes are possible in place.

use super::*;
use proptest::prelude::*;

fn why_not(old: &Value, new: &Value, gates: Gates) -> String {
    let options = Options { gates, ..options() };
    match decide(&a_revision("o", old), &a_revision("n", new), &options) {
        Ok(change) => format!("{change:?}"),
        Err(why_not) => why_not.to_string(),
    }
}

fn template(container: &Value) -> Value {
    containers(&json!([container]))
}

#[test]
fn given_a_change_that_a_running_pod_cannot_take_then_the_field_is_named() {
    let base = json!({"name": "a", "image": "a:1", "resources": {"limits": {"cpu": "1"}}});
    let with = |path: &str, value: Value| {
        let mut container = base.clone();
        container[path] = value;
        template(&container)
    };
    let path = "spec.template.spec.containers[0]";
    let scaling = gates().with(Gate::InPlaceWorkloadVerticalScaling, true);
    for (new, gates, expected) in [
        (
            with("env", json!([{"name": "A"}])),
            gates(),
            format!("{path}.env: cannot be changed in place"),
        ),
        (
            with("name", json!("b")),
            gates(),
            format!("{path}.name: cannot be changed in place"),
        ),
        (
            with("image", json!("")),
            gates(),
            format!("{path}.image: an image can be replaced in place, not added or removed"),
        ),
        (
            with("resources", json!({"limits": {"cpu": "2"}})),
            gates(),
            format!(
                "{path}.resources.limits.cpu: resources are changed in place only with feature gate InPlaceWorkloadVerticalScaling"
            ),
        ),
        (
            with("resources", json!({"limits": {"cpu": "1", "memory": "1Gi"}})),
            scaling,
            format!("{path}.resources.limits.memory: an amount can be replaced in place, not added or removed"),
        ),
        (
            with("resources", json!({})),
            scaling,
            format!("{path}.resources.limits: cannot be changed in place"),
        ),
        (
            with("resources", json!({"limits": {"cpu": "1"}, "claims": [{"name": "x"}]})),
            scaling,
            format!("{path}.resources.claims: cannot be changed in place"),
        ),
        (
            with("resources", json!({"limits": {"cpu": "lots"}})),
            scaling,
            format!("{path}.resources.limits.cpu: not a quantity"),
        ),
        (
            containers(&json!([base, {"name": "b"}])),
            gates(),
            "spec.template.spec.containers[1]: cannot be changed in place".to_owned(),
        ),
    ] {
        assert_eq!(why_not(&template(&base), &new, gates), expected);
    }
    let mut init = template(&base);
    init["spec"]["initContainers"] = json!([{"name": "i", "image": "i:1"}]);
    let mut other = init.clone();
    other["spec"]["initContainers"][0]["image"] = json!("i:2");
    assert_eq!(
        why_not(&init, &other, gates()),
        "spec.template.spec.initContainers[0].image: cannot be changed in place"
    );
    let two = containers(&json!([{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]));
    let turned = containers(&json!([{"name": "b", "image": "x"}, {"name": "a", "image": "x"}]));
    assert!(why_not(&two, &turned, gates()).contains("containers[0].name"));
}

#[test]
fn given_new_images_and_metadata_then_the_change_has_them() {
    let old = json!({"metadata": {"labels": {"app": "demo", "gone": "1"}, "finalizers": ["x/1"]}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}});
    let new = json!({"metadata": {"labels": {"app": "demo"}, "annotations": {"note": "n"}, "finalizers": ["x/2"]}, "spec": {"containers": [{"name": "a", "image": "a:2"}]}});
    let change = change(&old, &new);
    assert_eq!(change.revision, "demo-new");
    assert_eq!(json!(change.images), json!({"a": "a:2"}));
    assert_eq!(
        Value::Object(change.metadata),
        json!({
            "labels": {"gone": null}, "annotations": {"note": "n"},
            "finalizers": ["x/2"], "$setElementOrder/finalizers": ["x/2"], "$deleteFromPrimitiveList/finalizers": ["x/1"],
        })
    );
    assert!(change.referenced.is_empty() && change.resources.is_empty());
}

#[test]
fn given_no_annotations_any_more_then_only_those_of_the_template_go() {
    let old = json!({"metadata": {"annotations": {"a": "1", "b": "2"}}, "spec": {"containers": []}});
    for new in [
        json!({"metadata": {}}),
        json!({"metadata": {"annotations": null}}),
        json!({"metadata": {"annotations": {}}}),
    ] {
        let mut new = new;
        new["spec"] = old["spec"].clone();
        assert_eq!(
            Value::Object(change(&old, &new).metadata),
            json!({"annotations": {"a": null, "b": null}})
        );
    }
}

fn reads(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
}

#[test]
fn given_environment_from_metadata_then_the_changed_keys_go_with_the_containers_that_read_them() {
    let spec = json!({"containers": [
        {"name": "a", "image": "x", "env": [reads("V", "metadata.labels['v']"), reads("N", "metadata.annotations['x/n']")]},
        {"name": "b", "image": "x", "env": [reads("V", "metadata.labels['v']"), reads("P", "metadata.name")]},
        {"name": "c", "image": "x", "env": [reads("SIDECARSET_VERSION", "metadata.labels['v']"),
            {"name": "L", "value": "literal", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['v']"}}}]},
    ]});
    let old = json!({"metadata": {"labels": {"v": "1", "w": "1", "r": "1"}, "annotations": {"y": "1"}}, "spec": spec});
    let new =
        json!({"metadata": {"labels": {"v": "2", "w": "2"}, "annotations": {"y": "1", "x/n": "2"}}, "spec": spec});
    let found = change(&old, &new);
    assert_eq!(
        json!(found.referenced),
        json!({
            "a": {"creationTimestamp": null, "labels": {"v": "2"}, "annotations": {"x/n": "2"}},
            "b": {"creationTimestamp": null, "labels": {"v": "2"}},
        })
    );
    assert_eq!(
        Value::Object(found.metadata.clone()),
        json!({"labels": {"w": "2", "r": null}})
    );
    assert!(found.updates_env());

    // Without the gate all of it is plain metadata.
    let off = Options {
        gates: gates().with(Gate::InPlaceUpdateEnvFromMetadata, false),
        ..options()
    };
    let plain = decide(&a_revision("o", &old), &a_revision("n", &new), &off).unwrap();
    assert!(plain.referenced.is_empty());
    assert_eq!(plain.metadata["labels"], json!({"v": "2", "w": "2", "r": null}));

    // A key that goes, or comes with the whole map, is plain metadata too.
    let bare = json!({"metadata": {"labels": {"w": "1"}}, "spec": spec});
    assert!(change(&old, &bare).referenced.is_empty());
    let whole = json!({"metadata": {"labels": {"w": "1"}, "annotations": {"x/n": "1"}}, "spec": spec});
    assert!(change(&bare, &whole).referenced.is_empty());
}

#[test]
fn given_a_revision_that_only_looks_different_then_nothing_changes() {
    let plain = a_revision("o", &template(&json!({"name": "a", "image": "a:1"})));
    let wordy = json!({"metadata": {"labels": {"app": "demo"}, "annotations": {}}, "spec": {"containers": [
        {"name": "a", "image": "a:1", "args": [], "tty": false}], "hostNetwork": false}});
    let wordy =
        serde_json::from_value(json!({"metadata": {"name": "n"}, "data": {"spec": {"template": wordy}}})).unwrap();
    assert!(decide(&plain, &wordy, &options()).unwrap().is_empty());
}

#[test]
fn given_no_template_then_it_is_not_possible() {
    let good = a_revision("a", &json!({}));
    for bad in [json!(null), json!({}), json!({"spec": {"template": 1}}), json!([])] {
        let bad = serde_json::from_value(json!({"metadata": {"name": "b"}, "data": bad})).unwrap();
        for (old, new) in [(&good, &bad), (&bad, &good)] {
            assert_eq!(decide(old, new, &options()).unwrap_err().reason, Reason::NoTemplate);
        }
    }
}

#[test]
fn given_other_claims_then_the_gate_decides_unless_the_policy_ignores_it() {
    let with_hash = |hash: Option<&str>| {
        let mut revision = a_revision("r", &json!({}));
        let annotations = hash.map(|hash| json!({"kruise.io/cloneset-volumeclaimtemplate-hash": hash}));
        revision.metadata = serde_json::from_value(json!({"name": "r", "annotations": annotations})).unwrap();
        revision
    };
    let on = gates().with(Gate::RecreatePodWhenChangeVCTInCloneSetGate, true);
    for (old, new, gates, ignore_claims, possible) in [
        (Some("1"), Some("2"), on, false, false),
        (Some("1"), Some("2"), on, true, true),
        (Some("1"), Some("2"), gates(), false, true),
        (Some("1"), Some("1"), on, false, true),
        (None, Some("2"), on, false, true),
        (Some(""), Some("2"), on, false, false),
    ] {
        let options = Options {
            gates,
            ignore_claims,
            grace_seconds: 0,
        };
        assert_eq!(
            decide(&with_hash(old), &with_hash(new), &options).is_ok(),
            possible,
            "{old:?} {new:?}"
        );
    }
}

#[test]
fn given_resources_that_change_the_class_of_service_then_it_is_not_possible() {
    let on = gates().with(Gate::InPlaceWorkloadVerticalScaling, true);
    let options = Options { gates: on, ..options() };
    let both = |limits: &str, requests: &str| {
        template(&json!({"name": "a", "image": "x", "resources": {
            "limits": {"cpu": limits, "memory": "1Gi"}, "requests": {"cpu": requests, "memory": "1Gi"}}}))
    };
    let decided = |old: &Value, new: &Value| decide(&a_revision("o", old), &a_revision("n", new), &options);
    assert_eq!(
        decided(&both("1", "1"), &both("2", "1")).unwrap_err().reason,
        Reason::QosChanges
    );
    let change = decided(&both("1", "1"), &both("2", "2")).unwrap();
    assert_eq!(
        json!(change.resources),
        json!({"a": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}})
    );
    assert!(change.is_vertical_only());
}

fn any_template() -> impl Strategy<Value = Value> {
    let text = prop::sample::select(vec!["", "a", "b", "x/y", "1"]);
    let map = || prop::collection::btree_map(text.clone(), text.clone(), 0..3);
    let container = (text.clone(), text.clone(), map()).prop_map(|(name, image, limits)| {
        json!({"name": name, "image": image, "resources": {"limits": limits}, "env": [reads("A", "metadata.labels['a']")]})
    });
    (map(), map(), prop::collection::vec(container, 0..4)).prop_map(|(labels, annotations, containers)| {
        json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": {"containers": containers}})
    })
}

proptest! {
    #[test]
    fn given_the_same_template_then_nothing_changes(template in any_template()) {
        prop_assert!(change(&template, &template).is_empty());
    }

    #[test]
    fn given_any_two_templates_then_no_panic_and_the_change_waits_as_it_was(old in any_template(), new in any_template()) {
        let on = gates().with(Gate::InPlaceWorkloadVerticalScaling, true);
        if let Ok(change) = decide(&a_revision("o", &old), &a_revision("n", &new), &Options { gates: on, ..options() }) {
            let waiting: Grace = serde_json::from_str(&Grace::of(&change).to_json()).unwrap();
            prop_assert_eq!(waiting.change().unwrap(), change);
        }
    }
}
