//! A container is stopped the way the kubelet does it.
//!
//! 1. The Pod gets an event that says who stops it.
//! 2. The preStop hook runs, if there is one and the container has any time to end. It is waited for as long as that time lasts, and no
//!    longer; then the rest goes on while it may still run. A hook that fails is an event, nothing more.
//! 3. The runtime stops the container, which has the rest of its time to end, but at least two seconds.
//!
//! Starting it again is the kubelet's work.

mod hook;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerPort, LifecycleHandler};
use kruise_api::kind::Kind as _;
use kruise_api::names::event;
use kruise_api::names::node::container;
use kruise_api::pod::Pod;
use kruise_cri::{Error, Runtime};
use kruise_runtime::cache::Store;
use kruise_runtime::events::{Recorder, Regarding};
use tokio::time::Instant;

pub(crate) use hook::{Hook, hook};

/// A container gets at least this long.
const LEAST: Duration = Duration::from_secs(2);

/// What is to be stopped.
#[derive(Clone, Debug)]
pub(crate) struct StopRequest {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) pod_uid: String,
    pub(crate) container: String,
    /// Without the name of the runtime.
    pub(crate) id: String,
    pub(crate) grace: Duration,
    pub(crate) hook: Option<Hook>,
    /// What the event says.
    pub(crate) message: String,
}

/// Stops containers.
#[derive(Clone, Debug)]
pub(crate) struct ContainerStopper {
    /// The node's Pods, when they are watched: their addresses are known then.
    pods: Option<Store<Pod>>,
    recorder: Recorder,
}

impl ContainerStopper {
    pub(crate) fn new(pods: Option<Store<Pod>>, recorder: Recorder) -> Self {
        Self { pods, recorder }
    }

    /// Stops a container. An error says that it may still run.
    pub(crate) async fn stop(&self, runtime: &Runtime, request: &StopRequest) -> Result<(), Error> {
        let about = Regarding::new(Pod::RESOURCE, &request.namespace, &request.pod, &request.pod_uid)
            .part(format!("spec.containers{{{}}}", request.container));
        tracing::info!(
            namespace = request.namespace, pod = request.pod, container = request.container, grace = ?request.grace,
            "{}", request.message
        );
        self.recorder.normal(&about, event::KILLING, request.message.clone());
        let began = Instant::now();
        if let Some(hook) = request.hook.clone().filter(|_| !request.grace.is_zero()) {
            self.run_hook(runtime, request, hook, &about).await;
        }
        // Whole seconds count, as the kubelet counts them.
        let left = request
            .grace
            .saturating_sub(Duration::from_secs(began.elapsed().as_secs()));
        runtime.stop_container(&request.id, left.max(LEAST)).await
    }

    async fn run_hook(&self, runtime: &Runtime, request: &StopRequest, hook: Hook, about: &Regarding) {
        let (runtime, address) = (runtime.clone(), self.address(request));
        let (id, grace) = (request.id.clone(), request.grace);
        let running = tokio::spawn(async move { hook.run(&runtime, &id, address, grace).await });
        let why = match tokio::time::timeout(request.grace, running).await {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(why))) => why,
            Ok(Err(panic)) => panic.to_string(),
            Err(_) => {
                tracing::warn!(
                    pod = request.pod,
                    container = request.container,
                    "the preStop hook takes longer than the grace period"
                );
                return;
            }
        };
        self.recorder
            .warning(about, event::FAILED_PRE_STOP_HOOK, format!("PreStopHook failed: {why}"));
    }

    fn address(&self, request: &StopRequest) -> String {
        let pod = self
            .pods
            .as_ref()
            .and_then(|pods| pods.get(&request.namespace, &request.pod));
        pod.map(|pod: Arc<Pod>| pod.status.pod_ip.to_string())
            .unwrap_or_default()
    }
}

/// The hook and ports that the kubelet has noted on a container.
pub(crate) fn noted(
    annotations: &std::collections::BTreeMap<String, String>,
) -> (Option<LifecycleHandler>, Vec<ContainerPort>) {
    let handler = annotations.get(container::PRE_STOP_HANDLER);
    let ports = annotations.get(container::PORTS);
    (
        handler.and_then(|text| serde_json::from_str(text).ok()),
        ports
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default(),
    )
}
