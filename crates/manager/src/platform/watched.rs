//! How each kind is watched: which fields are kept, and by what objects are found.

use super::images::PODS_BY_NAMESPACE;
use super::sidecars::PODS_BY_SIDECAR_SET;
use crate::Settings;
use kruise_admission::REVISIONS_BY_SIDECAR_SET;
use kruise_api::{
    cloneset::v1beta1::CloneSet, meta::PartialObject, names::label, pod::Pod, resource::Resource,
    revision::ControllerRevision, uniteddeployment::workload::SubsetWorkload,
};
use kruise_runtime::cache::{Index, Kind, uid_key};
use serde::de::DeserializeOwned;

/// A kind that can be asked for. There is one declaration per type, so that all who read it share one store.
pub trait Watched: DeserializeOwned + Send + Sync + Sized + 'static {
    /// What to watch.
    fn kind(settings: &Settings) -> Kind<Self>;
}

/// Pods by the UID of each owner, not only of the controller.
pub const PODS_BY_OWNER: Index<Pod> = Index::new("owner", |pod, key| {
    for owner in &pod.metadata.owner_references.0 {
        uid_key(&owner.uid, key);
    }
});

/// Pods by their node; those without a node are under no key.
pub const PODS_BY_NODE: Index<Pod> = Index::new("node", |pod, key| {
    if !pod.spec.node_name.is_empty() {
        key(&pod.spec.node_name);
    }
});

/// Pods that nobody manages, by namespace: kinds that adopt look for them.
pub const ORPHANS_BY_NAMESPACE: Index<Pod> = Index::new("orphan", |pod, key| {
    if pod.metadata.controller().is_none() {
        key(&pod.metadata.namespace);
    }
});

impl Watched for Pod {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of()
            .index(&PODS_BY_OWNER)
            .index(&PODS_BY_NODE)
            .index(&PODS_BY_NAMESPACE)
            .index(&ORPHANS_BY_NAMESPACE)
            .index(&PODS_BY_SIDECAR_SET)
    }
}

/// ControllerRevisions by their namespace: a workload also looks at those that nobody owns.
pub const REVISIONS_BY_NAMESPACE: Index<ControllerRevision> =
    Index::new("namespace", |revision, key| key(&revision.metadata.namespace));

impl Watched for ControllerRevision {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of()
            .index(&REVISIONS_BY_NAMESPACE)
            .index(&REVISIONS_BY_SIDECAR_SET)
    }
}

impl Watched for CloneSet {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of()
    }
}

/// Objects of which only the metadata is read, by the UID of each owner.
pub const HEADS_BY_OWNER: Index<PartialObject> = Index::new("owner", |head, key| {
    for owner in &head.metadata.owner_references.0 {
        uid_key(&owner.uid, key);
    }
});

/// A kind of which only the metadata is read.
pub(super) fn metadata_only(resource: &'static Resource) -> Kind<PartialObject> {
    Kind::partial(resource).index(&HEADS_BY_OWNER)
}

/// Workloads by the UID of the owner that manages them.
pub const SUBSETS_BY_OWNER: Index<SubsetWorkload> = Index::new("owner", |workload, key| {
    if let Some(owner) = workload.metadata.controller() {
        uid_key(&owner.uid, key);
    }
});

/// Workloads of subsets that nobody manages, by namespace.
pub const SUBSET_ORPHANS: Index<SubsetWorkload> = Index::new("orphan", |workload, key| {
    let meta = &workload.metadata;
    if meta.controller().is_none() && meta.label(label::SUBSET_NAME).is_some() {
        key(&meta.namespace);
    }
});

/// A kind of workload that subsets may have.
pub(super) fn subset(resource: &'static Resource) -> Kind<SubsetWorkload> {
    Kind::partial(resource).index(&SUBSETS_BY_OWNER).index(&SUBSET_ORPHANS)
}
