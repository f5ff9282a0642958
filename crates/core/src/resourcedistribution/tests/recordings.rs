//! What the original wrote is taken over as it is.

use super::*;

const HASH: &str = "55e358e954ed09fbaf599a030d4a93c6fde330ce6631923a86524ac9c6838da4";

fn status() -> Value {
    let fine = |type_: &str| json!({"lastTransitionTime": "2026-11-15T08:11:50Z", "reason": "Succeeded", "status": "False", "type": type_});
    let types = [
        "GetResourceFailed",
        "CreateResourceFailed",
        "UpdateResourceFailed",
        "DeleteResourceFailed",
        "ConflictOccurred",
        "NamespaceNotExists",
    ];
    json!({"conditions": types.map(fine), "desired": 2, "observedGeneration": 1, "succeeded": 2})
}

fn copy(namespace: &str, api_version: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": NAME, "namespace": namespace, "labels": {"x": "1"},
            "annotations": {
                "kruise.io/resourcedistribution.resource.from": "rd", "kruise.io/resourcedistribution.resource.hashcode": HASH,
                "y": "2",
            },
            "ownerReferences": [{
                "apiVersion": api_version, "kind": "ResourceDistribution", "name": "rd", "uid": "uid-rd",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "data": {"k": "v1"},
    })
}

#[test]
fn given_what_the_original_would_write_then_we_write_the_same() {
    let mut world = World::new(&targets(&["a", "b"]));
    world.settle();
    for namespace in ["a", "b"] {
        let mut ours = world.copies[namespace].clone();
        let meta = ours["metadata"].as_object_mut().unwrap();
        meta.retain(|field, _| field != "uid" && field != "resourceVersion");
        assert_eq!(ours, copy(namespace, "apps.kruise.io/v1beta1"));
    }
    let mut expected = status();
    for condition in expected["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = json!("2026-05-01T10:00:00Z");
    }
    let mut ours = world.status().clone();
    // Zeros are not written by the API's types, and need not be there.
    ours.as_object_mut().unwrap().retain(|_, value| *value != json!(0));
    assert_eq!(ours, expected);
}

#[test]
fn given_objects_of_the_original_in_either_version_then_nothing_is_written() {
    let mut world = World::new(&targets(&["a", "b"]));
    world.put("a", copy("a", "apps.kruise.io/v1beta1"));
    world.put("b", copy("b", "apps.kruise.io/v1alpha1"));
    world.distribution["status"] = status();
    assert!(world.round().is_idle());
    assert_eq!(world.writes, 0);
}

/// What a user did, and what there was afterwards. Times are left out; copies that did not change, too.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedStep {
    #[serde(rename = "step")]
    name: String,
    requests: Vec<RecordedRequest>,
    status: Option<Value>,
    copies: BTreeMap<String, Value>,
    /// Namespaces without a copy from now on.
    gone: Vec<String>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedRequest {
    verb: String,
    path: String,
    #[serde(default)]
    body: Value,
}

fn act(world: &mut World, request: &RecordedRequest) {
    let merged = |object: &mut Value| kruise_api::merge_patch::merge(object, &request.body);
    let namespace = request.path.split('/').nth(4).unwrap_or_default();
    match (&*request.verb, request.path.contains("/configmaps")) {
        ("POST", false) => world.distribution["spec"] = request.body["spec"].clone(),
        ("PATCH", false) => world.respec(|spec| kruise_api::merge_patch::merge(spec, &request.body["spec"])),
        ("POST", true) => world.put(namespace, request.body.clone()),
        ("PATCH", true) => world.edit(namespace, merged),
        ("DELETE", true) => drop(world.copies.remove(namespace)),
        other => panic!("{other:?}"),
    }
}

/// What is compared of a copy.
fn seen(copy: &Value) -> Value {
    let meta = &copy["metadata"];
    let map = |field: &str| meta.get(field).cloned().unwrap_or_else(|| json!({}));
    let owned = meta.get("ownerReferences").is_some();
    json!({"labels": map("labels"), "annotations": map("annotations"), "data": copy["data"], "owned": owned})
}

#[test]
fn given_the_steps_of_a_recording_then_copies_and_status_are_those_of_the_original() {
    let steps: Vec<RecordedStep> =
        serde_json::from_str(include_str!("../../../fixtures/resourcedistribution/recording.json")).unwrap();
    let mut world = World::new(&json!({}));
    for namespace in ["s12a", "s12b", "s12c"] {
        world.namespace(namespace, &json!({}));
    }
    let (mut copies, mut status) = (BTreeMap::new(), Value::Null);
    for step in steps {
        for request in &step.requests {
            act(&mut world, request);
        }
        world.settle();
        copies.retain(|namespace, _| !step.gone.contains(namespace));
        copies.extend(step.copies);
        status = step.status.unwrap_or(status);
        let ours: BTreeMap<String, Value> = world
            .copies
            .iter()
            .map(|(namespace, copy)| (namespace.clone(), seen(copy)))
            .collect();
        assert_eq!(ours, copies, "{}", step.name);
        let mut ours = world.status().clone();
        ours.as_object_mut().unwrap().retain(|_, value| *value != json!(0));
        for condition in ours["conditions"].as_array_mut().unwrap() {
            condition.as_object_mut().unwrap().remove("lastTransitionTime");
        }
        assert_eq!(ours, status, "{}", step.name);
    }
}
