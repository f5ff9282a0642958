//! How each kind is watched: which fields are kept, and by what objects are found.

use crate::Settings;
use kruise_api::pod::Pod;
use kruise_runtime::{
    cache::{Index, Kind, uid_key},
    resource::Resource,
};
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

impl Watched for Pod {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::projected(
            Resource::namespaced("", "v1", "Pod", "pods"),
            |pod: &Pod| (&pod.metadata).into(),
            |pod: &Pod| (&pod.metadata).into(),
        )
        .index(&PODS_BY_OWNER)
        .index(&PODS_BY_NODE)
    }
}
