//! Pods that a user names in an object, looked up in the cluster.

use crate::told;
use futures::{StreamExt as _, future::BoxFuture, stream};
use k8s_openapi::api::core::v1::Pod;
use kruise_core::{cloneset::validate::NamedPod, shared::validate::label::subdomain_faults};
use kube::{Api, Client};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};
use tokio::time::timeout;

/// How long one Pod may take.
const DEADLINE: Duration = Duration::from_secs(3);
/// Pods that are asked for at the same time.
const AT_ONCE: usize = 16;

/// Where Pods are looked up.
pub trait FindPods: fmt::Debug + Send + Sync {
    /// One Pod.
    fn find<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, NamedPod>;
}

/// Several Pods.
pub(crate) async fn find_all(
    pods: &dyn FindPods,
    namespace: &str,
    names: BTreeSet<&str>,
) -> BTreeMap<String, NamedPod> {
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let found = stream::iter(names).map(async |name: String| {
        let pod = pods.find(namespace, &name).await;
        (name, pod)
    });
    found.buffer_unordered(AT_ONCE).collect().await
}

/// Asks the API server: its answer is true now, where a cache may not have seen a Pod yet that a user has.
pub(crate) struct ApiPods(pub(crate) Client);

impl fmt::Debug for ApiPods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiPods")
    }
}

impl FindPods for ApiPods {
    fn find<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, NamedPod> {
        Box::pin(async move {
            if !subdomain_faults(name).is_empty() {
                // No Pod has such a name, and it would make another address of ours.
                return NamedPod::Missing;
            }
            let api: Api<Pod> = Api::namespaced(self.0.clone(), namespace);
            match timeout(DEADLINE, api.get_metadata_opt(name)).await {
                Ok(Ok(Some(pod))) => {
                    let owners = pod.metadata.owner_references.unwrap_or_default();
                    let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
                    NamedPod::Found {
                        controller: controller.map(|owner| owner.uid),
                        is_being_deleted: pod.metadata.deletion_timestamp.is_some(),
                    }
                }
                Ok(Ok(None)) => NamedPod::Missing,
                Ok(Err(error)) => NamedPod::Unknown(told(&error)),
                Err(_) => NamedPod::Unknown("no answer from the API server".to_owned()),
            }
        })
    }
}
