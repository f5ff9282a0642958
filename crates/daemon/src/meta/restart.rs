//! Containers whose environment comes from labels or annotations that have changed are restarted, so that they see the new values.
//!
//! What is needed to stop a container the right way the kubelet has noted on it. The same container is tried again later and later: after
//! 3 seconds, 6, 12, up to 10 minutes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kruise_api::names::component::source;
use kruise_api::names::node::container;
use kruise_api::pod::Pod;
use kruise_cri::Runtimes;
use kruise_cri::wire::{Container, ContainerState};
use kruise_runtime::cache::Store;
use kruise_runtime::controller::{Controller, Outcome};
use kruise_runtime::error::{Class, Error};
use kruise_runtime::queue::{Limits, Priority, Queue};
use kruise_runtime::resource::ObjectKey;
use kruise_runtime::shutdown::CancellationToken;

use crate::platform::Platform;
use crate::stop::{ContainerStopper, StopRequest, hook, noted};

const NAME: &str = "container-restart";
const WORKERS: usize = 10;
const PAUSES: Limits = Limits {
    base_delay: Duration::from_secs(3),
    max_delay: Duration::from_mins(10),
    rate: 0.0,
    burst: 1,
};
/// Far more than any grace period; the calls have deadlines of their own.
const DEADLINE: Duration = Duration::from_hours(24);
const DEFAULT_GRACE: Duration = Duration::from_secs(2);

/// Asks for restarts. Clones ask the same place.
#[derive(Clone)]
pub(super) struct Restarts(Queue<ObjectKey>);

/// Restarts what was asked for.
pub(crate) struct Restarter {
    controller: Controller,
    runtimes: Runtimes,
    stopper: ContainerStopper,
}

pub(super) fn restarter(platform: &Platform, pods: Store<Pod>) -> (Restarts, Restarter) {
    let queue = platform.queue(NAME, PAUSES);
    let restarter = Restarter {
        controller: platform.controller(NAME, &queue, WORKERS).deadline(DEADLINE),
        runtimes: platform.runtimes().clone(),
        stopper: ContainerStopper::new(Some(pods), platform.recorder(source::DAEMON_CONTAINER_META)),
    };
    (Restarts(queue), restarter)
}

impl Restarts {
    /// Asks for the restart of a container, by its ID with the runtime's name in front.
    pub(super) fn ask(&self, container_id: &str) {
        if let Some((runtime, id)) = container_id.split_once("://") {
            self.0.add_limited(ObjectKey::new(runtime, id), Priority::Change);
        }
    }
}

impl Restarter {
    /// Works until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) -> Result<(), Infallible> {
        let (runtimes, stopper, stopping) = (self.runtimes, Arc::new(self.stopper), stop.clone());
        let restart = move |key: ObjectKey| {
            let (runtimes, stopper, stopping) = (runtimes.clone(), stopper.clone(), stopping.clone());
            async move {
                tokio::select! {
                    () = stopping.cancelled() => Ok(Outcome::done()),
                    result = restart(&runtimes, &stopper, &key) => result,
                }
            }
        };
        self.controller.run(stop, restart).await;
        Ok(())
    }
}

async fn restart(runtimes: &Runtimes, stopper: &ContainerStopper, key: &ObjectKey) -> Result<Outcome, Error> {
    let failed =
        |error: kruise_cri::Error| Error::new(Class::Transient, format!("cannot restart a container: {error}"));
    let Some(runtime) = runtimes.named(&key.namespace) else {
        return Ok(Outcome::done());
    };
    let found = runtime.find_container(&key.name).await.map_err(failed)?;
    let running = found.filter(|container| container.state() == ContainerState::ContainerRunning);
    if let Some(container) = running {
        let request = stop_request(runtime.name(), container);
        stopper.stop(runtime, &request).await.map_err(failed)?;
    }
    Ok(Outcome::done())
}

fn stop_request(runtime: &str, container: Container) -> StopRequest {
    let (handler, ports) = noted(&container.annotations);
    let text = |from: &BTreeMap<String, String>, key: &str| from.get(key).cloned().unwrap_or_default();
    let name = text(&container.labels, container::NAME);
    StopRequest {
        namespace: text(&container.labels, container::POD_NAMESPACE),
        pod: text(&container.labels, container::POD_NAME),
        pod_uid: text(&container.labels, container::POD_UID),
        grace: grace(&container.annotations),
        hook: handler.and_then(|handler| hook(&handler, &ports)),
        message: format!("Stopping containerID {runtime}://{name} by container meta restarter"),
        container: name,
        id: container.id,
    }
}

fn grace(annotations: &BTreeMap<String, String>) -> Duration {
    let seconds = |key: &str| {
        annotations
            .get(key)
            .and_then(|text| text.parse().ok())
            .map(Duration::from_secs)
    };
    seconds(container::DELETION_GRACE_PERIOD)
        .or_else(|| seconds(container::TERMINATION_GRACE_PERIOD))
        .unwrap_or(DEFAULT_GRACE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::Hook;

    #[test]
    fn given_what_the_kubelet_noted_then_the_container_is_stopped_by_it() {
        let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        let container = Container {
            id: "abc".to_owned(),
            labels: pairs(&[
                (container::NAME, "main"),
                (container::POD_NAME, "p"),
                (container::POD_NAMESPACE, "n"),
                (container::POD_UID, "u"),
            ]),
            annotations: pairs(&[
                (container::TERMINATION_GRACE_PERIOD, "7"),
                (container::PRE_STOP_HANDLER, r#"{"exec":{"command":["bye"]}}"#),
                (container::PORTS, "nonsense"),
            ]),
            ..Container::default()
        };
        let request = stop_request("containerd", container);
        assert_eq!(
            request.message,
            "Stopping containerID containerd://main by container meta restarter"
        );
        assert_eq!((request.grace.as_secs(), request.id.as_str()), (7, "abc"));
        assert_eq!(request.hook, Some(Hook::Exec(vec!["bye".to_owned()])));
        assert_eq!(
            grace(&pairs(&[
                (container::DELETION_GRACE_PERIOD, "1"),
                (container::TERMINATION_GRACE_PERIOD, "9")
            ]))
            .as_secs(),
            1
        );
        assert_eq!(
            grace(&pairs(&[(container::TERMINATION_GRACE_PERIOD, "soon")])),
            DEFAULT_GRACE
        );
    }
}
