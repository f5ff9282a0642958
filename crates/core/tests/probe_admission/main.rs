//! What happens to PodProbeMarkers on their way in, compared with what the original did.

use std::collections::BTreeSet;

use kruise_api::gates::Gates;
use kruise_api::nodepodprobe::NodePodProbeSpec;
use kruise_core::admission::{Admit, Env, Lookups, Operation, Version};
use kruise_core::podprobemarker::{Submitted, validate};
use kruise_core::shared::tree::Object;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

/// One recorded request. Codes and messages are compared where there is an API server.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Verdict {
    name: String,
    object: Value,
    old: Option<Value>,
    /// What was wrong.
    #[serde(default)]
    fields: BTreeSet<String>,
    /// It was refused by the schema.
    #[serde(default)]
    api_server: bool,
}

fn env(operation: Operation) -> Env {
    Env {
        operation,
        version: Version::V1alpha1,
        gates: Gates::default(),
        now: "2026-11-15T08:12:35Z".parse().unwrap(),
    }
}

fn read(object: &Value) -> Submitted {
    Submitted::read(object.to_string().as_bytes(), Version::V1alpha1).unwrap()
}

/// What is said of an object, and the fields that it is said of.
fn judged(object: &Value, old: Option<&Value>) -> (Option<String>, BTreeSet<String>) {
    let new = read(object);
    let old = old.map(read);
    let mut errors = validate::validate(&new).0;
    errors.extend(old.as_ref().and_then(|old| validate::forbidden(&new, old)));
    let verdict = match &old {
        Some(old) => new.validate_update(old, &env(Operation::Update), &Lookups::default()),
        None => new.validate(&env(Operation::Create), &Lookups::default()),
    };
    (
        verdict.err().map(|refusal| refusal.message),
        errors.into_iter().map(|error| error.path).collect(),
    )
}

#[test]
fn given_what_users_sent_then_the_same_is_refused_for_the_same_fields() {
    let cases: Vec<Verdict> =
        serde_json::from_str(include_str!("../../fixtures/probes/podprobemarker-verdicts.json")).unwrap();
    assert_eq!(cases.len(), 55);
    for case in cases {
        let (message, mut fields) = judged(&case.object, case.old.as_ref());
        assert_eq!(message.is_none(), fields.is_empty(), "{}", case.name);
        if case.api_server {
            continue;
        }
        let mut expected = case.fields;
        // Its expressions say already what is wrong with a selector.
        expected.remove("spec.selector.selector");
        if case.name == "several-errors" {
            // The original stops at the first.
            fields.retain(|field| expected.contains(field));
        }
        assert_eq!(fields, expected, "{}: {message:?}", case.name);
    }
}

#[test]
fn given_what_users_wrote_then_the_same_is_stored() {
    #[derive(Deserialize)]
    struct Case {
        name: String,
        given: Value,
        then: Value,
    }
    let cases: Vec<Case> = serde_json::from_str(include_str!("../../fixtures/probes/defaults.json")).unwrap();
    assert_eq!(cases.len(), 4);
    for case in cases {
        if case.name.starts_with("nodepodprobe") {
            let spec: NodePodProbeSpec = serde_json::from_value(case.then.clone()).unwrap();
            assert_eq!(serde_json::to_value(spec).unwrap(), case.then, "{}", case.name);
            continue;
        }
        let object = json!({"metadata": {"name": "m"}, "spec": case.given});
        let mut object: Object = object.as_object().unwrap().clone();
        <Submitted as Admit>::default(&mut object, None, &env(Operation::Create), &Lookups::default()).unwrap();
        assert_eq!(object["spec"], case.then, "{}", case.name);
        assert_eq!(judged(&Value::Object(object), None).0, None, "{}", case.name);
    }
}

/// A marker whose only probe has these fields.
fn with(probe: &Value) -> Value {
    let mut full = json!({"name": "idle", "containerName": "main", "podConditionType": "x/idle", "probe": {"exec": {"command": ["a"]}}});
    full.as_object_mut().unwrap().extend(probe.as_object().unwrap().clone());
    json!({"metadata": {"name": "m"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "probes": [full]}})
}

#[test]
fn given_rules_that_no_recording_has_then_they_hold() {
    let http = |fields: Value| {
        let mut get = json!({"path": "/", "port": 80, "scheme": "HTTP"});
        get.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"probe": {"httpGet": get}})
    };
    for (probe, field) in [
        (json!({"name": "Initialized"}), Some("spec.probes")),
        (json!({"name": "a#"}), Some("spec.probes")),
        (
            json!({"probe": {"tcpSocket": {"port": 0}}}),
            Some("spec.probe.tcpSocket.port"),
        ),
        (json!({"probe": {"tcpSocket": {"port": "web"}}}), None),
        (
            json!({"probe": {"tcpSocket": {"port": "80"}}}),
            Some("spec.probe.tcpSocket.port"),
        ),
        (
            json!({"probe": {"tcpSocket": {"port": "a-port-with-too-long-a-name"}}}),
            Some("spec.probe.tcpSocket.port"),
        ),
        (
            json!({"probe": {"tcpSocket": {"port": "-a--b-"}}}),
            Some("spec.probe.tcpSocket.port"),
        ),
        (
            json!({"probe": {"exec": {"command": []}}}),
            Some("spec.probe.exec.command"),
        ),
        (
            http(json!({"scheme": "HTTPS", "path": "/a?b=%zz", "httpHeaders": [{"name": "X-A", "value": ""}]})),
            None,
        ),
        (http(json!({"path": "/%zz"})), Some("spec.probe.httpGet.path")),
        (http(json!({"path": "/%2"})), Some("spec.probe.httpGet.path")),
        (http(json!({"path": "/a\nb"})), Some("spec.probe.httpGet.path")),
        (http(json!({"path": ":x"})), Some("spec.probe.httpGet.path")),
        (
            http(json!({"httpHeaders": [{"name": "", "value": ""}]})),
            Some("spec.probe.httpGet.httpHeaders"),
        ),
        (http(json!({"scheme": "http"})), Some("spec.probe.httpGet.scheme")),
        (
            json!({"markerPolicy": [{"state": "Failed"}]}),
            Some("spec.markerPolicy"),
        ),
        (
            json!({"markerPolicy": [{"state": "Failed", "labels": {"a b": "c"}}]}),
            Some("spec.markerPolicy.labels"),
        ),
        (
            json!({"markerPolicy": [{"state": "Failed", "annotations": {"a": "c".repeat(300_000)}}]}),
            Some("spec.markerPolicy.annotations"),
        ),
        (
            json!({"podConditionType": "", "markerPolicy": [{"state": "Failed", "labels": {"a": "c"}}]}),
            None,
        ),
    ] {
        let (message, fields) = judged(&with(&probe), None);
        let expected: BTreeSet<String> = field.map(str::to_owned).into_iter().collect();
        assert_eq!(fields, expected, "{message:?}");
    }
    let mut absent = with(&json!({}));
    absent["spec"].as_object_mut().unwrap().remove("selector");
    assert_eq!(judged(&absent, None).1, BTreeSet::from(["spec.selector".to_owned()]));
    let old = with(&json!({}));
    let changed = with(&json!({"probe": {"tcpSocket": {"port": 1}}}));
    assert_eq!(judged(&changed, Some(&old)).0, None);
}

proptest! {
    #[test]
    fn given_anything_then_it_is_judged_and_the_same_each_time(
        name in "[a-zA-Z#\\-. ]{0,20}", type_ in ".{0,20}", path in ".{0,20}", port in any::<i32>(), text in ".{0,20}",
        key in ".{0,20}", value in ".{0,70}", state in "(Succeeded|Failed|Unknown||.)", period in any::<i32>(),
    ) {
        let probe = json!({
            "name": name, "podConditionType": type_,
            "probe": {"httpGet": {"path": path, "port": text, "host": text, "scheme": text, "httpHeaders": [{"name": key, "value": value}]},
                "tcpSocket": {"port": port}, "periodSeconds": period},
            "markerPolicy": [{"state": state, "labels": {key.clone(): value.clone()}, "annotations": {key: value}}],
        });
        let object = with(&probe);
        prop_assert_eq!(judged(&object, None), judged(&object, Some(&object)));
    }
}
