//! What a set of simulated nodes is made of, and what can be said of it.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;

use super::script::{Part, PullError, Script};

/// A set of simulated nodes and what its Pods do when they say nothing themselves.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// How many nodes.
    pub count: usize,
    /// Nodes are called `<prefix>-0`, `<prefix>-1`, … Two sets in one cluster need different prefixes.
    pub name_prefix: String,
    /// Labels of all nodes.
    pub labels: BTreeMap<String, String>,
    /// Labels given to the nodes in turn: with two entries, even and odd nodes differ.
    pub labels_in_turn: Vec<BTreeMap<String, String>>,
    /// Taints of all nodes. None by default; in a cluster that also has real nodes a taint keeps real work away.
    pub taints: Vec<Taint>,
    pub cpu: String,
    pub memory: String,
    pub pods_per_node: u32,
    /// Only Pods of this namespace get a life. All namespaces when not given.
    pub namespace: Option<String>,
    /// How many calls may be in flight.
    pub writers: usize,
    pub start_delay: Duration,
    pub pull_delay: Duration,
    pub ready_delay: Duration,
    pub terminate_delay: Duration,
    /// Images no Pod can pull.
    pub broken_images: Vec<String>,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            count: 1,
            name_prefix: "sim".to_owned(),
            labels: BTreeMap::new(),
            labels_in_turn: Vec::new(),
            taints: Vec::new(),
            cpu: "64".to_owned(),
            memory: "256Gi".to_owned(),
            pods_per_node: 250,
            namespace: None,
            writers: 64,
            start_delay: Duration::ZERO,
            pull_delay: Duration::ZERO,
            ready_delay: Duration::ZERO,
            terminate_delay: Duration::ZERO,
            broken_images: Vec::new(),
        }
    }
}

impl SimOptions {
    pub(super) fn script(&self) -> Script {
        let pull_error = match self.broken_images.as_slice() {
            [] => PullError::None,
            images => PullError::Images(images.to_vec()),
        };
        let part = Part {
            pull_delay: self.pull_delay,
            ready_delay: self.ready_delay,
            terminate_delay: self.terminate_delay,
            pull_error,
            ..Part::default()
        };
        Script::with_defaults(self.start_delay, part)
    }
}

/// How a simulated node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeHealth {
    Ready,
    /// The kubelet lives and says that the node is not ready (`Ready` is False). Its Pods go on.
    NotReady,
    /// The kubelet is dead: no heartbeats, no reports. The node controller finds out when its patience ends (40 s or more).
    Silent,
    /// Like `Silent`, and what the node controller would then write is written at once: the node's `Ready` is Unknown, that of its Pods False.
    Unreachable,
}

/// What a set has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimStats {
    /// Pods on the set's nodes now.
    pub pods: usize,
    pub patches: u64,
    pub deletes: u64,
    pub reads: u64,
    /// Calls that had to be made again.
    pub retries: u64,
}
