//! What tests of the rules begin with, beside the builders of `kruise_fixtures`.

use std::sync::Arc;

use jiff::Timestamp;
use kruise_api::names::condition::pod::{IN_PLACE_UPDATE_READY, KRUISE_POD_READY};
use kruise_api::names::{annotation, env, label};
use kruise_api::revision::ControllerRevision;
pub(crate) use kruise_fixtures::{Fixture, PodBuilder, running_pod};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::pod_change::PodPatch;

/// What builders of Pods can do here as well.
pub(crate) trait PodFixture {
    /// One more container, with a launch priority.
    fn prioritised(self, name: &str, image: &str, priority: i64) -> Self;

    /// The Pod after patches, applied as the API server does.
    fn patched<'a>(self, patches: impl IntoIterator<Item = &'a PodPatch>) -> Self;
}

impl PodFixture for PodBuilder {
    fn prioritised(self, name: &str, image: &str, priority: i64) -> Self {
        let source = json!({ "configMapKeyRef": { "name": "b", "key": format!("p_{priority}") } });
        let barrier = json!({ "name": env::CONTAINER_BARRIER, "valueFrom": source });
        self.running(name, image).env(barrier)
    }

    fn patched<'a>(mut self, patches: impl IntoIterator<Item = &'a PodPatch>) -> Self {
        for patch in patches {
            let pod = self.object();
            merge(pod, &patch.body);
            let version: u64 = pod["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            pod["metadata"]["resourceVersion"] = json!((version + 1).to_string());
        }
        self
    }
}

/// Strategic merge, as far as Pods need it: lists of objects by `name` or `type`.
fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch
                .iter()
                .filter(|(key, _)| !key.starts_with('$') && *key != "resourceVersion")
            {
                if value.is_null() {
                    target.remove(key);
                } else {
                    merge(target.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (Value::Array(target), Value::Array(patch)) => {
            for item in patch {
                let same = |other: &&mut Value| {
                    ["name", "type"]
                        .iter()
                        .any(|key| !item[key].is_null() && item[key] == other[key])
                };
                match target.iter_mut().find(same) {
                    Some(found) => merge(found, item),
                    None => target.push(item.clone()),
                }
            }
        }
        (target @ Value::Null, Value::Object(_)) => {
            *target = Value::Object(Map::new());
            merge(target, patch);
        }
        (target, patch) => *target = patch.clone(),
    }
}

/// A revision with this template.
pub(crate) fn a_revision(name: &str, template: &Value) -> ControllerRevision {
    let data: Value = serde_json::from_str(&super::revision::data(template)).unwrap();
    serde_json::from_value(json!({"metadata": {"name": name}, "revision": 1, "data": data})).unwrap()
}

/// A Pod of a workload called `web` in namespace `shop`: it runs `main` with `nginx:1` on node `n1` at revision `web-old`, and is not ready.
pub(crate) fn web_pod(name: &str, owner: &Value) -> PodBuilder {
    let since = "2024-03-01T00:00:01Z";
    let holds = |type_: &str| json!({ "type": type_, "status": "True", "lastTransitionTime": since });
    running_pod(name)
        .namespace("shop")
        .uid(&format!("uid-{name}"))
        .set("/metadata/resourceVersion", "100")
        .set("/metadata/ownerReferences", json!([owner]))
        .label("app", "web")
        .at("web-old")
        .state("Normal")
        .annotation(annotation::LIFECYCLE_TIMESTAMP, "2024-03-01T00:00:00Z")
        .on_node("n1")
        .running("main", "nginx:1")
        .set(
            "/status/conditions",
            json!([holds(IN_PLACE_UPDATE_READY), holds(KRUISE_POD_READY)]),
        )
}

/// A revision of a workload called `web` in namespace `shop`, as the server has it.
pub(crate) fn web_revision(name: &str, number: i64, template: &Value, owner: &Value) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "50",
            "creationTimestamp": "2024-03-01T00:00:00Z",
            "labels": { "app": "web", (label::REVISION_DATA_HASH): name.rsplit('-').next().unwrap() },
            "ownerReferences": [owner],
        },
        "revision": number,
        "data": serde_json::from_str::<Value>(&super::revision::data(template)).unwrap(),
    })
}

/// An object as the rules see it.
pub(crate) fn read<T: DeserializeOwned>(object: &Value) -> Arc<T> {
    // Through text, because raw parts keep what was written.
    Arc::new(serde_json::from_str(&object.to_string()).unwrap())
}

/// A time of 1 May 2024, `10:00:00` for example.
pub(crate) fn at(time: &str) -> Timestamp {
    format!("2024-05-01T{time}Z").parse().unwrap()
}
