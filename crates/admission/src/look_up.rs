//! Objects that rules have to know of, looked up in the cluster.

use crate::find_pods;
use futures::{
    StreamExt as _,
    future::BoxFuture,
    stream::{self},
};
use kruise_core::{
    admission::{Lookups, Needs, ObjectRef},
    shared::validate::label::subdomain_faults,
};
use kruise_runtime::error::Error;
use kube::{Api, Client, api::DynamicObject, core::ApiResource};
use serde_json::Value;
use std::{fmt, time::Duration};
use tokio::time::timeout;

/// How long one object may take.
const DEADLINE: Duration = Duration::from_secs(3);
/// Objects that are asked for at the same time.
const AT_ONCE: usize = 16;

/// Where objects are looked up.
pub trait LookUp: fmt::Debug + Send + Sync {
    /// Looks up objects; those that have a namespace are in this one.
    fn look_up<'a>(&'a self, namespace: &'a str, needs: Needs) -> BoxFuture<'a, Lookups>;
}

/// Asks the API server: its answer is true now, where a cache may not have seen what a user has.
pub struct ApiServer(pub Client);

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiServer")
    }
}

impl LookUp for ApiServer {
    fn look_up<'a>(&'a self, namespace: &'a str, needs: Needs) -> BoxFuture<'a, Lookups> {
        let objects = stream::iter(needs.objects).map(async move |object| {
            let found = self.get(namespace, &object).await;
            (object, found)
        });
        Box::pin(async move {
            Lookups {
                pods: find_pods::find(&self.0, namespace, needs.pods).await,
                objects: objects.buffer_unordered(AT_ONCE).collect().await,
                ..Lookups::default()
            }
        })
    }
}

impl ApiServer {
    async fn get(&self, namespace: &str, object: &ObjectRef) -> Result<Option<Value>, String> {
        let client = self.0.clone();
        let (api, name): (Api<DynamicObject>, _) = match object {
            ObjectRef::Pod(name) => {
                let pods = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
                (Api::namespaced_with(client, namespace, &pods), name)
            }
            ObjectRef::Node(name) => {
                let nodes = ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&());
                (Api::all_with(client, &nodes), name)
            }
        };
        if !subdomain_faults(name).is_empty() {
            // Nothing has such a name, and it would make another address of ours.
            return Ok(None);
        }
        match timeout(DEADLINE, api.get_opt(name)).await {
            Ok(Ok(object)) => object
                .map(|object| serde_json::to_value(object).map_err(|error| error.to_string()))
                .transpose(),
            Ok(Err(error)) => Err(Error::from(error).to_string()),
            Err(_) => Err("no answer from the API server".to_owned()),
        }
    }
}
