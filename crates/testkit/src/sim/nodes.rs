//! Node objects and their Leases.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{NodeHealth, SET_LABEL, SimOptions};
use crate::calls::{Calls, Refused};

const LEASES: &str = "kube-node-lease";
/// The node controller gives a node up when its Lease is older than 40 s (50 s in newer releases).
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Sets of this many nodes and more beat half as often: two beats still fit into the controller's patience.
const MANY: usize = 500;
const AT_ONCE: usize = 16;

/// When each node's Lease is due. A node that is not listed does not beat.
pub(super) type Beats = Arc<Mutex<BTreeMap<String, Instant>>>;

pub(super) fn node_name(options: &SimOptions, index: usize) -> String {
    format!("{}-{index}", options.name_prefix)
}

/// Addresses from 198.18.0.0/15, the range set aside for benchmarks.
pub(super) fn node_ip(index: usize) -> String {
    let [_, b, c, d] = (index as u32 & 0x0001_ffff).to_be_bytes();
    format!("198.{}.{c}.{d}", 18 + b)
}

fn node(options: &SimOptions, index: usize, name: &str, version: &str) -> Value {
    let mut labels = BTreeMap::from([
        ("kubernetes.io/hostname".to_owned(), name.to_owned()),
        ("kubernetes.io/os".to_owned(), "linux".to_owned()),
        ("kubernetes.io/arch".to_owned(), "amd64".to_owned()),
        (SET_LABEL.to_owned(), options.name_prefix.clone()),
    ]);
    labels.extend(options.labels.clone());
    if !options.labels_in_turn.is_empty() {
        labels.extend(options.labels_in_turn[index % options.labels_in_turn.len()].clone());
    }
    let amounts = json!({
        "cpu": options.cpu, "memory": options.memory, "pods": options.pods_per_node.to_string(), "ephemeral-storage": "1Ti",
    });
    let fine = |kind: &str, reason: &str| node_condition(kind, "False", reason);
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": labels },
        "spec": { "taints": options.taints },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [
                { "type": "InternalIP", "address": node_ip(index) },
                { "type": "Hostname", "address": name },
            ],
            "conditions": [
                fine("MemoryPressure", "KubeletHasSufficientMemory"),
                fine("DiskPressure", "KubeletHasNoDiskPressure"),
                fine("PIDPressure", "KubeletHasSufficientPID"),
                ready_condition(NodeHealth::Ready),
            ],
            "nodeInfo": {
                "architecture": "amd64", "operatingSystem": "linux", "osImage": "simulated", "kernelVersion": "simulated",
                "kubeletVersion": version, "kubeProxyVersion": version, "containerRuntimeVersion": "containerd://simulated",
                "machineID": name, "systemUUID": name, "bootID": name,
            },
        },
    })
}

fn node_condition(kind: &str, status: &str, reason: &str) -> Value {
    let now = super::container::seconds(Timestamp::now());
    json!({
        "type": kind, "status": status, "reason": reason, "message": "written by a simulated kubelet",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    })
}

fn ready_condition(health: NodeHealth) -> Value {
    match health {
        NodeHealth::Ready => node_condition("Ready", "True", "KubeletReady"),
        NodeHealth::NotReady => node_condition("Ready", "False", "KubeletNotReady"),
        NodeHealth::Silent | NodeHealth::Unreachable => node_condition("Ready", "Unknown", "NodeStatusUnknown"),
    }
}

/// The nodes' side of the API.
#[derive(Clone)]
pub(super) struct Nodes {
    pub(super) calls: Calls,
    pub(super) options: Arc<SimOptions>,
    pub(super) version: String,
    pub(super) beats: Beats,
}

impl Nodes {
    fn nodes(&self) -> Api<Node> {
        Api::all(self.calls.client.clone())
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.calls.client.clone(), LEASES)
    }

    /// Creates nodes with their Leases. Nodes left over from an earlier run are taken over.
    pub(super) async fn join(&self, indices: impl Iterator<Item = usize>) -> Result<(), Refused> {
        let all: Vec<usize> = indices.collect();
        let interval = heartbeat(all.len());
        let count = all.len() as u32;
        let now = Instant::now();
        let joins = all.into_iter().enumerate().map(|(place, index)| async move {
            let name = node_name(&self.options, index);
            let uid = self.create_node(index, &name).await?;
            self.create_lease(&name, &uid).await?;
            // Spread over the interval, so that the server never sees a burst of beats.
            let due = now + interval + interval * (place as u32) / count;
            lock(&self.beats).insert(name, due);
            Ok(())
        });
        let mut joins = futures::stream::iter(joins).buffer_unordered(AT_ONCE);
        while let Some(joined) = joins.next().await {
            joined?;
        }
        Ok(())
    }

    /// Creates the node, or makes an existing one of that name what it should be. Returns its uid.
    async fn create_node(&self, index: usize, name: &str) -> Result<String, Refused> {
        let object = node(&self.options, index, name, &self.version);
        let typed: Node =
            serde_json::from_value(object.clone()).map_err(|error| Refused::Invalid(error.to_string()))?;
        let nodes = self.nodes();
        let params = PostParams::default();
        match self.calls.insist(|| nodes.create(&params, &typed)).await {
            Err(Refused::Conflict) => {}
            created => return created.map(|node| node.metadata.uid.unwrap_or_default()),
        }
        let params = PatchParams::default();
        let metadata = Patch::Merge(json!({ "metadata": object["metadata"], "spec": object["spec"] }));
        self.calls.insist(|| nodes.patch(name, &params, &metadata)).await?;
        let status = Patch::Strategic(json!({ "status": object["status"] }));
        let node = self.calls.insist(|| nodes.patch_status(name, &params, &status)).await?;
        Ok(node.metadata.uid.unwrap_or_default())
    }

    /// Like a kubelet's, the Lease belongs to its node and goes with it.
    async fn create_lease(&self, name: &str, uid: &str) -> Result<(), Refused> {
        let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": uid });
        let lease: Lease = serde_json::from_value(json!({
            "metadata": { "name": name, "ownerReferences": [owner] },
            "spec": { "holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro_now() },
        }))
        .map_err(|error| Refused::Invalid(error.to_string()))?;
        let leases = self.leases();
        let params = PostParams::default();
        match self.calls.insist(|| leases.create(&params, &lease)).await {
            Err(Refused::Conflict) => self.renew(name).await,
            other => other.map(drop),
        }
    }

    async fn renew(&self, name: &str) -> Result<(), Refused> {
        let patch = Patch::Merge(json!({ "spec": { "renewTime": micro_now() } }));
        let leases = self.leases();
        let params = PatchParams::default();
        self.calls
            .insist(|| leases.patch(name, &params, &patch))
            .await
            .map(drop)
    }

    /// Renews every Lease in time, for ever. A Lease somebody deleted comes back while its node exists.
    pub(super) async fn keep_beating(self) {
        loop {
            let now = Instant::now();
            let (due, next) = {
                let mut beats = lock(&self.beats);
                let interval = heartbeat(beats.len());
                let mut due = Vec::new();
                for (name, at) in beats.iter_mut().filter(|(_, at)| **at <= now) {
                    due.push(name.clone());
                    *at = now + interval;
                }
                (due, beats.values().min().copied())
            };
            futures::stream::iter(due)
                .for_each_concurrent(AT_ONCE, |name| self.beat(name))
                .await;
            // Looking twice a second is often enough, also for nodes that join meanwhile.
            let soonest = Instant::now() + Duration::from_millis(500);
            tokio::time::sleep_until(next.map_or(soonest, |next| next.min(soonest))).await;
        }
    }

    async fn beat(&self, name: String) {
        let result = match self.renew(&name).await {
            Err(Refused::Gone) => match self.nodes().get_metadata_opt(&name).await {
                Ok(Some(node)) => {
                    self.create_lease(&name, node.metadata.uid.as_deref().unwrap_or_default())
                        .await
                }
                Ok(None) => {
                    lock(&self.beats).remove(&name);
                    Ok(())
                }
                Err(error) => Err(Refused::Unreachable(error.to_string())),
            },
            other => other,
        };
        if let Err(refused) = result {
            tracing::warn!(node = name, ?refused, "a simulated node could not renew its Lease");
        }
    }

    pub(super) async fn write_health(&self, name: &str, health: NodeHealth) -> Result<(), Refused> {
        let patch = Patch::Strategic(json!({ "status": { "conditions": [ready_condition(health)] } }));
        let nodes = self.nodes();
        let params = PatchParams::default();
        self.calls
            .insist(|| nodes.patch_status(name, &params, &patch))
            .await
            .map(drop)
    }

    pub(super) async fn delete(&self, name: &str) -> Result<(), Refused> {
        let nodes = self.nodes();
        let params = DeleteParams::default();
        match self.calls.insist(|| nodes.delete(name, &params)).await {
            Ok(_) | Err(Refused::Gone) => Ok(()),
            Err(refused) => Err(refused),
        }
    }

    /// Deletes all nodes of this set with one call; the garbage collector takes their Leases.
    pub(super) async fn delete_all(&self) -> Result<(), Refused> {
        let ours = ListParams::default().labels(&format!("{SET_LABEL}={}", self.options.name_prefix));
        let nodes = self.nodes();
        let params = DeleteParams::default();
        self.calls
            .insist(|| nodes.delete_collection(&params, &ours))
            .await
            .map(drop)
    }
}

fn heartbeat(nodes: usize) -> Duration {
    if nodes < MANY { HEARTBEAT } else { HEARTBEAT * 2 }
}

fn micro_now() -> String {
    format!("{:.6}", Timestamp::now())
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
