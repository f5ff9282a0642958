//! Requests to recreate containers: they are completed from the Pod as it is, or refused.

use super::verdicts::{Case, Refusal};
use kruise_api::read::from_value;
use kruise_core::containerrecreaterequest::admit::{Submitted, Target, check, default_object, forbidden, no_node};
use serde_json::{Value, json};

/// A request as it is stored, or why it is refused.
fn admitted(
    object: &Value,
    old: Option<&Value>,
    pod: Option<&Value>,
    node: Option<&Value>,
    version: &str,
) -> Result<Value, (u16, String)> {
    let new: Submitted = from_value(object).map_err(|error| (400, error.to_string()))?;
    if let Some(old) = old {
        let refused = forbidden(&new, &from_value(old).unwrap(), version == "v1alpha1");
        return refused.map_or_else(|| Ok(object.clone()), |error| Err((403, error.to_string())));
    }
    let errors = check(&new);
    if !errors.is_empty() {
        return Err((400, errors.to_string()));
    }
    let wrong = |error: kruise_core::field_error::FieldError| (400, error.to_string());
    let target = Target::of(&new.spec.pod_name, pod).map_err(wrong)?;
    let node = node.ok_or_else(|| wrong(no_node(&new.spec.pod_name, target.node)))?;
    let mut completed = object.as_object().unwrap().clone();
    default_object(&mut completed, &target, node).map_err(wrong)?;
    Ok(Value::Object(completed))
}

#[test]
fn given_what_users_sent_then_the_same_is_refused_for_the_same_reason() {
    let text = include_str!("../../fixtures/images/containerrecreaterequest-verdicts.json");
    let cases: Vec<Case> = serde_json::from_str(text).unwrap();
    assert_eq!(cases.len(), 60);
    for case in cases {
        let at = format!("{} {}", case.version, case.name);
        let ours = admitted(
            &case.object,
            case.old.as_ref(),
            case.pod.as_ref(),
            Some(&json!({})),
            &case.version,
        );
        let ours: Refusal = ours.err();
        if case.api_server.is_some() {
            continue;
        }
        match (&case.says, ours) {
            (None, None) => {}
            (Some(says), Some((code, message))) => {
                assert_eq!(Some(code), case.code, "{at}: {message}");
                assert!(message.starts_with("spec"), "{at} has no field: {message}");
                assert!(message.contains(says.as_str()), "{at}: {message}\nbut was: {says}");
            }
            (says, ours) => panic!("{at}: {ours:?}\nbut was: {says:?}"),
        }
    }
}

fn pod() -> Value {
    json!({
        "metadata": {"name": "web", "uid": "ce83f928-1bb3-4daf-a868-0acd7dc630eb"},
        "spec": {
            "nodeName": "node3", "terminationGracePeriodSeconds": 5,
            "initContainers": [{"name": "setup"}],
            "containers": [
                {"name": "exec", "ports": [{"containerPort": 1}], "lifecycle": {"preStop": {"exec": {"command": ["true"]}}}},
                {
                    "name": "http", "ports": [{"name": "web", "containerPort": 80, "protocol": "TCP"}],
                    "lifecycle": {"preStop": {"httpGet": {"path": "/", "port": "web", "scheme": "HTTP"}}},
                },
                {"name": "sleep", "lifecycle": {"preStop": {"sleep": {"seconds": 3}}}},
                {"name": "plain"},
            ],
        },
        "status": {"phase": "Running", "containerStatuses": [
            {"name": "exec", "containerID": "containerd://e", "restartCount": 0},
            {"name": "http", "containerID": "containerd://h", "restartCount": 1},
            {"name": "sleep", "containerID": "containerd://s", "restartCount": 2},
            {"name": "plain", "containerID": "containerd://p", "restartCount": 3},
        ]},
    })
}

fn request(containers: &[&str], strategy: &Value) -> Value {
    let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name})).collect();
    json!({"metadata": {"name": "r"}, "spec": {"podName": "web", "containers": containers, "strategy": strategy}})
}

#[test]
fn given_a_running_pod_then_the_request_notes_what_it_looks_like() {
    let sent = request(&["exec", "http", "sleep", "plain"], &Value::Null);
    let stored = admitted(
        &sent,
        None,
        Some(&pod()),
        Some(&json!({"metadata": {"name": "node3"}})),
        "v1beta1",
    )
    .unwrap();
    assert_eq!(
        stored["metadata"]["labels"],
        json!({
            "crr.apps.kruise.io/active": "true", "crr.apps.kruise.io/node-name": "node3",
            "crr.apps.kruise.io/pod-uid": "ce83f928-1bb3-4daf-a868-0acd7dc630eb",
        })
    );
    assert_eq!(
        stored["spec"]["strategy"],
        json!({"failurePolicy": "Fail", "terminationGracePeriodSeconds": 5})
    );
    assert_eq!(
        stored["spec"]["containers"],
        json!([
            {"name": "exec", "preStop": {"exec": {"command": ["true"]}}, "statusContext": {"containerID": "containerd://e", "restartCount": 0}},
            {
                "name": "http", "preStop": {"httpGet": {"path": "/", "port": "web", "scheme": "HTTP"}},
                "ports": [{"name": "web", "containerPort": 80, "protocol": "TCP"}],
                "statusContext": {"containerID": "containerd://h", "restartCount": 1},
            },
            {"name": "sleep", "preStop": {}, "statusContext": {"containerID": "containerd://s", "restartCount": 2}},
            {"name": "plain", "statusContext": {"containerID": "containerd://p", "restartCount": 3}},
        ])
    );

    let own = request(
        &["plain"],
        &json!({"failurePolicy": "Ignore", "terminationGracePeriodSeconds": 0}),
    );
    let node = json!({"metadata": {"labels": {"type": "virtual-kubelet"}}});
    let stored = admitted(&own, None, Some(&pod()), Some(&node), "v1alpha1").unwrap();
    assert_eq!(
        stored["spec"]["strategy"], own["spec"]["strategy"],
        "what the user says counts"
    );
    assert_eq!(stored["metadata"]["labels"]["type"], "virtual-kubelet");
}

#[test]
fn given_a_pod_or_container_that_does_not_fit_then_the_field_is_named() {
    let mut ended = pod();
    ended["status"]["phase"] = json!("Succeeded");
    let mut deleted = pod();
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    for (containers, pod, node, field, says) in [
        (
            vec!["plain", "plain"],
            Some(pod()),
            true,
            "spec.containers[1].name",
            "duplicated container name",
        ),
        (
            vec!["setup"],
            Some(pod()),
            true,
            "spec.containers[0].name",
            "not found setup containerStatus",
        ),
        (vec!["plain"], None, true, "spec.podName", "no found Pod named web"),
        (vec!["plain"], Some(ended.clone()), true, "spec.podName", "inactive Pod"),
        (vec!["plain"], Some(deleted), true, "spec.podName", "inactive Pod"),
        (vec!["plain"], Some(pod()), false, "spec.podName", "no found Node node3"),
    ] {
        let there = json!({});
        let refused = admitted(
            &request(&containers, &Value::Null),
            None,
            pod.as_ref(),
            node.then_some(&there),
            "v1beta1",
        );
        let (code, message) = refused.unwrap_err();
        assert_eq!(code, 400);
        assert!(
            message.starts_with(&format!("{field}: ")) && message.contains(says),
            "{message}"
        );
    }
    ended["status"]["conditions"] = json!([{"type": "SidecarTerminated", "status": "True"}]);
    assert!(
        admitted(
            &request(&["plain"], &Value::Null),
            None,
            Some(&ended),
            Some(&json!({})),
            "v1beta1"
        )
        .is_ok()
    );
}

#[test]
fn given_a_stored_request_then_only_what_is_harmless_can_be_changed() {
    let stored = admitted(
        &request(&["plain"], &Value::Null),
        None,
        Some(&pod()),
        Some(&json!({})),
        "v1beta1",
    )
    .unwrap();
    let mut held = stored.clone();
    held["metadata"]["annotations"] = json!({"crr.apps.kruise.io/unready-acquired": "2026-01-01T00:00:00Z"});
    let change = |object: &Value, patch: Value| {
        let mut new = object.clone();
        json_patch::merge(&mut new, &patch);
        new
    };
    let uid = json!({"metadata": {"labels": {"crr.apps.kruise.io/pod-uid": "other"}}});
    let node = json!({"metadata": {"labels": {"crr.apps.kruise.io/node-name": null}}});
    let active = json!({"metadata": {"labels": {"crr.apps.kruise.io/active": null}}});
    let let_go = json!({"metadata": {"annotations": null}});
    for (old, patch, version, field) in [
        (
            &stored,
            uid,
            "v1beta1",
            Some("metadata.labels[crr.apps.kruise.io/pod-uid]"),
        ),
        (
            &stored,
            node,
            "v1alpha1",
            Some("metadata.labels[crr.apps.kruise.io/node-name]"),
        ),
        (&stored, json!({"spec": {"podName": "x"}}), "v1beta1", Some("spec")),
        (&stored, active, "v1beta1", None),
        (
            &held,
            let_go.clone(),
            "v1alpha1",
            Some("metadata.annotations[crr.apps.kruise.io/unready-acquired]"),
        ),
        (&held, let_go, "v1beta1", None),
    ] {
        let refused = admitted(&change(old, patch), Some(old), None, None, version).err();
        let path = refused.as_ref().and_then(|(_, message)| message.split(": ").next());
        assert_eq!(path, field, "{refused:?}");
        assert!(refused.is_none_or(|(code, _)| code == 403));
    }
}
