//! What the daemons of all simulated nodes do, as an ordinary API client.
//!
//! - They answer every tag of a NodeImage: a tag that begins with `bad` cannot be pulled, and one that begins with `held` is not answered at all, so
//!   that a scenario can do it.
//! - They carry out every request to recreate containers, but for those whose name begins with `silent`: the simulated kubelet restarts the container,
//!   and the request ends when the manager has told that it is ready.

use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kruise_api::{containerrecreaterequest::v1beta1::ContainerRecreateRequest, nodeimage::v1beta1::NodeImage};
use kruise_testkit::watch::{self, Event};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub(super) struct Daemons(Vec<JoinHandle<()>>);

impl Daemons {
    pub(super) fn start(client: Client) -> Self {
        let pulling = tokio::spawn(pull(client.clone()));
        let recreating = tokio::spawn(recreate(client));
        Self(vec![pulling, recreating])
    }

    pub(super) async fn stop(self) {
        for task in self.0 {
            task.abort();
            let _ = task.await;
        }
    }
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

async fn pull(client: Client) {
    let images: Api<NodeImage> = Api::all(client);
    let events = watch::events(images.clone());
    pin_mut!(events);
    while let Some(event) = events.next().await {
        if let Ok(Event::Apply(node) | Event::InitApply(node)) = event
            && let Some(answers) = answers(&node)
        {
            // Somebody else may have written, or the node may be gone: the next event tells.
            let patch = json!({"metadata": {"resourceVersion": node.resource_version()}, "status": answers});
            let _ = images
                .patch_status(&node.name_any(), &PatchParams::default(), &Patch::Merge(patch))
                .await;
        }
    }
}

/// The status of a node that answers all it is asked; nothing when there is nothing new to say.
fn answers(node: &NodeImage) -> Option<Value> {
    let old = serde_json::to_value(&node.status).unwrap();
    let mut statuses = json!({});
    let (mut desired, mut news) = (0, false);
    for (name, image) in &node.spec.images {
        let known = old["imageStatuses"][name]["tags"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let mut tags = Vec::new();
        for tag in &image.tags {
            desired += 1;
            let is_answer =
                |answer: &&Value| answer["tag"] == tag.tag && answer["version"].as_i64().unwrap_or(0) == tag.version;
            match known.iter().find(is_answer) {
                Some(answer) => tags.push(answer.clone()),
                None if tag.tag.starts_with("held") => {}
                None => {
                    news = true;
                    let phase = if tag.tag.starts_with("bad") {
                        "Failed"
                    } else {
                        "Succeeded"
                    };
                    tags.push(json!({"tag": tag.tag, "version": tag.version, "phase": phase, "completionTime": now()}));
                }
            }
        }
        statuses[name] = json!({ "tags": tags });
    }
    let counts =
        json!({"desired": desired, "succeeded": 0, "failed": 0, "pulling": 0, "waiting": 0, "imageStatuses": statuses});
    news.then_some(counts)
}

async fn recreate(client: Client) {
    let requests: Api<ContainerRecreateRequest> = Api::all(client.clone());
    let events = watch::events_labelled(requests, "crr.apps.kruise.io/active=true");
    pin_mut!(events);
    while let Some(event) = events.next().await {
        if let Ok(Event::Apply(request) | Event::InitApply(request)) = event
            && !request.name_any().starts_with("silent")
        {
            tokio::spawn(carry_out(client.clone(), request));
        }
    }
}

/// The next step of a request.
async fn carry_out(client: Client, request: ContainerRecreateRequest) {
    let namespace = request.namespace().unwrap();
    let status = serde_json::to_value(&request.status).unwrap();
    let containers = &request.spec.containers;
    let (phase, states) = (
        status["phase"].as_str().unwrap_or_default(),
        &status["containerRecreateStates"],
    );
    let said = |phase: &str| {
        containers
            .iter()
            .map(|one| json!({"name": one.name, "phase": phase, "isKilled": true}))
            .collect::<Value>()
    };
    let next = if phase.is_empty() {
        json!({"phase": "Recreating"})
    } else if phase != "Recreating" {
        return;
    } else if states.is_null() {
        if !has_waited(&request, &status).await {
            return;
        }
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        let restarts = containers
            .iter()
            .map(|one| (format!("sim.kruise.test/restart.{}", one.name), json!(request.uid())));
        let patch = json!({"metadata": {"annotations": restarts.collect::<serde_json::Map<_, _>>()}});
        let _ = pods
            .patch(&request.spec.pod_name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        json!({"containerRecreateStates": said("Recreating")})
    } else {
        let seen = status["containerStatusSnapshot"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let is_back = |one: &kruise_api::containerrecreaterequest::RecreateContainer| {
            let before = one.status_context.as_ref().map(|context| context.container_id.clone());
            seen.iter()
                .any(|seen| seen["name"] == one.name && seen["ready"] == true && json!(before) != seen["containerID"])
        };
        if !containers.iter().all(is_back) {
            return;
        }
        json!({"phase": "Completed", "completionTime": now(), "containerRecreateStates": said("Succeeded")})
    };
    let requests: Api<ContainerRecreateRequest> = Api::namespaced(client, &namespace);
    // Only of what was seen: for anything newer another step is under way.
    let seen = json!({"uid": request.uid(), "resourceVersion": request.resource_version()});
    let patch = json!({"metadata": seen, "status": next});
    let _ = requests
        .patch_status(&request.name_any(), &PatchParams::default(), &Patch::Merge(patch))
        .await;
}

/// Waits for the grace period; false when it has not begun.
async fn has_waited(request: &ContainerRecreateRequest, status: &Value) -> bool {
    let strategy = request.spec.strategy.as_ref();
    let Some(seconds) = strategy.and_then(|strategy| strategy.unready_grace_period_seconds) else {
        return true;
    };
    if status["conditions"][0]["type"] != "PreRecreateGrace" {
        return false;
    }
    tokio::time::sleep(Duration::from_secs(seconds.unsigned_abs())).await;
    true
}
