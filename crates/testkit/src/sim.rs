//! Simulated kubelets: ordinary API clients that give scheduled Pods a life.
//!
//! [`SimulatedNodes::start`] registers nodes, keeps their Leases fresh, and from then on does for every Pod bound to one of them what a
//! kubelet would report: containers start, become ready, restart when their image changes, crash, exit, and stop when the Pod is deleted.
//! Nothing runs; only the API shows it. Scheduler, controller-manager and apiserver are the real ones and see no difference.
//!
//! # What is reported
//!
//! | event | report |
//! |---|---|
//! | a Pod is bound | one patch: phase Running, addresses, container statuses, conditions `Initialized`, `PodReadyToStartContainers`, `ContainersReady`, `Ready` |
//! | a readiness gate changes | `Ready` follows; conditions of other writers are never touched |
//! | a container's image changes | the container restarts: `restartCount` + 1, another `containerID`, an `imageID` made from the image's name |
//! | a container's resources change | `resources` and `allocatedResources` follow; a `resizePolicy` of `RestartContainer` restarts it |
//! | an ephemeral container is added | it runs and is reported in `ephemeralContainerStatuses` |
//! | an env needs a missing ConfigMap key | the container waits with `CreateContainerConfigError` until the key exists |
//! | the Pod is deleted | its containers stop within the grace period, then the object is deleted; finalizers hold it with stopped containers |
//!
//! Init containers run in order; sidecars (`restartPolicy: Always`) stay. Pod phases follow `restartPolicy`. Not simulated: volumes, Secrets,
//! probes (a container is ready when the script says so), logs, exec, resource limits, preemption and evictions.
//!
//! # Scripts
//!
//! A Pod's annotations say what shall happen to it. Keys begin with `sim.kruise.test/`; a changed annotation works at once on a living Pod.
//! Keys marked ✓ may be given for one container by appending `.` and its name (`sim.kruise.test/crash.main`), which goes before the
//! key without a name. A wrong key or value keeps the containers in `CreateContainerConfigError` with a message that says what is wrong.
//!
//! | key | value | one container | meaning |
//! |---|---|---|---|
//! | `start-delay` | duration | | nothing happens to a bound Pod for so long |
//! | `pull-delay` | duration | ✓ | pulling the image takes so long: waiting `ContainerCreating`, or after an image change still the old container's end |
//! | `pull-error` | `true` or images `a:1,b:2` | ✓ | every image, or the named ones, cannot be pulled: waiting `ErrImagePull`, then `ImagePullBackOff` until image or annotation change |
//! | `ready-delay` | duration | ✓ | a running container becomes ready so long after its start |
//! | `never-ready` | `true` | ✓ | it runs but does not become ready |
//! | `crash` | `true` or a number | ✓ | every run, or the first so many, end with exit code 1; waiting `CrashLoopBackOff` for 1 s, 2 s, 4 s … 64 s |
//! | `crash-after` | duration | ✓ | so long after its start (default: at once) |
//! | `exit-after` | duration | ✓ | a run that does not crash ends by itself; an init container without this key exits at once |
//! | `exit-code` | 0 – 255 | ✓ | with this code (default 0) |
//! | `terminate-delay` | duration | ✓ | stopping takes so long, at most the grace period (then exit code 137); also before a restart for a new image |
//! | `image-id` | text | ✓ | reported as `imageID` of the next start, to give two tags one image |
//! | `restart` | any text | ✓ | a value that was not there when the container started restarts it, as if it had been killed |
//! | `resize` | `accept`, `deferred`, `infeasible` | ✓ | what the kubelet says to changed resources; the latter two show as condition `PodResizePending` |
//! | `resize-delay` | duration | ✓ | accepting takes so long: condition `PodResizeInProgress` |
//! | `phase` | `Pending`, `Failed`, `Succeeded`, `Unknown` | | the Pod is put into this phase and nothing else happens to it |
//! | `phase-reason`, `phase-message` | text | | reported with `phase` |
//!
//! Durations read `300ms`, `2s`, `1m30s`. Defaults for all Pods are in [`SimOptions`].
//!
//! # Load
//!
//! One watch, one task and at most [`SimOptions::writers`] calls in flight serve all nodes of a set. A Pod without a script costs one patch in
//! its life and one delete at its end. Many sets in one cluster each watch all Pods; give [`SimOptions::namespace`] to watch only one namespace.

mod container;
mod engine;
mod entry;
mod image;
mod life;
mod nodes;
mod options;
mod script;
mod status;
mod view;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, anyhow};
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::engine::{Command, Engine};
use self::nodes::{Nodes, lock};
pub use self::options::{NodeHealth, SimOptions, SimStats};
use crate::blocking::finish_before_drop;
use crate::calls::{Calls, Refused};

/// Label every simulated node carries; its value is the set's name prefix.
pub const SET_LABEL: &str = "sim.kruise.test/set";

/// A running set of simulated nodes. Dropping it, or [`SimulatedNodes::stop`], ends its tasks and deletes its nodes.
///
/// Pods stay behind as on machines that lost their power: delete them before, or let the node controller clean up.
#[must_use = "the nodes vanish when this is dropped"]
pub struct SimulatedNodes {
    nodes: Nodes,
    names: Mutex<Vec<String>>,
    next_index: AtomicUsize,
    pods: Arc<AtomicUsize>,
    commands: mpsc::UnboundedSender<Command>,
    tasks: Vec<JoinHandle<()>>,
    stopped: bool,
}

impl std::fmt::Debug for SimulatedNodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedNodes")
            .field("names", &self.names)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl SimulatedNodes {
    /// Registers the nodes and begins to serve their Pods. Returns when all nodes exist; the scheduler uses them as soon as the
    /// controller-manager has taken off the taint every new node gets.
    pub async fn start(client: Client, options: SimOptions) -> anyhow::Result<Self> {
        let version = client
            .apiserver_version()
            .await
            .context("asking the apiserver for its version")?
            .git_version;
        let calls = Calls::new(client.clone());
        let options = Arc::new(options);
        let pods = Arc::new(AtomicUsize::new(0));
        let (commands, received) = mpsc::unbounded_channel();
        let engine = Engine::new(
            calls.clone(),
            options.script(),
            options.writers.max(1),
            pods.clone(),
            &options.name_prefix,
        );
        let watched = match &options.namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client),
        };
        let nodes = Nodes {
            calls,
            options: options.clone(),
            version,
            beats: Arc::default(),
        };
        let mut this = SimulatedNodes {
            nodes: nodes.clone(),
            names: Mutex::default(),
            next_index: AtomicUsize::new(0),
            pods,
            commands,
            tasks: Vec::new(),
            stopped: false,
        };
        // The engine knows its nodes before it sees the first Pod.
        let join = this.announce(options.count);
        this.tasks.push(tokio::spawn(engine.run(watched, received)));
        this.tasks.push(tokio::spawn(nodes.keep_beating()));
        this.nodes
            .join(join)
            .await
            .map_err(|refused| refusal("registering simulated nodes", refused))?;
        Ok(this)
    }

    fn announce(&self, count: usize) -> std::ops::Range<usize> {
        let first = self.next_index.fetch_add(count, Ordering::Relaxed);
        for index in first..first + count {
            let name = nodes::node_name(&self.nodes.options, index);
            lock(&self.names).push(name.clone());
            self.send(Command::Node {
                ip: nodes::node_ip(index),
                name,
                health: NodeHealth::Ready,
            });
        }
        first..first + count
    }

    fn send(&self, command: Command) {
        // The engine ends only with this handle.
        if self.commands.send(command).is_err() {
            tracing::error!("the task that serves simulated nodes has ended");
        }
    }

    /// The names of all nodes that are part of the set now.
    pub fn names(&self) -> Vec<String> {
        lock(&self.names).clone()
    }

    /// A `nodeSelector` that binds Pods to this set.
    pub fn selector(&self) -> (String, String) {
        (SET_LABEL.to_owned(), self.nodes.options.name_prefix.clone())
    }

    pub fn stats(&self) -> SimStats {
        let counters = &self.nodes.calls.counters;
        SimStats {
            pods: self.pods.load(Ordering::Relaxed),
            patches: counters.patches.load(Ordering::Relaxed),
            deletes: counters.deletes.load(Ordering::Relaxed),
            reads: counters.reads.load(Ordering::Relaxed),
            retries: counters.retries.load(Ordering::Relaxed),
        }
    }

    /// Lets more nodes join; returns their names.
    pub async fn add(&self, count: usize) -> anyhow::Result<Vec<String>> {
        let range = self.announce(count);
        self.nodes
            .join(range.clone())
            .await
            .map_err(|refused| refusal("registering simulated nodes", refused))?;
        Ok(range
            .map(|index| nodes::node_name(&self.nodes.options, index))
            .collect())
    }

    /// Changes how a node does. When this returns, the node's condition is written; its Pods follow.
    pub async fn set_health(&self, node: &str, health: NodeHealth) -> anyhow::Result<()> {
        let index = self.index_of(node)?;
        let beats = matches!(health, NodeHealth::Ready | NodeHealth::NotReady);
        if beats {
            lock(&self.nodes.beats).insert(node.to_owned(), tokio::time::Instant::now());
        } else {
            lock(&self.nodes.beats).remove(node);
        }
        self.send(Command::Node {
            name: node.to_owned(),
            ip: nodes::node_ip(index),
            health,
        });
        if health != NodeHealth::Silent {
            let written = self.nodes.write_health(node, health).await;
            written.map_err(|refused| refusal("writing a node's condition", refused))?;
        }
        Ok(())
    }

    /// Takes a node out of the cluster as if its machine had been scrapped. Its Pods keep their last status.
    pub async fn remove(&self, node: &str) -> anyhow::Result<()> {
        self.index_of(node)?;
        lock(&self.nodes.beats).remove(node);
        lock(&self.names).retain(|name| name != node);
        self.send(Command::Leave(node.to_owned()));
        self.nodes
            .delete(node)
            .await
            .map_err(|refused| refusal("deleting a node", refused))
    }

    fn index_of(&self, node: &str) -> anyhow::Result<usize> {
        let prefix = format!("{}-", self.nodes.options.name_prefix);
        let index = node.strip_prefix(&prefix).and_then(|index| index.parse().ok());
        let known = lock(&self.names).iter().any(|name| name == node);
        index
            .filter(|_| known)
            .ok_or_else(|| anyhow!("{node:?} is not a node of the set {prefix}*"))
    }

    /// Returns only if a task of the simulation ends, which it should never do by itself.
    pub async fn ended(&self) {
        self.commands.closed().await;
    }

    /// Ends the set and deletes its nodes.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.end_tasks();
        self.nodes
            .delete_all()
            .await
            .map_err(|refused| refusal("deleting simulated nodes", refused))
    }

    fn end_tasks(&mut self) {
        self.stopped = true;
        self.tasks.drain(..).for_each(|task| task.abort());
    }
}

impl Drop for SimulatedNodes {
    fn drop(&mut self) {
        if self.stopped {
            return;
        }
        self.end_tasks();
        let nodes = self.nodes.clone();
        finish_before_drop(async move {
            if let Err(refused) = nodes.delete_all().await {
                tracing::warn!(?refused, "simulated nodes were left behind");
            }
        });
    }
}

fn refusal(doing: &str, refused: Refused) -> anyhow::Error {
    match refused {
        Refused::Gone => anyhow!("{doing}: the object does not exist"),
        Refused::Conflict => anyhow!("{doing}: another object of that name exists, or others write to it all the time"),
        Refused::Invalid(why) => anyhow!("{doing}: the server refuses: {why}"),
        Refused::Unreachable(why) => anyhow!("{doing}: gave up after several tries: {why}"),
    }
}
