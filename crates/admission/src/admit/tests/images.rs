use super::*;
use crate::dispatch::Dispatch;
use kruise_api::gates::Gate;
use serde_json::json;
use std::time::{Duration, Instant};

fn dispatch(gates: Gates) -> Dispatch {
    let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
    let config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
    let context = Context::new(kube::Client::try_from(config).unwrap(), gates, true, &metrics);
    Dispatch::new(descriptors(), context, metrics)
}

async fn asked(dispatch: &Dispatch, path: &str, plural: &str, object: &Value, old: Option<&Value>) -> Value {
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": operation, "namespace": "ns", "name": "a",
        "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": plural},
        "object": object, "oldObject": old,
    }});
    let route = dispatch.route(path).unwrap().clone();
    let deadline = Instant::now() + Duration::from_secs(10);
    let answer = dispatch.answer(&route, review.to_string().as_bytes(), deadline).await;
    serde_json::from_slice::<Value>(&answer.body).unwrap()["response"].clone()
}

fn job(image: &str) -> Value {
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "metadata": {"name": "a"},
           "spec": {"image": image, "completionPolicy": {"type": "Always"}, "pullSecrets": ["s"]}})
}

#[tokio::test]
async fn given_gates_that_are_off_then_pulling_is_forbidden() {
    let on = Gates::default().with(Gate::ImagePullJobGate, true);
    for (gates, plural, missing) in [
        (on, "imagepulljob", None),
        (on, "imagelistpulljob", None),
        (Gates::default(), "imagepulljob", Some("ImagePullJobGate")),
        (Gates::default(), "imagelistpulljob", Some("ImagePullJobGate")),
        (Gates::default(), "nodeimage", None),
        (on.with(Gate::KruiseDaemon, false), "imagepulljob", Some("KruiseDaemon")),
        (on.with(Gate::KruiseDaemon, false), "nodeimage", Some("KruiseDaemon")),
        (
            on.with(Gate::KruiseDaemon, false),
            "containerrecreaterequest",
            Some("KruiseDaemon"),
        ),
    ] {
        let verb = if plural == "containerrecreaterequest" {
            "mutate"
        } else {
            "validate"
        };
        let path = format!("/{verb}-apps-kruise-io-{plural}");
        let mut object = job("nginx");
        object["spec"]["images"] = if plural == "nodeimage" {
            json!({})
        } else {
            json!(["nginx"])
        };
        let answer = asked(&dispatch(gates), &path, &format!("{plural}s"), &object, None).await;
        assert_eq!(answer["allowed"], missing.is_none(), "{plural}: {answer}");
        if let Some(gate) = missing {
            assert_eq!(answer["status"]["code"], 403, "{plural}");
            assert_eq!(
                answer["status"]["message"],
                format!("feature-gate {gate} is not enabled")
            );
        }
    }
}

#[tokio::test]
async fn given_a_job_that_is_being_deleted_then_it_can_be_released_whatever_the_rules_say() {
    let path = "/validate-apps-kruise-io-imagepulljob";
    let mut old = job("NGINX");
    old["metadata"]["finalizers"] = json!(["apps.kruise.io/deletion-protection"]);
    let mut new = job("NGINX");
    for gates in [Gates::default().with(Gate::ImagePullJobGate, true), Gates::default()] {
        let refused = asked(&dispatch(gates), path, "imagepulljobs", &new, Some(&old)).await;
        assert_eq!(refused["allowed"], false);
        for object in [&mut new, &mut old] {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let allowed = asked(&dispatch(gates), path, "imagepulljobs", &new, Some(&old)).await;
        assert_eq!(allowed["allowed"], true, "{allowed}");
        for object in [&mut new, &mut old] {
            object["metadata"]["deletionTimestamp"] = Value::Null;
        }
    }
}

#[tokio::test]
async fn given_changed_secrets_then_the_change_is_forbidden_and_says_so() {
    let dispatch = dispatch(Gates::default().with(Gate::ImagePullJobGate, true));
    let (old, mut new) = (job("nginx"), job("nginx"));
    new["spec"]["pullSecrets"] = json!(["other"]);
    let path = "/validate-apps-kruise-io-imagepulljob";
    let answer = asked(&dispatch, path, "imagepulljobs", &new, Some(&old)).await;
    assert_eq!(answer["status"]["code"], 403);
    assert_eq!(answer["status"]["reason"], "Forbidden");
    assert_eq!(
        answer["status"]["message"],
        "spec.pullSecrets: Forbidden: spec.pullSecrets is immutable"
    );
}

#[tokio::test]
async fn given_what_cannot_be_read_then_the_field_is_named() {
    let dispatch = dispatch(Gates::default().with(Gate::ImagePullJobGate, true));
    let mut wrong = job("nginx");
    wrong["spec"]["selector"] = json!({"names": "node-1"});
    let path = "/mutate-apps-kruise-io-imagepulljob";
    let answer = asked(&dispatch, path, "imagepulljobs", &wrong, None).await;
    assert_eq!(answer["status"]["code"], 400);
    let message = answer["status"]["message"].as_str().unwrap();
    assert!(message.starts_with("spec.selector.names: "), "{message}");
}
