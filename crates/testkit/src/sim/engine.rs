//! One task that gives life to all Pods of a set of nodes.
//!
//! It owns one watch, one heap of timers and a bounded number of calls in flight. A Pod is looked at when something about it changed: the
//! watch brought a newer version, a timer rang, its node's health changed, a call ended. Looking means: advance its [`Life`], compute its
//! report, and send the difference if there is one. A Pod has at most one call in flight, and after a write it rests until the watch has
//! shown the result, so that nothing is ever decided twice from an old reading.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::NodeHealth;
use super::calls::{Calls, Refused};
use super::life::Life;
use super::script::Script;
use super::status::{self, Addresses};
use super::view::{PodView, Status};

/// How soon a Pod is looked at again whose call failed, or that waits for a ConfigMap.
const AGAIN_SOON: Duration = Duration::from_secs(1);
/// How soon a write is tried again that the server found wrong. Something else has to change first.
const AGAIN_LATE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) enum Command {
    /// This node is ours from now on, or has another health.
    Node {
        name: String,
        ip: String,
        health: NodeHealth,
    },
    /// This node and its Pods are no longer ours.
    Leave(String),
}

type Uid = Arc<str>;

struct Node {
    ip: String,
    health: NodeHealth,
}

struct Entry {
    view: PodView,
    script: Result<Arc<Script>, String>,
    life: Life,
    ip: String,
    /// Waits in the queue to be looked at.
    queued: bool,
    /// A call is in flight. What comes in meanwhile makes the Pod dirty: looked at again when the call has ended.
    busy: bool,
    dirty: bool,
    /// The version our last write made; older readings are not acted upon.
    written: u64,
    /// Fingerprint of that write. A server that ignores a field must not be asked for it again and again.
    last_patch: u64,
    deleted: bool,
    wake: Option<Timestamp>,
}

enum Call {
    Patch(Value, u64),
    Delete,
    LookUp(BTreeSet<String>),
}

enum Answer {
    Patched(Result<u64, Refused>, u64),
    Deleted(Result<(), Refused>),
    Keys(Vec<(String, Result<Option<BTreeSet<String>>, Refused>)>),
}

pub(super) struct Engine {
    calls: Calls,
    defaults: Arc<Script>,
    most_calls: usize,
    nodes: HashMap<String, Node>,
    pods: HashMap<Uid, Entry>,
    alive: Arc<AtomicUsize>,
    timers: BinaryHeap<Reverse<(Timestamp, Uid)>>,
    queue: VecDeque<Uid>,
    in_flight: JoinSet<(Uid, Answer)>,
    next_ip: u32,
}

impl Engine {
    pub(super) fn new(
        calls: Calls,
        defaults: Script,
        most_calls: usize,
        alive: Arc<AtomicUsize>,
        prefix: &str,
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        prefix.hash(&mut hasher);
        Engine {
            calls,
            defaults: Arc::new(defaults),
            most_calls,
            nodes: HashMap::new(),
            pods: HashMap::new(),
            alive,
            timers: BinaryHeap::new(),
            queue: VecDeque::new(),
            in_flight: JoinSet::new(),
            // Sets of nodes side by side begin at different addresses.
            next_ip: hasher.finish() as u32,
        }
    }

    /// Runs until the handle is gone.
    pub(super) async fn run(mut self, pods: Api<PodView>, mut commands: mpsc::UnboundedReceiver<Command>) {
        let watch = watcher(
            pods,
            watcher::Config::default().fields("spec.nodeName!=").any_semantic(),
        );
        let mut watch = pin!(watch.default_backoff());
        let mut listed = HashSet::new();
        loop {
            let rings = self.timers.peek().map(|Reverse((at, _))| until(*at));
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                Some(joined) = self.in_flight.join_next() => match joined {
                    Ok((uid, answer)) => self.take_answer(&uid, answer),
                    Err(error) => tracing::error!(%error, "a call of a simulated kubelet ended badly"),
                },
                event = watch.next() => match event {
                    Some(Ok(event)) => self.observe(event, &mut listed),
                    Some(Err(error)) => tracing::warn!(%error, "watching Pods for simulated kubelets"),
                    None => return,
                },
                () = tokio::time::sleep(rings.unwrap_or_default()), if rings.is_some() => self.ring(),
            }
            self.dispatch();
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Node { name, ip, health } => {
                self.nodes.insert(name.clone(), Node { ip, health });
                let uids: Vec<Uid> = self.pods_of(&name);
                uids.iter().for_each(|uid| self.look(uid));
            }
            Command::Leave(name) => {
                self.nodes.remove(&name);
                for uid in self.pods_of(&name) {
                    self.forget(&uid);
                }
            }
        }
    }

    fn pods_of(&self, node: &str) -> Vec<Uid> {
        let ours = self.pods.iter().filter(|(_, entry)| entry.view.spec.node_name == node);
        ours.map(|(uid, _)| uid.clone()).collect()
    }

    fn observe(&mut self, event: watcher::Event<PodView>, listed: &mut HashSet<Uid>) {
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(view) => {
                if let Some(uid) = self.learn(view) {
                    listed.insert(uid);
                }
            }
            watcher::Event::InitDone => {
                let gone: Vec<Uid> = self.pods.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                gone.iter().for_each(|uid| self.forget(uid));
                // Whatever was written before the list is in it.
                self.pods
                    .values_mut()
                    .for_each(|entry| entry.written = entry.written.min(entry.view.version()));
                listed.clear();
            }
            watcher::Event::Apply(view) => drop(self.learn(view)),
            watcher::Event::Delete(view) => self.forget(view.uid()),
        }
    }

    /// Takes in a Pod's newest version, when the Pod is on a node of ours.
    fn learn(&mut self, view: PodView) -> Option<Uid> {
        let node = self.nodes.get(&view.spec.node_name)?;
        let uid: Uid = view.uid().into();
        if let Some(entry) = self.pods.get_mut(&uid) {
            if entry.view.metadata.annotations != view.metadata.annotations {
                entry.script = read_script(&self.defaults, &view);
            }
            entry.view = view;
        } else {
            let script = read_script(&self.defaults, &view);
            let life = Life::begin(&view, script.as_deref().unwrap_or(&self.defaults), Timestamp::now());
            let ip = match (&view.status.pod_ip, view.spec.host_network) {
                (Some(ip), _) => ip.clone(),
                (None, true) => node.ip.clone(),
                (None, false) => {
                    self.next_ip = self.next_ip.wrapping_add(1);
                    pod_ip(self.next_ip)
                }
            };
            let entry = Entry {
                view,
                script,
                life,
                ip,
                queued: false,
                busy: false,
                dirty: false,
                written: 0,
                last_patch: 0,
                deleted: false,
                wake: None,
            };
            self.pods.insert(uid.clone(), entry);
            self.alive.store(self.pods.len(), Ordering::Relaxed);
        }
        self.look(&uid);
        Some(uid)
    }

    fn forget(&mut self, uid: &str) {
        self.pods.remove(uid);
        self.alive.store(self.pods.len(), Ordering::Relaxed);
    }

    fn ring(&mut self) {
        let now = Timestamp::now();
        while let Some(Reverse((at, _))) = self.timers.peek()
            && *at <= now
        {
            let Some(Reverse((at, uid))) = self.timers.pop() else {
                return;
            };
            if let Some(entry) = self.pods.get_mut(&uid)
                && entry.wake == Some(at)
            {
                entry.wake = None;
                self.look(&uid);
            }
        }
    }

    /// Has a Pod looked at in its turn. Under load several reasons to look melt into one.
    fn look(&mut self, uid: &Uid) {
        let Some(entry) = self.pods.get_mut(uid) else { return };
        if entry.busy {
            entry.dirty = true;
        } else if !entry.queued {
            entry.queued = true;
            self.queue.push_back(uid.clone());
        }
    }

    fn dispatch(&mut self) {
        while self.in_flight.len() < self.most_calls
            && let Some(uid) = self.queue.pop_front()
        {
            let Some(entry) = self.pods.get_mut(&uid) else { continue };
            entry.queued = false;
            entry.dirty = false;
            // The watch has still to show what was written; it will bring the Pod back here.
            if entry.view.version() < entry.written {
                continue;
            }
            let Some(node) = self.nodes.get(&entry.view.spec.node_name) else {
                continue;
            };
            let (call, wake) = entry.decide(node, Timestamp::now());
            if wake.is_some() && wake != entry.wake {
                entry.wake = wake;
                self.timers.extend(wake.map(|at| Reverse((at, uid.clone()))));
            }
            if let Some(call) = call {
                entry.busy = true;
                let (namespace, name) = (entry.view.namespace().to_owned(), entry.view.name().to_owned());
                let calls = self.calls.clone();
                self.in_flight.spawn(async move {
                    let answer = call.make(&calls, &namespace, &name, &uid).await;
                    (uid, answer)
                });
            }
        }
    }

    fn take_answer(&mut self, uid: &Uid, answer: Answer) {
        let Some(entry) = self.pods.get_mut(uid) else { return };
        entry.busy = false;
        let pause = match answer {
            Answer::Patched(Ok(version), print) => {
                entry.written = version;
                entry.last_patch = print;
                None
            }
            Answer::Deleted(Ok(())) => {
                entry.deleted = true;
                None
            }
            Answer::Keys(found) => {
                let mut pause = None;
                for (name, keys) in found {
                    match keys {
                        Ok(keys) => drop(entry.life.config_maps.insert(name, keys)),
                        Err(refused) => pause = entry.pause_after(&refused),
                    }
                }
                entry.dirty = true;
                pause
            }
            Answer::Patched(Err(refused), _) | Answer::Deleted(Err(refused)) => entry.pause_after(&refused),
        };
        if let Some(pause) = pause {
            let at = Timestamp::now() + pause;
            entry.wake = Some(at);
            self.timers.push(Reverse((at, uid.clone())));
        } else if entry.dirty || entry.written <= entry.view.version() {
            self.look(uid);
        }
    }
}

impl Call {
    async fn make(self, calls: &Calls, namespace: &str, name: &str, uid: &str) -> Answer {
        match self {
            Call::Patch(patch, print) => Answer::Patched(calls.patch_pod_status(namespace, name, patch).await, print),
            Call::Delete => Answer::Deleted(calls.delete_pod(namespace, name, uid).await),
            Call::LookUp(names) => {
                let mut found = Vec::new();
                for map in names {
                    let keys = calls.config_map_keys(namespace, &map).await;
                    found.push((map, keys));
                }
                Answer::Keys(found)
            }
        }
    }
}

impl Entry {
    /// The next call for this Pod, and when to look at it again.
    fn decide(&mut self, node: &Node, now: Timestamp) -> (Option<Call>, Option<Timestamp>) {
        match node.health {
            NodeHealth::Silent => return (None, None),
            NodeHealth::Unreachable => {
                let report = status::report_unreachable(&self.view, now);
                return (self.patch_to(&report), None);
            }
            NodeHealth::Ready | NodeHealth::NotReady => {}
        }
        if self.deleted {
            return (None, None);
        }
        let wanted = self.life.wanted_config_maps(&self.view);
        if wanted.iter().any(|name| !self.life.config_maps.contains_key(name)) {
            return (Some(Call::LookUp(wanted)), None);
        }
        let script = self.script.as_deref().map_err(String::as_str);
        let mut wake = self.life.advance(&self.view, script, now);
        if !wanted.is_empty() {
            // Asked for again at the next look.
            self.life.config_maps.retain(|name, _| !wanted.contains(name));
            let soon = now + AGAIN_SOON;
            wake = Some(wake.map_or(soon, |at| at.min(soon)));
        }
        // Nobody sees the last report of a Pod that vanishes with its containers.
        if self.life.stopped && !self.view.has_finalizers() {
            return (Some(Call::Delete), None);
        }
        let addresses = Addresses {
            host: &node.ip,
            pod: &self.ip,
        };
        let report = status::report(&self.view, &self.life, script, addresses, now);
        let call = self
            .patch_to(&report)
            .or_else(|| self.life.stopped.then_some(Call::Delete));
        (call, wake)
    }

    fn patch_to(&self, report: &Status) -> Option<Call> {
        let patch = status::difference(self.view.uid(), &self.view.status, report)?;
        let mut hasher = DefaultHasher::new();
        patch.to_string().hash(&mut hasher);
        let print = hasher.finish();
        let ignored_by_server = print == self.last_patch && self.view.version() <= self.written;
        (!ignored_by_server).then_some(Call::Patch(patch, print))
    }

    fn pause_after(&self, refused: &Refused) -> Option<Duration> {
        let pod = format!("{}/{}", self.view.namespace(), self.view.name());
        match refused {
            // The watch will tell.
            Refused::Gone => Some(AGAIN_LATE),
            Refused::Conflict => Some(AGAIN_SOON),
            Refused::Invalid(why) => {
                tracing::error!(pod, why, "the server refused what a simulated kubelet wrote");
                Some(AGAIN_LATE)
            }
            Refused::Unreachable(why) => {
                tracing::warn!(pod, why, "a simulated kubelet does not reach the server");
                Some(AGAIN_SOON)
            }
        }
    }
}

fn read_script(defaults: &Arc<Script>, view: &PodView) -> Result<Arc<Script>, String> {
    if view.metadata.annotations.is_none() {
        return Ok(defaults.clone());
    }
    Script::parse(defaults, view.annotations()).map(Arc::new)
}

/// Addresses from 100.64.0.0/10, which no local network uses.
fn pod_ip(number: u32) -> String {
    let [_, b, c, d] = (number & 0x003f_ffff).to_be_bytes();
    format!("100.{}.{c}.{d}", 64 + b)
}

fn until(at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default()
}
