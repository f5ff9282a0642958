//! One task that gives life to all Pods of a set of nodes.
//!
//! It owns one watch, one heap of timers and a bounded number of calls in flight. A Pod is looked at when something about it changed: the
//! watch brought a newer version, a timer rang, its node's health changed, a call ended. Looking means: advance its life, compute its
//! report, and send the difference if there is one. A Pod has at most one call in flight, and after a write it rests until the watch has
//! shown the result, so that nothing is ever decided twice from an old reading. The deciding itself is in [`super::entry`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::Api;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::NodeHealth;
use super::entry::{After, Answer, Entry, Node, Turn};
use super::script::Script;
use super::view::PodView;
use crate::calls::Calls;
use crate::watch::{self, Event};

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
        let mut watch = pin!(watch::events_of(pods, "spec.nodeName!="));
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
                for uid in &uids {
                    self.look(uid);
                }
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

    fn observe(&mut self, event: Event<PodView>, listed: &mut HashSet<Uid>) {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(view) => {
                if let Some(uid) = self.learn(view) {
                    listed.insert(uid);
                }
            }
            Event::InitDone => {
                let gone: Vec<Uid> = self.pods.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                for uid in &gone {
                    self.forget(uid);
                }
                // Whatever was written before the list is in it.
                self.pods.values_mut().for_each(Entry::trust_view);
                listed.clear();
            }
            Event::Apply(view) => drop(self.learn(view)),
            Event::Delete(view) => self.forget(view.uid()),
        }
    }

    /// Takes in a Pod's newest version, when the Pod is on a node of ours.
    fn learn(&mut self, view: PodView) -> Option<Uid> {
        let node = self.nodes.get(&view.spec.node_name)?;
        let uid: Uid = view.uid().into();
        if let Some(entry) = self.pods.get_mut(&uid) {
            entry.learn(view, &self.defaults);
        } else {
            let ip = if view.spec.host_network {
                node.ip.clone()
            } else {
                self.next_ip = self.next_ip.wrapping_add(1);
                pod_ip(self.next_ip)
            };
            let entry = Entry::new(view, &self.defaults, ip, Timestamp::now());
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
        match &mut entry.turn {
            Turn::Calling { dirty } => *dirty = true,
            Turn::Queued => {}
            Turn::Resting => {
                entry.turn = Turn::Queued;
                self.queue.push_back(uid.clone());
            }
        }
    }

    fn dispatch(&mut self) {
        while self.in_flight.len() < self.most_calls
            && let Some(uid) = self.queue.pop_front()
        {
            let Some(entry) = self.pods.get_mut(&uid) else { continue };
            entry.turn = Turn::Resting;
            // The watch has still to show what was written; it will bring the Pod back here.
            if !entry.is_current() {
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
                entry.turn = Turn::Calling { dirty: false };
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
        match entry.take(answer) {
            After::Look => self.look(uid),
            After::Rest => {}
            After::Pause(pause) => {
                let at = Timestamp::now() + pause;
                entry.wake = Some(at);
                self.timers.push(Reverse((at, uid.clone())));
            }
        }
    }
}

/// Addresses from 100.64.0.0/10, which no local network uses.
fn pod_ip(number: u32) -> String {
    let [_, b, c, d] = (number & 0x003f_ffff).to_be_bytes();
    format!("100.{}.{c}.{d}", 64 + b)
}

fn until(at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default()
}
