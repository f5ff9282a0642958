//! May the installation be removed?
//!
//! Removing it deletes the CRDs, and with them every workload and its Pods. So `helm uninstall` asks first: as long as one
//! CloneSet, StatefulSet or DaemonSet of ours is left anywhere, the answer is no. A question that cannot be answered is a
//! no as well. A kind that is not installed has no objects.

use kruise_api::names::group::{APPS, V1BETA1};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};
use std::time::Duration;
use tokio::time::timeout;

/// How long one list may take.
const PATIENCE: Duration = Duration::from_secs(30);

const WORKLOADS: [(&str, &str); 3] = [
    ("CloneSet", "clonesets"),
    ("StatefulSet", "statefulsets"),
    ("DaemonSet", "daemonsets"),
];

/// Why the installation must stay.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(
        "there is still at least one {plural}.{APPS} ({namespace}/{name}); delete all of them first, \
         or their Pods would be deleted with the installation"
    )]
    InUse {
        plural: &'static str,
        namespace: String,
        name: String,
    },
    #[error("cannot see whether there are {plural}.{APPS}: {reason}")]
    Unknown { plural: &'static str, reason: String },
}

/// Looks for workloads of ours in all namespaces.
pub async fn check(client: &Client) -> Result<(), Refusal> {
    for (kind, plural) in WORKLOADS {
        match timeout(PATIENCE, first_of(client, kind, plural)).await {
            Ok(Ok(None)) => {}
            Ok(Ok(Some((namespace, name)))) => {
                return Err(Refusal::InUse {
                    plural,
                    namespace,
                    name,
                });
            }
            Ok(Err(error)) => {
                return Err(Refusal::Unknown {
                    plural,
                    reason: error.to_string(),
                });
            }
            Err(_) => {
                return Err(Refusal::Unknown {
                    plural,
                    reason: format!("no answer within {PATIENCE:?}"),
                });
            }
        }
    }
    Ok(())
}

/// Namespace and name of one object.
async fn first_of(client: &Client, kind: &str, plural: &str) -> kube::Result<Option<(String, String)>> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(APPS, V1BETA1, kind), plural);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    match api.list_metadata(&ListParams::default().limit(1)).await {
        Ok(list) => {
            let found = list.items.into_iter().next().map(|object| object.metadata);
            Ok(found.map(|meta| (meta.namespace.unwrap_or_default(), meta.name.unwrap_or_default())))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}
