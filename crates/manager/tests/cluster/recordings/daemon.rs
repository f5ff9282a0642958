//! What the daemon of a node does for a CloneSet: it tells with which environment containers run, and ends those whose environment has changed.

use futures::StreamExt as _;
use kruise_api::pod::Pod;
use kruise_core::shared::container_hash::{Hashes, RuntimeContainer, RuntimeContainers, environment_of, plain};
use kruise_testkit::watch;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::task::JoinHandle;

/// A stand-in for the daemons of all nodes, for the Pods of one namespace.
pub(super) struct Daemon(JoinHandle<()>);

impl Daemon {
    pub(super) fn start(client: &Client, namespace: &str) -> Self {
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(client.clone(), namespace);
        Self(tokio::spawn(async move {
            let mut events = watch::applied(pods.clone()).boxed();
            while let Some(event) = events.next().await {
                let Ok(object) = event else { continue };
                let name = object.name_any();
                let pod: Pod = serde_json::from_value(json!(object)).unwrap();
                let known = RuntimeContainers::of(&pod).unwrap().unwrap_or_default();
                let told = report(&pod, &known);
                let mut annotations = json!({});
                if told != known {
                    annotations["apps.kruise.io/runtime-containers-meta"] =
                        json!(serde_json::to_string(&told).unwrap());
                }
                for (container, now) in outdated(&pod, &told) {
                    annotations[format!("sim.kruise.test/restart.{container}")] = json!(now.to_string());
                }
                if annotations != json!({}) {
                    let patch =
                        json!({"metadata": {"annotations": annotations, "resourceVersion": object.resource_version()}});
                    // When the Pod has changed meanwhile or is gone, the next event tells it.
                    let _ = pods.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
                }
            }
        }))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What is known of containers that still run, and what new ones have been started with.
fn report(pod: &Pod, known: &RuntimeContainers) -> RuntimeContainers {
    let running = pod
        .status
        .container_statuses
        .iter()
        .filter(|status| !status.container_id.is_empty());
    let containers = running.filter_map(|status| {
        let id = status.container_id.to_string();
        let container = pod
            .spec
            .template
            .containers
            .iter()
            .find(|container| container.name == status.name)?;
        let old = known.containers.iter().find(|old| old.container_id == id);
        Some(old.cloned().unwrap_or_else(|| RuntimeContainer {
            name: status.name.to_string(),
            container_id: id,
            restart_count: status.restart_count,
            hashes: Hashes {
                plain_hash: plain(&container.name, &container.image),
                extracted_env_from_metadata_hash: environment_of(pod, container),
            },
        }))
    });
    RuntimeContainers {
        containers: containers.collect(),
    }
}

/// Containers that run with an environment that is not the Pod's any more, and the hash of the new one.
fn outdated<'a>(pod: &'a Pod, told: &'a RuntimeContainers) -> impl Iterator<Item = (&'a str, u64)> {
    pod.spec.template.containers.iter().filter_map(|container| {
        let runs = told
            .containers
            .iter()
            .find(|told| container.name == told.name.as_str())?;
        let wanted = environment_of(pod, container);
        (runs.hashes.extracted_env_from_metadata_hash != wanted).then(|| (&*container.name, wanted))
    })
}
