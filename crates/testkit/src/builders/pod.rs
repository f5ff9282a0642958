use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{Fixture, append, escaped};

/// A Pod with one container called `main`. See [`pod`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct PodBuilder(Value);

impl Fixture for PodBuilder {
    fn object(&mut self) -> &mut Value {
        &mut self.0
    }
}

/// A Pod with one container called `main` that stops at once when told to.
pub fn pod(name: &str) -> PodBuilder {
    PodBuilder(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "main", "image": "nginx:1" }], "terminationGracePeriodSeconds": 1 },
    }))
}

impl PodBuilder {
    /// Goes on with a workload's template.
    pub(super) fn of_template(template: Value) -> Self {
        PodBuilder(template)
    }

    pub fn build(self) -> Pod {
        self.typed()
    }

    /// The image of container `main`.
    pub fn image(self, image: &str) -> Self {
        self.set("/spec/containers/0/image", image)
    }

    /// One more container.
    pub fn container(mut self, name: &str, image: &str) -> Self {
        append(
            self.object(),
            "/spec/containers",
            json!({ "name": name, "image": image }),
        );
        self
    }

    pub fn init_container(mut self, name: &str, image: &str) -> Self {
        append(
            self.object(),
            "/spec/initContainers",
            json!({ "name": name, "image": image }),
        );
        self
    }

    /// An init container that goes on running.
    pub fn sidecar(mut self, name: &str, image: &str) -> Self {
        let sidecar = json!({ "name": name, "image": image, "restartPolicy": "Always" });
        append(self.object(), "/spec/initContainers", sidecar);
        self
    }

    /// An environment variable of container `main` that comes from a ConfigMap.
    pub fn env_from_config_map(mut self, variable: &str, map: &str, key: &str) -> Self {
        let source = json!({ "configMapKeyRef": { "name": map, "key": key } });
        append(
            self.object(),
            "/spec/containers/0/env",
            json!({ "name": variable, "valueFrom": source }),
        );
        self
    }

    /// Request and limit of container `main`.
    pub fn resource(self, name: &str, amount: &str) -> Self {
        let name = escaped(name);
        self.set(&format!("/spec/containers/0/resources/requests/{name}"), amount)
            .set(&format!("/spec/containers/0/resources/limits/{name}"), amount)
    }

    pub fn readiness_gate(mut self, condition: &str) -> Self {
        append(
            self.object(),
            "/spec/readinessGates",
            json!({ "conditionType": condition }),
        );
        self
    }

    pub fn node_selector(self, (key, value): (String, String)) -> Self {
        self.set(&format!("/spec/nodeSelector/{}", escaped(&key)), value)
    }

    /// Bound to a node, past the scheduler.
    pub fn on_node(self, node: &str) -> Self {
        self.set("/spec/nodeName", node)
    }

    pub fn restart_policy(self, policy: &str) -> Self {
        self.set("/spec/restartPolicy", policy)
    }

    pub fn grace_seconds(self, seconds: u32) -> Self {
        self.set("/spec/terminationGracePeriodSeconds", seconds)
    }

    pub fn at_revision(self, hash: &str) -> Self {
        self.label("controller-revision-hash", hash)
    }

    /// Status of a running Pod with all containers ready. For tests without an API server: a server drops it on create.
    pub fn ready(mut self) -> Self {
        let statuses: Vec<Value> = self.0["spec"]["containers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|container| {
                let image = container["image"].as_str().unwrap_or_default();
                json!({
                    "name": container["name"], "image": image, "imageID": format!("id-of-{image}"),
                    "containerID": format!("sim://{}", container["name"].as_str().unwrap_or_default()),
                    "ready": true, "started": true, "restartCount": 0, "state": { "running": {} },
                })
            })
            .collect();
        self.0["status"]["containerStatuses"] = json!(statuses);
        self.phase("Running")
            .condition("ContainersReady", "True")
            .condition("Ready", "True")
    }

    pub fn phase(self, phase: &str) -> Self {
        self.set("/status/phase", phase)
    }

    pub fn condition(mut self, kind: &str, status: &str) -> Self {
        if let Some(conditions) = self.0["status"]["conditions"].as_array_mut() {
            conditions.retain(|known| known["type"] != kind);
        }
        append(
            self.object(),
            "/status/conditions",
            json!({ "type": kind, "status": status }),
        );
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_pod_has_a_status_for_each_container() {
        let pod = pod("a")
            .image("nginx:2")
            .container("side", "busybox:1")
            .ready()
            .at_revision("r1")
            .build();
        let status = pod.status.unwrap();
        let names: Vec<_> = status
            .container_statuses
            .unwrap()
            .into_iter()
            .map(|one| (one.name, one.image))
            .collect();
        assert_eq!(
            names,
            [
                ("main".to_owned(), "nginx:2".to_owned()),
                ("side".to_owned(), "busybox:1".to_owned())
            ]
        );
        assert!(
            status
                .conditions
                .unwrap()
                .iter()
                .any(|condition| condition.type_ == "Ready")
        );
        assert_eq!(pod.metadata.labels.unwrap()["controller-revision-hash"], "r1");
    }

    #[test]
    fn a_later_condition_replaces_an_earlier_one() {
        let status = pod("a").ready().condition("Ready", "False").build().status.unwrap();
        let ready: Vec<_> = status
            .conditions
            .unwrap()
            .into_iter()
            .filter(|c| c.type_ == "Ready")
            .collect();
        assert_eq!(ready.len(), 1);
        assert_eq!(ready[0].status, "False");
    }
}
