use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use super::{Fixture, PodBuilder, pod};

/// A workload with a Pod template and `replicas`. Its Pods carry the label `app: <name>`.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Workload(Value);

impl Fixture for Workload {
    fn object(&mut self) -> &mut Value {
        &mut self.0
    }
}

pub fn deployment(name: &str) -> Workload {
    workload("apps/v1", "Deployment", name)
}

pub fn cloneset(name: &str) -> Workload {
    workload("apps.kruise.io/v1beta1", "CloneSet", name)
}

/// One Pod per node: it has no `replicas`.
pub fn daemonset(name: &str) -> Workload {
    let mut set = workload("apps.kruise.io/v1beta1", "DaemonSet", name);
    if let Some(spec) = set.0["spec"].as_object_mut() {
        spec.remove("replicas");
    }
    set
}

/// An Advanced StatefulSet, whose Pods can be updated in place.
pub fn statefulset(name: &str) -> Workload {
    let set = workload("apps.kruise.io/v1beta1", "StatefulSet", name).set("/spec/serviceName", name);
    set.pod(|pod| pod.readiness_gate("InPlaceUpdateReady"))
}

fn workload(api_version: &str, kind: &str, name: &str) -> Workload {
    let empty = Workload(json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": { "name": name },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "app": name } }, "template": pod("").json() },
    }));
    empty.pod(|pod| pod.label("app", name))
}

impl Workload {
    pub fn replicas(self, replicas: i32) -> Self {
        self.set("/spec/replicas", replicas)
    }

    pub fn image(self, image: &str) -> Self {
        self.pod(|pod| pod.image(image))
    }

    /// Changes the Pod template.
    pub fn pod(mut self, change: impl FnOnce(PodBuilder) -> PodBuilder) -> Self {
        let mut template = change(PodBuilder::of_template(self.0["spec"]["template"].take())).json();
        // A template is a Pod without these.
        if let Some(fields) = template.as_object_mut() {
            fields.retain(|name, _| name == "metadata" || name == "spec");
        }
        if let Some(metadata) = template["metadata"].as_object_mut() {
            metadata.remove("name");
        }
        self.0["spec"]["template"] = template;
        self
    }

    /// Only for [`deployment`].
    pub fn build(self) -> Deployment {
        self.typed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_changed_step_by_step() {
        let json = cloneset("web")
            .replicas(3)
            .image("nginx:2")
            .pod(|pod| pod.readiness_gate("G"))
            .json();
        assert_eq!(
            json["spec"],
            json!({
                "replicas": 3,
                "selector": { "matchLabels": { "app": "web" } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": {
                        "containers": [{ "name": "main", "image": "nginx:2" }],
                        "readinessGates": [{ "conditionType": "G" }],
                        "terminationGracePeriodSeconds": 1,
                    },
                },
            })
        );
    }
}
