//! Rules of which there is no recording.

use super::fixture::{VERSIONS, gates, judged, recorded};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::gates::{Gate, Gates};
use kruise_api::raw::Raw;
use kruise_core::admission::{Lookups, NamedPod, Version};
use kruise_core::shared::validate::deletion_protection::refusal;
use kruise_core::shared::validate::pod_template::with_claims;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn object(version: Version, change: &Value) -> Value {
    let mut object = recorded(version).object;
    json_patch::merge(&mut object, change);
    object
}

fn errors_of(version: Version, change: &Value, lookups: &Lookups) -> String {
    judged(&object(version, change), None, version, lookups)
        .unwrap()
        .to_string()
}

#[test]
fn given_a_policy_nobody_knows_then_it_is_refused() {
    let change = json!({"spec": {"updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "Sometimes"}}}});
    assert_eq!(
        errors_of(Version::V1beta1, &change, &Lookups::default()),
        "spec.updateStrategy.rollingUpdate.podUpdatePolicy: Invalid value: \"Sometimes\": \
         must be 'ReCreate', 'InPlaceIfPossible' or 'InPlaceOnly'"
    );
}

#[test]
fn given_a_percentage_without_a_number_then_it_is_told_what_is_wrong_with_it() {
    let change = json!({"spec": {"updateStrategy": {"partition": "x%"}}});
    let text = errors_of(Version::V1alpha1, &change, &Lookups::default());
    assert!(
        text.starts_with("spec.updateStrategy.partition: Invalid value: \"x%\": "),
        "{text}"
    );
    assert!(text.contains("there is no number before the %"), "{text}");
}

#[test]
fn given_parallelism_of_pulls_then_only_whole_numbers_from_zero_up_are_allowed() {
    for (value, allowed) in [
        (json!(0), true),
        (json!("7"), true),
        (json!("-1"), false),
        (json!("20%"), false),
        (json!("99999999999999999999"), false),
    ] {
        let change = json!({"spec": {"updateStrategy": {"rollingUpdate": {
            "podUpdatePolicy": "InPlaceIfPossible", "inPlaceUpdateStrategy": {"imagePreDownloadParallelism": value},
        }}}});
        let text = errors_of(Version::V1beta1, &change, &Lookups::default());
        assert_eq!(text.is_empty(), allowed, "{value}: {text}");
    }
}

#[test]
fn given_a_pod_that_is_being_deleted_or_cannot_be_looked_up_then_naming_it_is_refused() {
    let recorded = recorded(Version::V1alpha1);
    let stored = &recorded.stored["web"];
    let mut object = stored.clone();
    object["spec"]["scaleStrategy"] = json!({"podsToDelete": ["web-a"]});
    let text = |pod: Option<NamedPod>, object: &Value, stored: &Value| {
        let pods: BTreeMap<_, _> = pod.into_iter().map(|pod| ("web-a".to_owned(), pod)).collect();
        let lookups = Lookups {
            pods,
            ..Lookups::default()
        };
        judged(object, Some(stored), Version::V1alpha1, &lookups)
            .unwrap()
            .to_string()
    };
    let path = "spec.scaleStrategy.podsToDelete: Invalid value: \"web-a\": find pod web-a";
    let uid = stored["metadata"]["uid"].as_str().map(str::to_owned);
    let found = |controller: Option<String>, is_being_deleted| NamedPod::Found {
        controller,
        is_being_deleted,
    };
    for (pod, expected) in [
        (Some(found(uid.clone(), false)), String::new()),
        (
            Some(found(uid.clone(), true)),
            format!("{path} failed: it is being deleted already"),
        ),
        (Some(found(None, true)), format!("{path} owner is not this CloneSet")),
        (
            Some(NamedPod::Unknown("no answer".into())),
            format!("{path} failed: no answer"),
        ),
        (None, format!("{path} failed: it was not looked up")),
    ] {
        assert_eq!(text(pod, &object, stored), expected);
    }
    // What was named before is not looked at again: the Pod may be gone by now.
    let mut before = stored.clone();
    before["spec"]["scaleStrategy"] = object["spec"]["scaleStrategy"].clone();
    assert_eq!(text(None, &object, &before), "");
}

#[test]
fn given_very_many_named_pods_then_it_takes_no_time_and_the_answer_stays_short() {
    let recorded = recorded(Version::V1alpha1);
    let (mut old, mut new) = (recorded.stored["web"].clone(), recorded.stored["web"].clone());
    // So many that comparing each with each would take minutes.
    let names =
        |from: usize, to: usize| -> Vec<String> { (from..to).map(|number| format!("web-{number:06}")).collect() };
    old["spec"]["scaleStrategy"] = json!({"podsToDelete": names(0, 100_000)});
    new["spec"]["scaleStrategy"] = json!({"podsToDelete": names(500, 100_500)});
    let errors = judged(&new, Some(&old), Version::V1alpha1, &Lookups::default()).unwrap();
    assert_eq!(errors.0.len(), 21);
    let last = errors.0.last().unwrap().to_string();
    assert_eq!(
        last,
        "spec.scaleStrategy.podsToDelete: Invalid value: \"web-100020\": and 480 more Pods"
    );
}

#[test]
fn given_claims_then_the_template_is_judged_with_a_volume_for_each() {
    let names = |volumes: &Value, claims: &Value| {
        let template = Raw::from_value(&json!({"spec": {"volumes": volumes}}));
        let judged = with_claims(&template, &Raw::from_value(claims));
        judged["spec"]["volumes"].clone()
    };
    let claim = |name: &str| json!({"metadata": {"name": name}, "spec": {}});
    let volume = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    let own = |name: &str| json!({"name": name, "emptyDir": {}});
    assert_eq!(names(&Value::Null, &Value::Null), Value::Null);
    assert_eq!(names(&Value::Null, &json!([claim("a")])), json!([volume("a")]));
    assert_eq!(
        names(
            &json!([own("a"), own("b")]),
            &json!([claim("c"), claim("a"), claim("c")])
        ),
        json!([volume("a"), own("b"), volume("c"), volume("c")])
    );
    assert_eq!(names(&json!("x"), &json!([claim("a")])), json!("x"));
    assert_eq!(
        names(&json!([]), &json!([1, {"metadata": {}}])),
        json!([volume(""), volume("")])
    );
}

#[test]
fn given_no_protection_gate_or_a_deletion_before_then_everything_may_be_deleted() {
    let mut metadata: ObjectMeta =
        serde_json::from_value(json!({"labels": {"policy.kruise.io/delete-protection": "Always"}})).unwrap();
    assert_eq!(refusal(&metadata, 3, Gates::default()), None);
    assert!(refusal(&metadata, 3, gates()).is_some());
    assert_eq!(refusal(&ObjectMeta::default(), 3, gates()), None);
    metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(refusal(&metadata, 3, gates()), None, "it is on its way already");
    assert!(!Gates::default().enabled(Gate::ResourcesDeletionProtection));
}

#[test]
fn given_a_list_that_is_only_written_otherwise_then_the_selector_is_the_same() {
    for version in VERSIONS {
        let old = object(version, &json!({"spec": {"selector": {"matchExpressions": []}}}));
        let new = object(version, &json!({"spec": {"selector": {"matchExpressions": null}}}));
        let errors = judged(&new, Some(&old), version, &Lookups::default()).unwrap();
        assert_eq!(errors.to_string(), "");
    }
}
