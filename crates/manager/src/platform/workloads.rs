//! Workloads of any kind: from a reference, or from the owner of a Pod, to the workload with its replicas.
//!
//! - Deployments, StatefulSets of both groups and CloneSets are watched, as far as their replicas go; so is who owns a ReplicaSet.
//! - Of any other kind the `scale` subresource is read when it is needed ([`Workloads::look_up`]), which every kind has that can be scaled. Of one without it the
//!   replicas are not known. A right that is missing is told with the API server's words.

use super::{HEADS_BY_OWNER, PODS_BY_NAMESPACE, PODS_BY_OWNER, Platform};
use k8s_openapi::{
    api::apps::v1::{Deployment, ReplicaSet, StatefulSet},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kruise_api::{
    cloneset::v1beta1::CloneSet,
    kind::Kind as _,
    meta::{Object as _, Owned as _, OwnerReference, PartialObject, group_of},
    pod::Pod,
    resource::Resource,
    scaled::Scaled,
    statefulset::v1beta1::StatefulSet as OurStatefulSet,
};
use kruise_core::shared::{
    selector,
    workload::{Replicas, Workload, WorkloadRef},
};
use kruise_runtime::{cache::Store, error::Error};
use kube::{Api, Client, api::DynamicObject, core::GroupVersionKind, discovery::pinned_kind};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::timeout;

/// How long it may take to look up one workload.
const DEADLINE: Duration = Duration::from_secs(5);

/// What was found of a workload; nothing when there is none, or why it is not known.
pub type Resolved = Result<Option<Workload>, String>;

/// All workloads of the cluster.
pub struct Workloads {
    client: Client,
    /// Stores of kinds that are watched for their replicas.
    scaled: Vec<Store<Scaled>>,
    sets: Store<CloneSet>,
    replica_sets: Store<PartialObject>,
    pods: Store<Pod>,
}

impl std::fmt::Debug for Workloads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workloads").finish_non_exhaustive()
    }
}

impl Workloads {
    /// Asks for the stores, which is what makes their kinds watched.
    pub fn new(platform: &mut Platform) -> Self {
        let watched: [&'static Resource; 3] = [Deployment::RESOURCE, StatefulSet::RESOURCE, OurStatefulSet::RESOURCE];
        Self {
            client: platform.client().clone(),
            scaled: watched.map(|resource| platform.scaled_store(resource)).into(),
            sets: platform.store(),
            replica_sets: platform.metadata_store(ReplicaSet::RESOURCE),
            pods: platform.store(),
        }
    }

    /// Returns the stores of kinds that are watched for their replicas.
    pub fn scaled(&self) -> &[Store<Scaled>] {
        &self.scaled
    }

    /// Returns the CloneSets.
    pub fn clone_sets(&self) -> &Store<CloneSet> {
        &self.sets
    }

    /// Returns the heads of ReplicaSets, which say who owns them.
    pub fn replica_sets(&self) -> &Store<PartialObject> {
        &self.replica_sets
    }

    /// Returns the workload that an owner of Pods stands for: a ReplicaSet of a Deployment for the Deployment.
    pub fn of_owner(&self, namespace: &str, owner: &OwnerReference) -> WorkloadRef {
        let reference = WorkloadRef::from(owner);
        self.above(namespace, &reference).unwrap_or(reference)
    }

    fn above(&self, namespace: &str, reference: &WorkloadRef) -> Option<WorkloadRef> {
        if !reference.is_of(ReplicaSet::GROUP, ReplicaSet::KIND) {
            return None;
        }
        let set = self.replica_sets.get(namespace, &reference.name)?;
        let deployment = set.controlled_by(Deployment::GROUP, Deployment::KIND)?;
        Some(WorkloadRef::new(Deployment::API_VERSION, Deployment::KIND, deployment))
    }

    /// Returns a workload of a kind that is watched; nothing when the kind is not.
    pub fn watched(&self, namespace: &str, reference: &WorkloadRef) -> Option<Option<Workload>> {
        let reference = self.above(namespace, reference).unwrap_or_else(|| reference.clone());
        if reference.is_of(CloneSet::GROUP, CloneSet::KIND) {
            return Some(self.sets.get(namespace, &reference.name).map(|set| Workload {
                uid: set.metadata.uid.clone().unwrap_or_default(),
                replicas: Replicas::Wanted(set.spec.replicas.unwrap_or(1)),
                selector: Some(set.spec.selector.clone()),
                is_deleting: set.metadata.deletion_timestamp.is_some(),
                reference,
            }));
        }
        let store = self.scaled.iter().find(|store| {
            let resource = store.resource();
            reference.is_of(resource.group, resource.kind)
        })?;
        Some(store.get(namespace, &reference.name).map(|scaled| Workload {
            uid: scaled.metadata.uid.to_string(),
            replicas: Replicas::Wanted(scaled.spec.replicas.unwrap_or(1)),
            selector: scaled.spec.selector.clone(),
            is_deleting: scaled.metadata.is_deleting(),
            reference,
        }))
    }

    /// Reads a workload of any kind from the API server.
    pub async fn look_up(&self, namespace: &str, reference: &WorkloadRef) -> Resolved {
        look_up(&self.client, namespace, reference).await
    }

    /// Returns the Pods of a workload. Those of a Deployment are its ReplicaSets'; those of a kind that owns none itself have its labels.
    pub fn pods(&self, namespace: &str, workload: &Workload) -> Vec<Arc<Pod>> {
        if workload.reference.is_of(Deployment::GROUP, Deployment::KIND) {
            let sets = self.replica_sets.by(&HEADS_BY_OWNER, &workload.uid);
            let sets: Vec<_> = sets.into_iter().filter(|set| !set.is_deleting()).collect();
            if !sets.is_empty() {
                let of_set = |set: &Arc<PartialObject>| self.pods.by(&PODS_BY_OWNER, &set.metadata.uid.to_string());
                return sets.iter().flat_map(of_set).collect();
            }
        }
        let owned = self.pods.by(&PODS_BY_OWNER, &workload.uid);
        match &workload.selector {
            Some(labels) if owned.is_empty() && self.watched(namespace, &workload.reference).is_none() => {
                self.with_labels(namespace, labels)
            }
            _ => owned,
        }
    }

    /// Returns the Pods of a namespace with these labels.
    pub fn with_labels(&self, namespace: &str, labels: &LabelSelector) -> Vec<Arc<Pod>> {
        if selector::is_empty(labels) {
            return Vec::new();
        }
        let matches = |pod: &Pod| selector::matches(labels, |key| pod.metadata.label(key));
        self.pods.select(&PODS_BY_NAMESPACE, namespace, matches)
    }

    /// Returns the distinct controllers of Pods, each with its UID, as far as they count as workloads.
    pub fn owners(&self, namespace: &str, pods: &[Arc<Pod>]) -> BTreeMap<WorkloadRef, Option<String>> {
        let mut owners = BTreeMap::new();
        for owner in pods.iter().filter_map(|pod| pod.metadata.controller()) {
            let reference = self.of_owner(namespace, owner);
            // The owner of a ReplicaSet is known by its name only.
            let is_direct = reference.name == *owner.name && reference.group() == group_of(&owner.api_version);
            owners.insert(reference, is_direct.then(|| owner.uid.to_string()));
        }
        owners
    }
}

/// Reads a workload of any kind from the API server.
pub async fn look_up(client: &Client, namespace: &str, reference: &WorkloadRef) -> Resolved {
    match timeout(DEADLINE, read(client, namespace, reference)).await {
        Ok(found) => found.map_err(|error| {
            let WorkloadRef { kind, name, .. } = reference;
            format!("{kind} {name} cannot be read: {}", Error::from(error))
        }),
        Err(_) => Err(format!(
            "{} {} could not be read in time",
            reference.kind, reference.name
        )),
    }
}

async fn read(client: &Client, namespace: &str, reference: &WorkloadRef) -> kube::Result<Option<Workload>> {
    let group = reference.group();
    let version = reference.api_version.rsplit('/').next().unwrap_or_default();
    let kind = GroupVersionKind::gvk(group, version, &reference.kind);
    let (resource, capabilities) = pinned_kind(client, &kind).await?;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let found = |uid: Option<String>, replicas, selector, is_deleting| Workload {
        reference: reference.clone(),
        uid: uid.unwrap_or_default(),
        replicas,
        selector,
        is_deleting,
    };
    let has_scale = capabilities
        .subresources
        .iter()
        .any(|(part, _)| part.plural.ends_with("scale"));
    if has_scale {
        match api.get_scale(&reference.name).await {
            Ok(scale) => {
                let wanted = scale.spec.and_then(|spec| spec.replicas).unwrap_or_default();
                let labels = scale.status.and_then(|status| status.selector);
                let selector = labels.as_deref().and_then(selector::parse);
                let is_deleting = scale.metadata.deletion_timestamp.is_some();
                return Ok(Some(found(
                    scale.metadata.uid,
                    Replicas::Wanted(wanted),
                    selector,
                    is_deleting,
                )));
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    let object = api.get_metadata_opt(&reference.name).await?;
    Ok(object.map(|object| {
        let is_deleting = object.metadata.deletion_timestamp.is_some();
        found(object.metadata.uid, Replicas::Unknown, None, is_deleting)
    }))
}
