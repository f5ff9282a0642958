//! Jobs on real nodes: containers that come into running Pods, and Pods on every node.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ContainerState, Pod};
use kruise_testkit::{
    cluster,
    eventually::{NotYet, eventually, run_test},
    namespace::{self, FreshNamespace},
};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams},
};
use serde_json::{Value, json};

use super::super::{DEADLINE, PATIENCE};

struct JobStage {
    namespace: FreshNamespace,
    jobs: Api<DynamicObject>,
    resource: ApiResource,
}

impl JobStage {
    async fn new(test: &str, version: &str, kind: &str) -> Self {
        let client = cluster::nodes_client().await;
        let namespace = namespace::fresh(&client, test).await.unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", version, kind));
        Self {
            jobs: Api::namespaced_with(client, namespace.name(), &resource),
            namespace,
            resource,
        }
    }

    async fn create(&self, name: &str, spec: &Value) {
        let job = DynamicObject::new(name, &self.resource).data(json!({ "spec": spec }));
        self.jobs.create(&PostParams::default(), &job).await.unwrap();
    }

    /// Waits until fields of a job's status are as said.
    async fn status(&self, name: &str, expected: &Value) -> Value {
        eventually(PATIENCE, "the status is as expected", || async {
            let status = self.jobs.get(name).await?.data["status"].clone();
            let fields = expected.as_object().unwrap();
            if fields.iter().all(|(field, value)| status[field] == *value) {
                Ok(status)
            } else {
                Err(NotYet::new(format!("{expected} is not in {status:#}")))
            }
        })
        .await
    }

    async fn pods(&self) -> Vec<Pod> {
        let pods: Api<Pod> = self.namespace.api();
        pods.list(&ListParams::default()).await.unwrap().items
    }
}

/// How an ephemeral container is.
fn state(pod: &Pod, container: &str) -> ContainerState {
    let statuses = pod.status.as_ref().unwrap().ephemeral_container_statuses.as_ref();
    let mut statuses = statuses.into_iter().flatten();
    let found = statuses.find(|status| status.name == container).unwrap();
    found.state.clone().unwrap()
}

/// A job that puts one container into the Pods of the app.
fn into_pods(name: &str, image: &str, command: &str) -> Value {
    let container = json!({
        "name": name, "image": image, "imagePullPolicy": "IfNotPresent", "terminationMessagePolicy": "File",
        "targetContainerName": "main", "command": ["sh", "-c", command],
    });
    json!({
        "selector": {"matchLabels": {"app": "web"}}, "parallelism": 2, "template": {"ephemeralContainers": [container]},
    })
}

#[test]
fn given_ephemeral_jobs_then_their_containers_really_run_and_exit_codes_are_told() {
    run_test(DEADLINE, async {
        let jobs = JobStage::new("ephemeral", "v1alpha1", "EphemeralJob").await;
        let pods: Api<Pod> = jobs.namespace.api();
        for name in ["a", "b"] {
            let main = json!({"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", "exec sleep 3600"]});
            let pod = json!({
                "metadata": {"name": name, "labels": {"app": "web"}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [main]},
            });
            let pod = serde_json::from_value(pod).unwrap();
            pods.create(&PostParams::default(), &pod).await.unwrap();
        }
        // It sees the process of its target, and tells what that is.
        let look = "tr '\\0' ' ' < /proc/1/cmdline > /dev/termination-log";
        jobs.create("good", &into_pods("look", "busybox:1.36", look)).await;
        jobs.status("good", &json!({"phase": "Succeeded", "match": 2, "succeeded": 2}))
            .await;
        for pod in jobs.pods().await {
            let ended = state(&pod, "look").terminated.unwrap();
            assert_eq!((ended.exit_code, ended.message.as_deref()), (0, Some("sleep 3600 ")));
        }
        jobs.create("bad", &into_pods("fail", "busybox:1.36", "exit 7")).await;
        jobs.status("bad", &json!({"phase": "Failed", "failed": 2})).await;
        for pod in jobs.pods().await {
            assert_eq!(state(&pod, "fail").terminated.unwrap().exit_code, 7);
            let main = &pod.status.unwrap().container_statuses.unwrap()[0];
            assert_eq!((main.ready, main.restart_count), (true, 0));
        }
        jobs.create("none", &into_pods("none", "busybox:no-such-tag", "true"))
            .await;
        jobs.status("none", &json!({"phase": "Waiting", "waiting": 2})).await;
        for pod in jobs.pods().await {
            let reason = state(&pod, "none").waiting.unwrap().reason.unwrap_or_default();
            assert!(
                matches!(&*reason, "ErrImagePull" | "ImagePullBackOff" | "ContainerCreating"),
                "{reason}"
            );
        }
    });
}

#[test]
fn given_a_broadcast_job_then_its_pods_run_on_every_node_and_count_as_they_end() {
    run_test(DEADLINE, async {
        let jobs = JobStage::new("broadcast", "v1beta1", "BroadcastJob").await;
        let node = json!({"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}});
        let main = json!({
            "name": "main", "image": "busybox:1.36", "env": [node], "command": ["sh", "-c", "test \"$NODE\" != node2"],
        });
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [main]}});
        let spec = json!({"failurePolicy": {"type": "Continue"}, "parallelism": "34%", "template": template});
        jobs.create("all", &spec).await;
        let counts = json!({"phase": "completed", "desired": 3, "active": 0, "succeeded": 2, "failed": 1});
        jobs.status("all", &counts).await;
        let pods = jobs.pods().await;
        let nodes = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone());
        let nodes: BTreeSet<String> = nodes.collect();
        assert_eq!(nodes, ["node1", "node2", "node3"].map(str::to_owned).into());
        assert_eq!(pods.len(), 3);
        let failed = pods
            .iter()
            .find(|pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Failed"));
        assert_eq!(
            failed.unwrap().spec.as_ref().unwrap().node_name.as_deref(),
            Some("node2")
        );
        assert!(pods.iter().all(|pod| pod.labels()["broadcastjob-name"] == "all"));
    });
}
