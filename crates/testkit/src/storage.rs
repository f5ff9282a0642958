//! Storage for local clusters: claims get volumes on the nodes, and volumes grow.
//!
//! [`LocalStorage`] is an ordinary API client that does the work of an external provisioner and an external resizer for every StorageClass whose
//! provisioner is [`PROVISIONER`]. Binding, protection and the choice of a node stay with the real controller-manager and scheduler.
//!
//! | event | what it does |
//! |---|---|
//! | the controller-manager asks for a volume for a claim | a volume of the size asked for: a folder of the node that the scheduler chose, or of any node when the class does not wait for a Pod |
//! | a bound claim asks for more than it has | the volume's capacity, then the claim's status, get the new size; nothing is restarted |
//! | a volume that is to be deleted is released | the object goes, and the folder with it |
//!
//! A folder has no limit: the size is what the API shows.
//!
//! # Scripts
//!
//! Annotations of a claim say what shall happen to it; a changed annotation works at once.
//!
//! | key | value | meaning |
//! |---|---|---|
//! | `storage.kruise.test/provision` | `never` | the claim stays Pending |
//! | `storage.kruise.test/grow` | `never` | growing begins (condition `Resizing`) and does not end |
//! | | `fail` | growing fails (condition `ControllerResizeError`), and the claim keeps its size |
//! | | `restart` | the volume grows, the file system does not before a restart (condition `FileSystemResizePending`) |

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::calls::{Calls, Refused};
use crate::node::own_path;
use crate::watch;

/// The provisioner that StorageClasses name.
pub const PROVISIONER: &str = "storage.kruise.test";
/// Where volumes lie on their node.
const FOLDER: &str = "/var/lib/kubelet/local-volumes";
/// What the controller-manager writes on a claim that needs a volume.
const ASKED: &str = "volume.kubernetes.io/storage-provisioner";
/// What the scheduler writes on a claim that waits for its first Pod.
const CHOSEN_NODE: &str = "volume.kubernetes.io/selected-node";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const PROVISION: &str = "storage.kruise.test/provision";
const GROW: &str = "storage.kruise.test/grow";
const AT_ONCE: usize = 16;

/// The class that a local cluster has by default: claims wait for their first Pod, and can grow.
pub fn default_class() -> Value {
    let mut class = class("standard");
    class["metadata"]["annotations"] = json!({ "storageclass.kubernetes.io/is-default-class": "true" });
    class
}

/// A class of this storage.
pub fn class(name: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": { "name": name },
        "provisioner": PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    })
}

/// Serves claims while it lives. What it has provisioned stays.
#[derive(Debug)]
#[must_use = "claims are served only while this lives"]
pub struct LocalStorage(JoinHandle<()>);

impl LocalStorage {
    /// Serves the claims of a cluster whose nodes are simulated.
    pub fn start(client: Client) -> Self {
        Self::with_folders(client, None)
    }

    /// Serves the claims of a cluster; folders of volumes that are gone are removed from the nodes of the local cluster whose files lie in `cluster`.
    pub fn with_folders(client: Client, cluster: Option<PathBuf>) -> Self {
        let storage = Storage {
            calls: Calls::new(client),
            cluster,
        };
        Self(tokio::spawn(Arc::new(storage).run()))
    }

    /// Returns only if serving ends, which it should never do by itself.
    pub async fn ended(&mut self) {
        if let Err(failed) = (&mut self.0).await {
            tracing::error!(%failed, "local storage has ended");
        }
    }
}

impl Drop for LocalStorage {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Storage {
    calls: Calls,
    cluster: Option<PathBuf>,
}

enum Seen {
    Claim(Box<PersistentVolumeClaim>),
    Volume(Box<PersistentVolume>),
}

impl Storage {
    async fn run(self: Arc<Self>) {
        let client = &self.calls.client;
        let claims = watch::applied(Api::<PersistentVolumeClaim>::all(client.clone()));
        let volumes = watch::applied(Api::<PersistentVolume>::all(client.clone()));
        futures::stream::select(
            claims.map(|claim| claim.map(|claim| Seen::Claim(Box::new(claim)))),
            volumes.map(|volume| volume.map(|volume| Seen::Volume(Box::new(volume)))),
        )
        .for_each_concurrent(AT_ONCE, |seen| async {
            let served = match seen {
                Ok(Seen::Claim(claim)) => self.serve_claim(&claim).await,
                Ok(Seen::Volume(volume)) => self.serve_volume(&volume).await,
                Err(error) => {
                    tracing::warn!(%error, "watching claims and volumes");
                    Ok(())
                }
            };
            match served {
                // Somebody else was faster; the next event tells.
                Ok(()) | Err(Refused::Gone | Refused::Conflict) => {}
                Err(refused) => tracing::warn!(?refused, "a claim or a volume could not be served"),
            }
        })
        .await;
    }

    async fn serve_claim(&self, claim: &PersistentVolumeClaim) -> Result<(), Refused> {
        let asked = annotation(claim, ASKED) == Some(PROVISIONER);
        if !asked || claim.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        match claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()) {
            None if annotation(claim, PROVISION) == Some("never") => Ok(()),
            None => self.provision(claim).await,
            Some(volume) => self.grow(claim, volume).await,
        }
    }

    async fn provision(&self, claim: &PersistentVolumeClaim) -> Result<(), Refused> {
        let (Some(spec), Some(uid), Some(size)) = (&claim.spec, &claim.metadata.uid, requested(claim)) else {
            return Ok(());
        };
        let name = format!("pvc-{uid}");
        let mut volume = json!({
            "metadata": { "name": name, "annotations": { (PROVISIONED_BY): PROVISIONER } },
            "spec": {
                "capacity": { "storage": size },
                "accessModes": spec.access_modes,
                "volumeMode": spec.volume_mode,
                "storageClassName": spec.storage_class_name,
                "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": uid,
                    "namespace": claim.metadata.namespace, "name": claim.metadata.name,
                },
                "hostPath": { "path": format!("{FOLDER}/{name}"), "type": "DirectoryOrCreate" },
            },
        });
        if let Some(node) = annotation(claim, CHOSEN_NODE) {
            volume["spec"]["nodeAffinity"] = json!({ "required": { "nodeSelectorTerms": [{
                "matchExpressions": [{ "key": "kubernetes.io/hostname", "operator": "In", "values": [node] }],
            }] } });
        }
        let volume: PersistentVolume =
            serde_json::from_value(volume).map_err(|error| Refused::Invalid(error.to_string()))?;
        let (volumes, params) = (self.volumes(), PostParams::default());
        self.calls.insist(|| volumes.create(&params, &volume)).await.map(drop)
    }

    async fn grow(&self, claim: &PersistentVolumeClaim, volume: &str) -> Result<(), Refused> {
        let status = claim.status.as_ref();
        let capacity = status.and_then(|status| storage(status.capacity.as_ref()?));
        let (Some(wanted), Some(capacity)) = (requested(claim), capacity) else {
            return Ok(());
        };
        // Both are as the API server writes quantities, and it refuses to shrink a claim.
        if wanted == capacity {
            return Ok(());
        }
        match annotation(claim, GROW) {
            Some("never") => self.show(claim, "Resizing").await,
            Some("fail") => self.show(claim, "ControllerResizeError").await,
            Some("restart") => {
                self.resize(volume, wanted).await?;
                self.show(claim, "FileSystemResizePending").await
            }
            _ => {
                self.resize(volume, wanted).await?;
                let grown = json!({ "status": { "capacity": { "storage": wanted }, "conditions": null } });
                self.patch_status(claim, grown).await
            }
        }
    }

    async fn resize(&self, volume: &str, size: &Quantity) -> Result<(), Refused> {
        let volumes = self.volumes();
        let patch = Patch::Merge(json!({ "spec": { "capacity": { "storage": size } } }));
        let params = PatchParams::default();
        self.calls
            .insist(|| volumes.patch(volume, &params, &patch))
            .await
            .map(drop)
    }

    /// Gives a claim this condition, and no other.
    async fn show(&self, claim: &PersistentVolumeClaim, condition: &str) -> Result<(), Refused> {
        let conditions = claim.status.as_ref().and_then(|status| status.conditions.as_ref());
        if conditions.is_some_and(|shown| shown.iter().any(|shown| shown.type_ == condition)) {
            return Ok(());
        }
        let condition = json!({
            "type": condition, "status": "True", "reason": "Scripted", "message": "as the claim's annotation says",
            "lastTransitionTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        });
        self.patch_status(claim, json!({ "status": { "conditions": [condition] } }))
            .await
    }

    async fn patch_status(&self, claim: &PersistentVolumeClaim, patch: Value) -> Result<(), Refused> {
        let (Some(namespace), Some(name)) = (&claim.metadata.namespace, &claim.metadata.name) else {
            return Ok(());
        };
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.calls.client.clone(), namespace);
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.calls
            .insist(|| claims.patch_status(name, &params, &patch))
            .await
            .map(drop)
    }

    async fn serve_volume(&self, volume: &PersistentVolume) -> Result<(), Refused> {
        let annotations = volume.metadata.annotations.as_ref();
        let ours = annotations.and_then(|all| all.get(PROVISIONED_BY)).map(String::as_str) == Some(PROVISIONER);
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        let (Some(name), Some(spec)) = (&volume.metadata.name, &volume.spec) else {
            return Ok(());
        };
        let goes = phase == Some("Released") && spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete");
        if !ours || !goes || volume.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        if let (Some(cluster), Some(node)) = (&self.cluster, node_of(volume)) {
            remove(&own_path(cluster, &node, &format!("{FOLDER}/{name}")));
        }
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: volume.metadata.uid.clone(),
            resource_version: None,
        });
        let volumes = self.volumes();
        self.calls.insist(|| volumes.delete(name, &params)).await.map(drop)
    }

    fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.calls.client.clone())
    }
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%error, folder = %folder.display(), "the folder of a volume stays behind");
    }
}

fn annotation<'a>(claim: &'a PersistentVolumeClaim, key: &str) -> Option<&'a str> {
    claim.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn requested(claim: &PersistentVolumeClaim) -> Option<&Quantity> {
    storage(claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?)
}

fn storage(amounts: &BTreeMap<String, Quantity>) -> Option<&Quantity> {
    amounts.get("storage")
}

/// The node that a volume lies on.
fn node_of(volume: &PersistentVolume) -> Option<String> {
    let required = volume.spec.as_ref()?.node_affinity.as_ref()?.required.as_ref()?;
    let expression = required
        .node_selector_terms
        .first()?
        .match_expressions
        .as_ref()?
        .first()?;
    expression.values.as_ref()?.first().cloned()
}
