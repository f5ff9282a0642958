use super::*;
use kruise_api::names::node::container as kubelet;
use serde_json::{Value, json};

fn json_pod() -> Value {
    json!({
        "metadata": {
            "name": "p", "namespace": "n", "uid": "u", "annotations": {"w": "1"},
            "ownerReferences": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "c", "uid": "o", "controller": true}],
        },
        "spec": {"containers": [
            {"name": "z", "image": "i", "env": [{"name": "W", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['w']"}}}]},
            {"name": "a", "image": "i"},
        ]},
        "status": {
            "conditions": [],
            "containerStatuses": [
                {"name": "a", "containerID": format!("containerd://{}", id('a', 0))},
                {"name": "z", "containerID": format!("containerd://{}", id('b', 0))},
            ],
        },
    })
}

fn id(letter: char, number: u32) -> String {
    format!("{}{number:04}", letter.to_string().repeat(60))
}

fn pod(value: &Value) -> Pod {
    serde_json::from_value(value.clone()).expect("a Pod")
}

const NULL: u64 = 86_995_377;

/// A report that fits `json_pod`.
fn good_report() -> Value {
    let expected = environment_of(&pod(&json_pod()), spec_of(&pod(&json_pod()), "z").expect("z"));
    json!({"containers": [
        {"name": "a", "containerID": format!("containerd://{}", id('a', 0)), "restartCount": 0, "hashes": {"plainHash": 1, "extractedEnvFromMetadataHash": NULL}},
        {"name": "z", "containerID": format!("containerd://{}", id('b', 0)), "restartCount": 0, "hashes": {"plainHash": 2, "extractedEnvFromMetadataHash": expected}},
    ]})
}

fn with_report(report: &Value) -> Value {
    let mut json = json_pod();
    json["metadata"]["annotations"][RUNTIME_CONTAINERS] = json!(report.to_string());
    json
}

// One table.
#[allow(clippy::too_many_lines)]
#[test]
fn given_changes_then_only_those_that_matter_call_for_a_look() {
    let good = with_report(&good_report());
    let changed = |change: fn(&mut Value)| {
        let mut json = good.clone();
        change(&mut json);
        json
    };
    let foreign = |json: &mut Value| {
        json["metadata"]["ownerReferences"][0]["apiVersion"] = json!("apps/v1");
        json["metadata"]["annotations"][RUNTIME_CONTAINERS] = Value::Null;
    };
    for (what, old, new, expected) in [
        ("all is well", Some(good.clone()), good.clone(), false),
        ("all was well before us", None, good.clone(), false),
        ("no report before us", None, json_pod(), false),
        ("no report, and a change", Some(json_pod()), json_pod(), true),
        (
            "a broken report before us",
            None,
            changed(|p| p["metadata"]["annotations"][RUNTIME_CONTAINERS] = json!("{")),
            true,
        ),
        (
            "another container",
            Some(good.clone()),
            changed(|p| {
                p["status"]["containerStatuses"][0]["containerID"] = json!(format!("containerd://{}", id('c', 1)));
            }),
            true,
        ),
        (
            "one status less",
            Some(good.clone()),
            changed(|p| {
                p["status"]["containerStatuses"].as_array_mut().expect("a list").pop();
            }),
            true,
        ),
        (
            "not started yet",
            Some(json_pod()),
            changed(|p| {
                p["metadata"]["annotations"][RUNTIME_CONTAINERS] = Value::Null;
                for i in 0..2 {
                    p["status"]["containerStatuses"][i]["containerID"] = json!("");
                }
            }),
            false,
        ),
        (
            "no status",
            Some(json_pod()),
            changed(|p| p["status"]["containerStatuses"] = json!([])),
            false,
        ),
        (
            "on its way out",
            Some(json_pod()),
            changed(|p| {
                p["metadata"]["annotations"][RUNTIME_CONTAINERS] = Value::Null;
                p["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }),
            false,
        ),
        (
            "an annotation that is environment",
            Some(good.clone()),
            changed(|p| p["metadata"]["annotations"]["w"] = json!("2")),
            true,
        ),
        (
            "the same before us",
            None,
            changed(|p| p["metadata"]["annotations"]["w"] = json!("2")),
            true,
        ),
        (
            "one container more",
            Some(good.clone()),
            changed(|p| {
                p["spec"]["containers"]
                    .as_array_mut()
                    .expect("a list")
                    .push(json!({"name": "s"}));
            }),
            true,
        ),
        ("of a Deployment", Some(json_pod()), changed(foreign), false),
        (
            "of a Deployment, with a sidecar",
            Some(json_pod()),
            changed(|p| {
                p["metadata"]["ownerReferences"] = json!([]);
                p["metadata"]["annotations"][SIDECAR_SET_HASH] = json!("{}");
                p["metadata"]["annotations"][RUNTIME_CONTAINERS] = Value::Null;
            }),
            true,
        ),
    ] {
        let (old, new) = (old.as_ref().map(pod), pod(&new));
        assert_eq!(calls_for_a_look(old.as_ref(), &new, true), expected, "{what}");
    }
    let environment = changed(|p| p["metadata"]["annotations"]["w"] = json!("2"));
    assert!(
        !calls_for_a_look(Some(&pod(&good)), &pod(&environment), false),
        "the gate is off"
    );
}

fn seen(id: &str, hash: &str, restarts: &str) -> ContainerStatus {
    ContainerStatus {
        id: id.to_owned(),
        state: ContainerState::ContainerRunning.into(),
        annotations: [(kubelet::HASH, hash), (kubelet::RESTART_COUNT, restarts)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..ContainerStatus::default()
    }
}

#[test]
fn given_containers_then_entries_of_the_same_ones_are_kept_and_others_are_new() {
    let on_node = BTreeMap::from([
        ("a".to_owned(), seen(&id('a', 0), "19fd1bfc", "5")),
        ("z".to_owned(), seen(&id('c', 1), "19fd1bfc", "1")),
        ("stranger".to_owned(), seen("s", "1", "0")),
    ]);
    let content = content(&pod(&with_report(&good_report())), "containerd", &on_node);
    let names: Vec<_> = content.containers.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["a", "z"]);
    assert_eq!(content.containers[0].hashes.plain_hash, 1, "kept");
    let new = &content.containers[1];
    assert_eq!((new.restart_count, new.hashes.plain_hash), (1, 436_018_172));
    assert_eq!(new.container_id, format!("containerd://{}", id('c', 1)));
    assert!(lacks_environment(new, &on_node["z"]) && !lacks_environment(&content.containers[0], &on_node["a"]));
}

#[test]
fn given_another_environment_then_the_container_is_restarted_only_during_an_update_in_place() {
    let report: RuntimeContainers = serde_json::from_value(good_report()).expect("a report");
    for (value, condition, expected) in [
        ("1", "False", 0),
        ("2", "False", 1),
        ("2", "True", 0),
        ("2", "Unknown", 0),
    ] {
        let mut json = json_pod();
        json["metadata"]["annotations"]["w"] = json!(value);
        json["status"]["conditions"] = json!([{"type": IN_PLACE_UPDATE_READY, "status": condition}]);
        let restarts = to_restart(&pod(&json), &report);
        assert_eq!(restarts.len(), expected, "{value} {condition}");
    }
    let mut unknown = report.clone();
    unknown.containers[1].hashes.extracted_env_from_metadata_hash = 0;
    let mut json = json_pod();
    json["metadata"]["annotations"]["w"] = json!("2");
    json["status"]["conditions"] = json!([{"type": IN_PLACE_UPDATE_READY, "status": "False"}]);
    assert!(
        to_restart(&pod(&json), &unknown).is_empty(),
        "what nobody has read is not judged"
    );
    assert_eq!(runtime_name(&pod(&json)).as_deref(), Some("containerd"));
}
