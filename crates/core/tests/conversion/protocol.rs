//! The `ConversionReview` protocol: recorded questions to the endpoint, and what must hold for any question.

use super::fixture::{KINDS, read, recordings};
use super::normal::normal;
use kruise_core::conversion::{BadReview, Reviewed, review};
use serde_json::{Value, json};

fn ask(question: &Value) -> Reviewed {
    review(question.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}: {question}"))
}

fn question(desired: &str, objects: &[Value]) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "u-1", "desiredAPIVersion": desired, "objects": objects},
    })
}

/// Recorded failures that we answer: a conversion error makes every list with the object unreadable.
const LENIENT: [&str; 2] = ["one-bad-object", "undecodable-spec"];

#[test]
fn recorded_questions_get_the_recorded_answers() {
    let cases: Vec<Value> = serde_json::from_str(&read("protocol")).unwrap();
    assert_eq!(cases.len(), 12);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        if let Some(body) = case["body"].as_str() {
            assert_eq!(case["httpStatus"], 400, "{name}");
            assert!(review(body.as_bytes()).is_err(), "{name}");
            continue;
        }
        let recorded = &case["response"]["response"];
        let reviewed = ask(&case["request"]);
        let ours = &reviewed.answer["response"];
        assert_eq!(reviewed.answer["apiVersion"], case["response"]["apiVersion"], "{name}");
        assert_eq!(reviewed.answer["kind"], "ConversionReview", "{name}");
        assert_eq!(ours["uid"], recorded["uid"], "{name}");
        if LENIENT.contains(&name) {
            assert_eq!(recorded["result"]["status"], "Failure", "{name}");
            assert_eq!(ours["result"], json!({"status": "Success"}), "{name}");
            continue;
        }
        assert_eq!(ours["result"]["status"], recorded["result"]["status"], "{name}");
        assert_eq!(
            reviewed.failure.is_some(),
            recorded["result"]["status"] == "Failure",
            "{name}"
        );
        let objects = ours["convertedObjects"].as_array().unwrap();
        let expected = recorded["convertedObjects"].as_array().cloned().unwrap_or_default();
        assert_eq!(objects.len(), expected.len(), "{name}");
        for (object, expected) in objects.iter().zip(expected) {
            let mut object = normal("cloneset", object.clone());
            if name == "unknown-fields" {
                // The original drops them, also below schemaless nodes.
                let spec = object["spec"].as_object_mut().unwrap();
                assert_eq!(spec.remove("bogus"), Some(json!(1)));
                let pod = spec["template"]["spec"].as_object_mut().unwrap();
                assert_eq!(pod.remove("futureSpec"), Some(json!(true)));
                let container = pod["containers"][0].as_object_mut().unwrap();
                assert_eq!(container.remove("futureField"), Some(json!({"a": 1})));
            }
            assert_eq!(object, normal("cloneset", expected), "{name}");
        }
    }
}

#[test]
fn recorded_failures_of_single_objects() {
    let mut seen = 0;
    for kind in KINDS {
        for case in recordings(kind).direct {
            let Some(failure) = case.failure else { continue };
            let group = case.request["apiVersion"]
                .as_str()
                .unwrap()
                .rsplit_once('/')
                .unwrap()
                .0
                .to_owned();
            let other = if case.name.starts_with("v1alpha1") {
                "v1beta1"
            } else {
                "v1alpha1"
            };
            let reviewed = ask(&question(&format!("{group}/{other}"), &[case.request]));
            if kind == "podunavailablebudget" {
                assert_eq!(
                    reviewed.failure, None,
                    "{}: a bad annotation is left out, not an error",
                    case.name
                );
                assert_eq!(reviewed.warnings.len(), 1, "{}: {:?}", case.name, reviewed.warnings);
                assert!(reviewed.warnings[0].starts_with("PodUnavailableBudget g1-def/x: metadata.annotations["));
                assert!(
                    !reviewed.warnings[0].contains("Invalid value"),
                    "what stands there is nobody else's"
                );
            } else {
                assert!(failure.starts_with("imageListPullJobTemplate"), "{failure}");
                let ours = reviewed.failure.expect("v1alpha1 cannot express it");
                assert!(ours.contains("spec.template.imageListPullJobTemplate"), "{ours}");
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 3);
}

#[test]
fn a_failure_names_the_object_and_returns_nothing() {
    let good = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodeImage", "metadata": {"name": "n"}});
    let bad = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage",
        "metadata": {"name": "m", "namespace": "ns"}});
    let reviewed = ask(&question("apps.kruise.io/v1beta1", &[good, bad]));
    let message = "request.objects[1], NodeImage ns/m: the object is already apps.kruise.io/v1beta1, \
        there is nothing to convert";
    let expected = json!({
        "uid": "u-1",
        "convertedObjects": [],
        "result": {"status": "Failure", "message": message},
    });
    assert_eq!(reviewed.answer["response"], expected);
    assert_eq!(reviewed.failure.as_deref(), Some(message));
}

#[test]
fn objects_that_cannot_be_converted_fail_the_review() {
    let object = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {}});
    let cases = [
        (
            "policy.kruise.io/v1beta1",
            object("apps.kruise.io/v1alpha1", "CloneSet"),
        ),
        (
            "policy.kruise.io/v1beta1",
            object("apps.kruise.io/v1alpha1", "PodUnavailableBudget"),
        ),
        ("apps.kruise.io/v1beta1", object("apps/v1", "StatefulSet")),
        ("apps.kruise.io/v1", object("apps.kruise.io/v1alpha1", "CloneSet")),
        ("v1beta1", object("apps.kruise.io/v1alpha1", "CloneSet")),
        ("", object("apps.kruise.io/v1alpha1", "CloneSet")),
        ("apps.kruise.io/v1beta1", json!("text")),
        ("apps.kruise.io/v1beta1", json!(null)),
        ("apps.kruise.io/v1beta1", json!({})),
        (
            "apps.kruise.io/v1beta1",
            json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}),
        ),
        (
            "apps.kruise.io/v1beta1",
            json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": 1, "metadata": {}}),
        ),
    ];
    for (desired, object) in cases {
        let reviewed = ask(&question(desired, std::slice::from_ref(&object)));
        assert!(reviewed.failure.is_some(), "{object} to {desired:?}");
        assert_eq!(reviewed.answer["response"]["result"]["status"], "Failure");
    }
}

#[test]
fn an_answer_has_the_version_of_its_question() {
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodeImage", "metadata": {"name": "n"}});
    for version in ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"] {
        let mut asked = question("apps.kruise.io/v1beta1", std::slice::from_ref(&object));
        asked["apiVersion"] = version.into();
        let answer = ask(&asked).answer;
        assert_eq!(answer["apiVersion"], version);
        assert_eq!(
            answer["response"]["convertedObjects"][0]["apiVersion"],
            "apps.kruise.io/v1beta1"
        );
    }
}

#[test]
fn a_body_that_is_no_review_is_an_error_of_the_request() {
    let mut other_kind = question("apps.kruise.io/v1beta1", &[]);
    other_kind["kind"] = "AdmissionReview".into();
    let mut other_version = question("apps.kruise.io/v1beta1", &[]);
    other_version["apiVersion"] = "apiextensions.k8s.io/v2".into();
    let mut no_request = question("apps.kruise.io/v1beta1", &[]);
    no_request["request"] = Value::Null;
    let mut no_list = question("apps.kruise.io/v1beta1", &[]);
    no_list["request"]["objects"] = "text".into();
    for body in [other_kind, other_version, no_request, no_list, json!([]), json!(1)] {
        assert!(
            matches!(review(body.to_string().as_bytes()), Err(BadReview::NotAReview(_))),
            "{body}"
        );
    }
    for body in ["", "{", "nonsense", "{}}", "\u{0}"] {
        assert!(matches!(review(body.as_bytes()), Err(BadReview::NotJson(_))), "{body}");
    }
    assert!(matches!(review(&[0xff, 0xfe]), Err(BadReview::NotJson(_))));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(review(deep.as_bytes()).is_err(), "depth is no way to crash the server");
}
