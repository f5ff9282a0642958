//! Objects that a request is about, read from the cluster when it comes: what a cache has may be older than what the user sees.

use crate::told;
use futures::future::BoxFuture;
use kruise_core::shared::validate::label::subdomain_faults;
use kube::{Api, Client, api::DynamicObject, core::ApiResource};
use serde_json::Value;
use std::{fmt, time::Duration};
use tokio::time::timeout;

/// How long one object may take.
const DEADLINE: Duration = Duration::from_secs(3);

/// What was found: the object, nothing, or why nobody knows.
pub type Found = Result<Option<Value>, String>;

/// Where Pods and nodes are looked up.
pub trait LookUp: fmt::Debug + Send + Sync {
    /// One Pod.
    fn pod<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Found>;
    /// One node.
    fn node<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Found>;
}

/// Asks the API server.
pub(crate) struct ApiObjects(pub(crate) Client);

impl fmt::Debug for ApiObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiObjects")
    }
}

impl LookUp for ApiObjects {
    fn pod<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Found> {
        let pods = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
        let pods = Api::namespaced_with(self.0.clone(), namespace, &pods);
        Box::pin(get(pods, name))
    }

    fn node<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Found> {
        let nodes = ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&());
        Box::pin(get(Api::all_with(self.0.clone(), &nodes), name))
    }
}

async fn get(api: Api<DynamicObject>, name: &str) -> Found {
    if !subdomain_faults(name).is_empty() {
        // Nothing has such a name, and it would make another address of ours.
        return Ok(None);
    }
    match timeout(DEADLINE, api.get_opt(name)).await {
        Ok(Ok(object)) => object
            .map(|object| serde_json::to_value(object).map_err(|error| error.to_string()))
            .transpose(),
        Ok(Err(error)) => Err(told(&error)),
        Err(_) => Err("no answer from the API server".to_owned()),
    }
}
