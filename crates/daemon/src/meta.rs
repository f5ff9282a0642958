//! Pods carry a report on what each of their running containers was started with, so that an update in place can be judged complete.
//!
//! The hash of a container's spec is the kubelet's own. The hash of environment that comes from labels and annotations is made from what
//! the command `env` prints in the container; a container without that command, or where it prints more than any environment can be, gets
//! none, and an update of such environment never completes for it.
//!
//! What to report and when is [`decide`]d without looking at anything but the Pod and the runtime's containers; containers with an outdated
//! environment are [`restart`]ed.

mod decide;
mod restart;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kruise_api::gates::Gate;
use kruise_api::names::annotation::RUNTIME_CONTAINERS;
use kruise_api::pod::Pod;
use kruise_api::resource::Preconditions;
use kruise_core::shared::container_hash::{RuntimeContainers, environment_printed, has_environment};
use kruise_cri::wire::ContainerStatus;
use kruise_cri::{Runtime, Runtimes};
use kruise_runtime::cache::{Kind, Store};
use kruise_runtime::controller::{Controller, Outcome};
use kruise_runtime::error::{Class, Error};
use kruise_runtime::expectations::{Expectations, Visible};
use kruise_runtime::queue::{Priority, Queue};
use kruise_runtime::resource::ObjectKey;
use kruise_runtime::shutdown::CancellationToken;
use kruise_runtime::writer::{Patch, Target, Writer};
use serde_json::json;

use crate::containers;
use crate::platform::{PAUSES, Platform};
pub(crate) use restart::Restarter;
use restart::Restarts;

const NAME: &str = "container-meta";
const WORKERS: usize = 5;
/// Changes of a Pod come in bursts.
const SETTLED: Duration = Duration::from_secs(1);
/// A write that the cache does not show after this is not waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long `env` may take.
const READING: Duration = Duration::from_secs(3);
/// What `env` may print, in bytes: Linux gives a process no more environment than this, its arguments included.
const LONGEST_ENVIRONMENT: usize = 2 << 20;

/// How the Pods of a node are watched.
pub(crate) fn kind(node: &str) -> Kind<Pod> {
    Kind::of().fields(format!("spec.nodeName={node}"))
}

/// Reports on the Pods of this node.
pub(crate) struct Reporter {
    controller: Controller,
    queue: Queue<ObjectKey>,
    work: Arc<Work>,
}

struct Work {
    pods: Store<Pod>,
    runtimes: Runtimes,
    writer: Writer,
    expectations: Expectations,
    restarts: Restarts,
    with_environment: bool,
}

impl Reporter {
    /// The reporter, and the one who restarts what it finds outdated.
    pub(crate) fn new(platform: &Platform, pods: Store<Pod>) -> (Self, Restarter) {
        let (restarts, restarter) = restart::restarter(platform, pods.clone());
        let queue = platform.queue(NAME, PAUSES);
        let reporter = Self {
            controller: platform.controller(NAME, &queue, WORKERS),
            queue,
            work: Arc::new(Work {
                pods,
                runtimes: platform.runtimes().clone(),
                writer: platform.writer(NAME),
                expectations: platform.expectations(NAME, PATIENCE),
                restarts,
                with_environment: platform.gates().enabled(Gate::InPlaceUpdateEnvFromMetadata),
            }),
        };
        (reporter, restarter)
    }

    /// Works until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) -> Result<(), Infallible> {
        let (queue, work) = (self.queue, self.work);
        let with_environment = work.with_environment;
        work.pods.subscribe(move |event| {
            let Some(new) = event.new else { return };
            if decide::calls_for_a_look(event.old.map(|old| &**old), new, with_environment) {
                let key = ObjectKey::new(&new.metadata.namespace, &new.metadata.name);
                queue.add_after(key, Priority::Change, SETTLED);
            }
        });
        let reconcile = move |key: ObjectKey| {
            let work = work.clone();
            async move { work.reconcile(&key).await }
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
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else {
            self.expectations.forget(key);
            return Ok(Outcome::done());
        };
        let name = decide::runtime_name(&pod);
        let Some(runtime) = name.and_then(|name| self.runtimes.named(&name)) else {
            return Ok(Outcome::done());
        };
        if pod.metadata.is_deleting() {
            return Ok(Outcome::done());
        }
        let on_node = containers::newest_of(runtime, &pod.metadata.uid.to_string())
            .await
            .map_err(|error| Error::new(Class::Transient, format!("cannot look at containers: {error}")))?;
        let mut report = decide::content(&pod, runtime.name(), &on_node);
        let unread = self.read_environments(&pod, runtime, &on_node, &mut report).await;
        if self.with_environment {
            for id in decide::to_restart(&pod, &report) {
                self.restarts.ask(&id);
            }
        }
        if decide::report_on(&pod).as_ref() != Some(&report) {
            self.write(key, &pod, &report).await?;
        }
        match unread {
            None => Ok(Outcome::done()),
            Some(why) => Err(Error::new(
                Class::Transient,
                format!("the environment cannot be read: {why}"),
            )),
        }
    }

    /// Adds the hashes of environments that are not known yet. Gives the first reason why one cannot be.
    async fn read_environments(
        &self,
        pod: &Pod,
        runtime: &Runtime,
        on_node: &BTreeMap<String, ContainerStatus>,
        report: &mut RuntimeContainers,
    ) -> Option<String> {
        let mut unread = None;
        for entry in report.containers.iter_mut().filter(|_| self.with_environment) {
            let (Some(seen), Some(spec)) = (on_node.get(&entry.name), decide::spec_of(pod, &entry.name)) else {
                continue;
            };
            if !decide::lacks_environment(entry, seen) {
                continue;
            }
            let printed = if has_environment(spec) {
                read_environment(runtime, &seen.id).await
            } else {
                Ok(String::new())
            };
            match printed {
                Ok(printed) => entry.hashes.extracted_env_from_metadata_hash = environment_printed(spec, &printed),
                Err(why) => {
                    unread.get_or_insert(format!("container {}: {why}", entry.name));
                }
            }
        }
        unread
    }

    async fn write(&self, key: &ObjectKey, pod: &Pod, report: &RuntimeContainers) -> Result<(), Error> {
        let text = serde_json::to_string(report).map_err(|error| Error::new(Class::Permanent, error.to_string()))?;
        // Through the status: a right to change Pods themselves may be missing.
        let target = Target::new(self.pods.resource(), &key.namespace, &key.name).status();
        let patch = json!({ "metadata": { "annotations": { RUNTIME_CONTAINERS: text } } });
        let uid = pod.metadata.uid.to_string();
        let written = self
            .writer
            .patch(&target, Patch::Strategic(patch), &Preconditions::uid(&uid))
            .await?;
        self.expectations.changed(key, &self.pods, &key.namespace, &written);
        Ok(())
    }
}

async fn read_environment(runtime: &Runtime, id: &str) -> Result<String, String> {
    let ended = runtime
        .exec(id, &["env".to_owned()], Some(READING), LONGEST_ENVIRONMENT)
        .await;
    let ended = ended.map_err(|error| error.to_string())?;
    if ended.exit_code != 0 {
        return Err(format!("the command env ended with {}", ended.exit_code));
    }
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}
