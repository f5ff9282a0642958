//! Pods and revisions for tests.

use jiff::Timestamp;
use kruise_api::names::condition::pod::{IN_PLACE_UPDATE_READY, KRUISE_POD_READY};
use kruise_api::names::{env, label};
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use serde_json::{Map, Value, json};

/// A Pod to be: `a_pod("web").container("main", "nginx:1").ready()`.
#[derive(Clone, Debug)]
pub(crate) struct PodBuilder(Value);

/// A scheduled, running Pod with both readiness gates, no containers and no conditions.
pub(crate) fn a_pod(name: &str) -> PodBuilder {
    PodBuilder(json!({
        "metadata": {"name": name, "namespace": "ns", "uid": "u-1", "resourceVersion": "7", "labels": {}, "annotations": {}},
        "spec": {
            "nodeName": "node1",
            "containers": [],
            "readinessGates": [{"conditionType": IN_PLACE_UPDATE_READY}, {"conditionType": KRUISE_POD_READY}],
        },
        "status": {"phase": "Running", "conditions": [], "containerStatuses": []},
    }))
}

impl PodBuilder {
    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = json!(value);
        self
    }

    pub(crate) fn annotation(mut self, key: &str, value: impl Into<String>) -> Self {
        self.0["metadata"]["annotations"][key] = json!(value.into());
        self
    }

    pub(crate) fn finalizer(mut self, name: &str) -> Self {
        self.0["metadata"]["finalizers"] = json!([name]);
        self
    }

    pub(crate) fn state(self, state: &str) -> Self {
        self.label(label::LIFECYCLE_STATE, state)
    }

    pub(crate) fn at(self, revision: &str) -> Self {
        let short = revision.rsplit('-').next().unwrap().to_owned();
        self.label(label::REVISION, revision)
            .label(label::POD_TEMPLATE_HASH, &short)
    }

    /// A ready container, running its image.
    pub(crate) fn container(mut self, name: &str, image: &str) -> Self {
        let id = format!("sha256:{image}");
        push(
            &mut self.0["spec"]["containers"],
            json!({"name": name, "image": image, "env": []}),
        );
        push(
            &mut self.0["status"]["containerStatuses"],
            json!({"name": name, "image": image, "imageID": id, "containerID": format!("containerd://{name}"), "ready": true}),
        );
        self
    }

    /// A container with a launch priority.
    pub(crate) fn prioritised(self, name: &str, image: &str, priority: i64) -> Self {
        let barrier = json!({"name": env::CONTAINER_BARRIER,
            "valueFrom": {"configMapKeyRef": {"name": "b", "key": format!("p_{priority}")}}});
        self.container(name, image).env(barrier)
    }

    /// Adds a variable to the last container.
    pub(crate) fn env(mut self, variable: Value) -> Self {
        push(&mut self.last_container()["env"], variable);
        self
    }

    /// Changes the last container's spec.
    pub(crate) fn last_container(&mut self) -> &mut Value {
        self.0["spec"]["containers"].as_array_mut().unwrap().last_mut().unwrap()
    }

    /// Changes a container's status.
    pub(crate) fn status(mut self, name: &str, field: &str, value: impl Into<Value>) -> Self {
        let statuses = self.0["status"]["containerStatuses"].as_array_mut().unwrap();
        statuses.iter_mut().find(|status| status["name"] == name).unwrap()[field] = value.into();
        self
    }

    pub(crate) fn condition(mut self, type_: &str, status: &str) -> Self {
        push(
            &mut self.0["status"]["conditions"],
            json!({"type": type_, "status": status, "lastTransitionTime": "2024-05-01T09:00:00Z"}),
        );
        self
    }

    /// Everything holds, as after a while without changes.
    pub(crate) fn ready(self) -> Self {
        [IN_PLACE_UPDATE_READY, KRUISE_POD_READY, "ContainersReady", "Ready"]
            .into_iter()
            .fold(self, |pod, type_| pod.condition(type_, "True"))
    }

    /// Sets any field by JSON pointer.
    pub(crate) fn with(mut self, pointer: &str, value: Value) -> Self {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        self.0.pointer_mut(parent).unwrap()[name] = value;
        self
    }

    pub(crate) fn build(&self) -> Pod {
        serde_json::from_value(self.0.clone()).unwrap()
    }

    /// The Pod as JSON.
    pub(crate) fn json(&self) -> Value {
        self.0.clone()
    }

    /// The Pod after strategic merge patches, as the API server applies them.
    pub(crate) fn patched<'a>(mut self, patches: impl IntoIterator<Item = &'a super::pod_change::PodPatch>) -> Self {
        for patch in patches {
            merge(&mut self.0, &patch.body);
            let version: u64 = self.0["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            self.0["metadata"]["resourceVersion"] = json!((version + 1).to_string());
        }
        self
    }
}

fn push(list: &mut Value, item: Value) {
    list.as_array_mut().unwrap().push(item);
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

/// A time of 1 May 2024, `10:00:00` for example.
pub(crate) fn at(time: &str) -> Timestamp {
    format!("2024-05-01T{time}Z").parse().unwrap()
}
