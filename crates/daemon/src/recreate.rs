//! Containers are restarted in place, as ContainerRecreateRequests for Pods of this node ask.
//!
//! The manager watches over deadlines and readiness; this is the part that stops containers. One request per Pod is worked on at a
//! time, step by step: each step is written down in the request's status before the next one is decided, so that a daemon that
//! is restarted goes on where the last one was.
//!
//! 1. The request that is worked on says `Recreating`, the others `Pending`.
//! 2. If the Pod is to be drained first, that is waited for.
//! 3. Each container's state is compared with what the runtime shows, and written down.
//! 4. The next container is stopped, see [`crate::stop`]; or the request is completed.
//!
//! Which step comes next is [`decide`]d without looking at anything but the request and the runtime's containers.

mod decide;

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::LifecycleHandler;
use k8s_openapi::jiff::Timestamp;
use kruise_api::containerrecreaterequest::v1beta1::{ContainerRecreateRequest, RecreateState};
use kruise_api::containerrecreaterequest::{RecreateContainer, RecreatePhase};
use kruise_api::names::component::source;
use kruise_api::names::label;
use kruise_api::pod::Pod;
use kruise_api::resource::Preconditions;
use kruise_core::shared::seconds::truncate;
use kruise_cri::wire::ContainerStatus;
use kruise_cri::{Runtime, Runtimes};
use kruise_runtime::cache::{Index, Store};
use kruise_runtime::controller::{Controller, Outcome, priority};
use kruise_runtime::error::{Class, Error};
use kruise_runtime::expectations::{Expectations, Visible};
use kruise_runtime::queue::Queue;
use kruise_runtime::resource::ObjectKey;
use kruise_runtime::shutdown::CancellationToken;
use kruise_runtime::writer::{Patch, Target, Writer};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::containers;
use crate::platform::{PAUSES, Platform};
use crate::stop::{ContainerStopper, StopRequest, hook, noted};
use decide::{Drained, Next, OnNode, Picked};

const NAME: &str = "container-recreate";
/// Stopping lasts as long as the container's grace period, so there are many.
const WORKERS: usize = 32;
/// A write that the cache does not show after this is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// No request takes this long; every step of it has a deadline of its own.
const DEADLINE: Duration = Duration::from_hours(24);
/// When neither the request nor the Pod says how long a container has.
const DEFAULT_GRACE: i64 = 30;

/// Requests by the name of their Pod.
const BY_POD: Index<ContainerRecreateRequest> = Index::new("pod", |request, key| key(&request.spec.pod_name));

/// How the requests of a node are watched.
pub(crate) fn kind(node: &str) -> kruise_runtime::cache::Kind<ContainerRecreateRequest> {
    let selector = format!("{}={node},{}=true", label::CRR_NODE_NAME, label::CRR_ACTIVE);
    kruise_runtime::cache::Kind::of().labels(selector).index(&BY_POD)
}

/// Works on the requests of this node.
pub(crate) struct Recreator {
    controller: Controller,
    queue: Queue<ObjectKey>,
    work: Arc<Work>,
}

struct Work {
    requests: Store<ContainerRecreateRequest>,
    runtimes: Runtimes,
    stopper: ContainerStopper,
    writer: Writer,
    expectations: Expectations,
    /// Containers that were stopped and perhaps not yet written down as such: UID of the request, name.
    killed: Mutex<HashSet<(String, String)>>,
}

impl Recreator {
    pub(crate) fn new(
        platform: &Platform,
        requests: Store<ContainerRecreateRequest>,
        pods: Option<Store<Pod>>,
    ) -> Self {
        let queue = platform.queue(NAME, PAUSES);
        Self {
            controller: platform.controller(NAME, &queue, WORKERS).deadline(DEADLINE),
            queue,
            work: Arc::new(Work {
                requests,
                runtimes: platform.runtimes().clone(),
                stopper: ContainerStopper::new(pods, platform.recorder(source::DAEMON_CONTAINER_RECREATE)),
                writer: platform.writer(NAME),
                expectations: platform.expectations(NAME, PATIENCE),
                killed: Mutex::default(),
            }),
        }
    }

    /// Works until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) -> Result<(), Infallible> {
        let (queue, work) = (self.queue, self.work);
        let gone = work.clone();
        work.requests.subscribe(move |event| {
            if let Some(request) = event.latest() {
                if event.new.is_none() {
                    let uid = request.metadata.uid.clone().unwrap_or_default();
                    gone.killed.lock().retain(|(of, _)| *of != uid);
                }
                let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
                queue.add(ObjectKey::new(namespace, &request.spec.pod_name), priority(event));
            }
        });
        let stopping = stop.clone();
        let reconcile = move |key: ObjectKey| {
            let (work, stopping) = (work.clone(), stopping.clone());
            async move {
                tokio::select! {
                    // The next daemon goes on from here.
                    () = stopping.cancelled() => Ok(Outcome::done()),
                    result = work.reconcile(&key) => result,
                }
            }
        };
        self.controller.run(stop, reconcile).await;
        Ok(())
    }
}

impl Work {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, Error> {
        if let Visible::NotYet { ask_after, .. } = self.expectations.check(key) {
            return Ok(Outcome::wake_after(ask_after));
        }
        let in_namespace = |request: &ContainerRecreateRequest| {
            request.metadata.namespace.as_deref().unwrap_or_default() == &*key.namespace
        };
        let Picked { first, to_wait } = decide::pick(self.requests.select(&BY_POD, &key.name, in_namespace));
        for request in to_wait {
            self.set(key, &request, json!({ "phase": RecreatePhase::Pending }), true)
                .await?;
        }
        let Some(request) = first else {
            return Ok(Outcome::done());
        };
        if decide::phase(&request) != RecreatePhase::Recreating {
            self.set(key, &request, json!({ "phase": RecreatePhase::Recreating }), true)
                .await?;
            return Ok(Outcome::done());
        }
        match decide::drained(&request, Timestamp::now()) {
            Drained::Yes => {}
            Drained::In(left) => return Ok(Outcome::wake_after(left)),
            Drained::NotYet => return Ok(Outcome::done()),
        }
        let runtime = match self.runtime(&request) {
            Ok(runtime) => runtime,
            Err(why) => {
                return self
                    .complete(key, &request, &format!("failed to find runtime service: {why}"))
                    .await;
            }
        };
        self.step(key, &request, runtime).await
    }

    fn runtime(&self, request: &ContainerRecreateRequest) -> Result<&Runtime, String> {
        let name = decide::runtime_name(&request.spec)?;
        let found = self.runtimes.named(&name);
        found.ok_or_else(|| format!("there is no {name} on this node"))
    }

    async fn step(
        &self,
        key: &ObjectKey,
        request: &ContainerRecreateRequest,
        runtime: &Runtime,
    ) -> Result<Outcome, Error> {
        let uid = request.metadata.uid.clone().unwrap_or_default();
        let labels = request.metadata.labels.clone().unwrap_or_default();
        let pod_uid = labels.get(label::CRR_POD_UID).cloned().unwrap_or_default();
        let on_node = containers::newest_of(runtime, &pod_uid)
            .await
            .map_err(|error| Error::new(Class::Transient, format!("cannot look at containers: {error}")))?;
        let killed = |name: &str| self.killed.lock().contains(&(uid.clone(), name.to_owned()));
        let observed = decide::observe(request, runtime.name(), &on_node, killed, Timestamp::now());
        let before = request.status.as_ref().map(|status| &status.container_recreate_states);
        if before != Some(&observed.states) {
            self.write_states(key, request, &observed.states).await?;
            return Ok(Outcome::done());
        }
        let mut states = observed.states.clone();
        loop {
            let place = match decide::next(&request.spec, &mut states, &on_node) {
                Next::Kill(place) => place,
                Next::Complete if states == observed.states => return self.complete(key, request, "").await,
                Next::Complete | Next::Wait => break,
            };
            let (Some(state), Some(container)) = (states.get_mut(place), request.spec.containers.get(place)) else {
                break;
            };
            let stopped = self
                .stop_container(request, runtime, container, &on_node, &pod_uid)
                .await;
            match stopped {
                Ok(()) => {
                    self.killed.lock().insert((uid.clone(), container.name.clone()));
                    state.is_killed = true;
                    state.phase = RecreatePhase::Recreating;
                    break;
                }
                Err(error) => {
                    state.phase = RecreatePhase::Failed;
                    state.message = format!("kill container error: {error}");
                }
            }
        }
        if states != observed.states {
            self.write_states(key, request, &states).await?;
            return Ok(Outcome::done());
        }
        Ok(observed.look_again.map_or_else(Outcome::done, Outcome::wake_after))
    }

    async fn stop_container(
        &self,
        request: &ContainerRecreateRequest,
        runtime: &Runtime,
        container: &RecreateContainer,
        on_node: &OnNode,
        pod_uid: &str,
    ) -> Result<(), kruise_cri::Error> {
        let Some(newest) = on_node.get(&container.name) else {
            return Ok(());
        };
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let strategy = request.spec.strategy.as_ref();
        let grace = strategy.and_then(|strategy| strategy.termination_grace_period_seconds);
        let stop = StopRequest {
            namespace: text(&request.metadata.namespace),
            pod: request.spec.pod_name.clone(),
            pod_uid: pod_uid.to_owned(),
            container: container.name.clone(),
            id: newest.id.clone(),
            grace: Duration::from_secs(u64::try_from(grace.unwrap_or(DEFAULT_GRACE)).unwrap_or(0)),
            hook: hook_of(container, newest),
            message: format!(
                "Stopping container {} by ContainerRecreateRequest {}",
                container.name,
                text(&request.metadata.name)
            ),
        };
        self.stopper.stop(runtime, &stop).await
    }

    async fn write_states(
        &self,
        key: &ObjectKey,
        request: &ContainerRecreateRequest,
        states: &[RecreateState],
    ) -> Result<(), Error> {
        self.set(key, request, json!({ "containerRecreateStates": states }), false)
            .await
    }

    async fn complete(
        &self,
        key: &ObjectKey,
        request: &ContainerRecreateRequest,
        message: &str,
    ) -> Result<Outcome, Error> {
        let now = Timestamp::now();
        let now = truncate(now);
        let mut status = json!({ "phase": RecreatePhase::Completed, "completionTime": now.to_string() });
        if !message.is_empty() {
            status["message"] = message.into();
        }
        self.set(key, request, status, true).await?;
        Ok(Outcome::done())
    }

    /// Writes a part of the status. What the manager may write as well is written only if the request is as we saw it.
    async fn set(
        &self,
        key: &ObjectKey,
        request: &ContainerRecreateRequest,
        status: Value,
        guarded: bool,
    ) -> Result<(), Error> {
        let name = request.metadata.name.as_deref().unwrap_or_default();
        let target = Target::new(self.requests.resource(), &key.namespace, name).status();
        let conditions = if guarded {
            Preconditions::unchanged(request)
        } else {
            Preconditions::same(request)
        };
        let written = self
            .writer
            .patch(&target, Patch::Merge(json!({ "status": status })), &conditions)
            .await?;
        self.expectations.changed(key, &self.requests, &key.namespace, &written);
        Ok(())
    }
}

/// The hook of a container: as the request has it. What the request cannot express, such as a pause, the kubelet has noted on the container.
fn hook_of(container: &RecreateContainer, newest: &ContainerStatus) -> Option<crate::stop::Hook> {
    let given = container.pre_stop.as_ref()?;
    let handler = LifecycleHandler {
        exec: given.exec.clone(),
        http_get: given.http_get.clone(),
        tcp_socket: given.tcp_socket.clone(),
        ..LifecycleHandler::default()
    };
    hook(&handler, &container.ports).or_else(|| {
        let (noted, ports) = noted(&newest.annotations);
        hook(&noted?, &ports)
    })
}
