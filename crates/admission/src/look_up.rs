//! Objects that rules have to know of, looked up in the cluster.
//!
//! The cache of the process is asked first, where it has been listed and knows an object. It may be behind what a user has seen, so nobody is refused for
//! what it says or lacks: the API server is asked about what the cache does not know, and about all before a refusal ([`Freshness::Live`]).

use crate::find_pods;
use futures::{StreamExt as _, future::BoxFuture, stream};
use kruise_api::{
    cloneset::v1beta1::CloneSet,
    kind::Kind as _,
    names::{
        component::MANAGER_USER_AGENT,
        label,
        object::{CONFIGURATION, SYSTEM_NAMESPACE},
    },
    pod::Pod,
    resource::Resource,
    sidecarset::v1beta1::SidecarSet,
    statefulset::v1beta1::StatefulSet,
};
use kruise_core::{
    admission::{Lookups, NamedPod, Needs, ObjectRef},
    shared::{validate::label::subdomain_faults, workload::WorkloadRef},
};
use kruise_runtime::{cache::Stores, error::Error};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
    discovery::pinned_kind,
};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};
use tokio::time::timeout;

/// How long one object may take.
const DEADLINE: Duration = Duration::from_secs(3);
/// Objects that are asked for at the same time.
const AT_ONCE: usize = 16;
/// How long all pages of a list may take together.
const LIST_DEADLINE: Duration = Duration::from_secs(8);
/// Objects on a page of a list.
const PAGE: u32 = 500;

/// How new has to be what is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The cache will do where it knows an object.
    Cached,
    /// As the API server has it now.
    Live,
}

/// What was looked up.
#[derive(Debug, Default)]
pub struct Found {
    pub lookups: Lookups,
    /// Whether some of it is from the cache.
    pub is_cached: bool,
}

/// Where objects are looked up.
pub trait LookUp: fmt::Debug + Send + Sync {
    /// Looks up objects; those that have a namespace are in this one. [`Needs::objects`] are always live.
    fn look_up<'a>(&'a self, namespace: &'a str, needs: Needs, freshness: Freshness) -> BoxFuture<'a, Found>;
}

/// The cluster, by way of the cache and the API server.
pub struct Cluster {
    client: Client,
    stores: Stores,
    /// The manager's own.
    namespace: String,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("stores", &self.stores)
            .finish_non_exhaustive()
    }
}

impl LookUp for Cluster {
    fn look_up<'a>(&'a self, namespace: &'a str, needs: Needs, freshness: Freshness) -> BoxFuture<'a, Found> {
        let objects = stream::iter(needs.objects).map(async move |object| {
            let found = self.get(namespace, &object).await;
            (object, found)
        });
        Box::pin(async move {
            let mut pods = match freshness {
                Freshness::Cached => self.cached_pods(namespace, &needs.pods),
                Freshness::Live => BTreeMap::new(),
            };
            let is_cached = !pods.is_empty();
            let unknown: BTreeSet<String> = needs.pods.into_iter().filter(|name| !pods.contains_key(name)).collect();
            if !unknown.is_empty() {
                pods.extend(find_pods::find(&self.client, namespace, unknown).await);
            }
            let objects = objects.buffer_unordered(AT_ONCE).collect().await;
            Found {
                lookups: Lookups {
                    pods,
                    objects,
                    ..Lookups::default()
                },
                is_cached,
            }
        })
    }
}

impl Cluster {
    /// The cluster; without stores the API server alone is asked.
    pub fn new(client: Client, stores: Stores) -> Self {
        Self {
            client,
            stores,
            namespace: SYSTEM_NAMESPACE.to_owned(),
        }
    }

    /// Says which namespace is the manager's own.
    #[must_use]
    pub fn of_manager_in(self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self
        }
    }

    fn cached_pods(&self, namespace: &str, names: &BTreeSet<String>) -> BTreeMap<String, NamedPod> {
        let Some(store) = self.stores.synced::<Pod>() else {
            return BTreeMap::new();
        };
        let known = names.iter().filter_map(|name| {
            let pod = store.get(namespace, name)?;
            let found = NamedPod::Found {
                controller: pod.metadata.controller().map(|owner| owner.uid.to_string()),
                is_being_deleted: pod.metadata.is_deleting(),
            };
            Some((name.clone(), found))
        });
        known.collect()
    }

    async fn get(&self, namespace: &str, object: &ObjectRef) -> Result<Option<Value>, String> {
        use k8s_openapi::api::{apps::v1 as apps, core::v1 as core, storage::v1 as storage};
        let ours = &*self.namespace;
        match object {
            ObjectRef::AllOf(resource) => {
                let kind = GroupVersionKind::gvk(resource.group, resource.version, resource.kind);
                let kind = ApiResource::from_gvk_with_plural(&kind, resource.plural);
                self.list(Api::namespaced_with(self.client(), namespace, &kind), "")
                    .await
            }
            ObjectRef::Pod(name) => {
                self.named(
                    Api::namespaced_with(self.client(), namespace, &erased::<core::Pod>()),
                    name,
                )
                .await
            }
            ObjectRef::Node(name) => {
                self.named(Api::all_with(self.client(), &erased::<core::Node>()), name)
                    .await
            }
            ObjectRef::StorageClass(name) => {
                let classes = erased::<storage::StorageClass>();
                self.named(Api::all_with(self.client(), &classes), name).await
            }
            ObjectRef::DefaultStorageClass => {
                let classes = erased::<storage::StorageClass>();
                let classes = self.list(Api::all_with(self.client(), &classes), "").await?;
                Ok(classes.and_then(|classes| default_class(&classes).cloned()))
            }
            ObjectRef::Namespace(name) => {
                self.named(Api::all_with(self.client(), &erased::<core::Namespace>()), name)
                    .await
            }
            ObjectRef::SidecarSet(name) => {
                self.named(Api::all_with(self.client(), &erased::<SidecarSet>()), name)
                    .await
            }
            ObjectRef::SidecarSets => {
                self.list(Api::all_with(self.client(), &erased::<SidecarSet>()), "")
                    .await
            }
            ObjectRef::Revision(name) => {
                let revisions = erased::<apps::ControllerRevision>();
                self.named(Api::namespaced_with(self.client(), ours, &revisions), name)
                    .await
            }
            ObjectRef::RevisionsOfSidecarSet(set) => {
                let revisions = erased::<apps::ControllerRevision>();
                let selector = format!("{}={set}", label::SIDECAR_SET_NAME);
                self.list(Api::namespaced_with(self.client(), ours, &revisions), &selector)
                    .await
            }
            ObjectRef::Workload(workload) => {
                let resource = match timeout(DEADLINE, self.resource_of(workload)).await {
                    Ok(resource) => resource?,
                    Err(_) => return Err(NO_ANSWER.to_owned()),
                };
                let api = Api::namespaced_with(self.client(), namespace, &resource);
                self.named(api, &workload.name).await
            }
            ObjectRef::Configuration => {
                let maps = erased::<core::ConfigMap>();
                self.named(Api::namespaced_with(self.client(), ours, &maps), CONFIGURATION)
                    .await
            }
            ObjectRef::DryRun { resource, object } => self.try_to_create(resource, object).await,
        }
    }

    /// How a workload's kind is reached; of those that we do not know the API server is asked.
    async fn resource_of(&self, workload: &WorkloadRef) -> Result<ApiResource, String> {
        use k8s_openapi::api::{apps::v1 as apps, batch::v1 as batch};
        let known = [
            CloneSet::RESOURCE,
            StatefulSet::RESOURCE,
            apps::Deployment::RESOURCE,
            apps::ReplicaSet::RESOURCE,
            apps::StatefulSet::RESOURCE,
            batch::Job::RESOURCE,
        ];
        if let Some(known) = known.iter().find(|known| workload.is_of(known.group, known.kind)) {
            let kind = GroupVersionKind::gvk(known.group, known.version, known.kind);
            return Ok(ApiResource::from_gvk_with_plural(&kind, known.plural));
        }
        let version = workload.api_version.rsplit('/').next().unwrap_or_default();
        let kind = GroupVersionKind::gvk(workload.group(), version, &workload.kind);
        let found = pinned_kind(&self.client, &kind).await;
        found
            .map(|(resource, _)| resource)
            .map_err(|error| Error::from(error).to_string())
    }

    fn client(&self) -> Client {
        self.client.clone()
    }

    async fn named(&self, api: Api<DynamicObject>, name: &str) -> Result<Option<Value>, String> {
        if !subdomain_faults(name).is_empty() {
            // Nothing has such a name, and it would make another address of ours.
            return Ok(None);
        }
        match timeout(DEADLINE, api.get_opt(name)).await {
            Ok(Ok(object)) => object
                .map(|object| serde_json::to_value(object).map_err(|error| error.to_string()))
                .transpose(),
            Ok(Err(error)) => Err(Error::from(error).to_string()),
            Err(_) => Err(NO_ANSWER.to_owned()),
        }
    }

    /// Creates an object in the manager's namespace as a dry run. What is there already is good.
    async fn try_to_create(&self, resource: &Resource, object: &str) -> Result<Option<Value>, String> {
        let mut body: Value = serde_json::from_str(object).map_err(|error| error.to_string())?;
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("namespace".to_owned(), json!(self.namespace));
        }
        let path = format!(
            "{}?dryRun=All&fieldManager={MANAGER_USER_AGENT}",
            resource.path(&self.namespace)
        );
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes())
            .map_err(|error| error.to_string())?;
        match timeout(DEADLINE, self.client.request::<IgnoredAny>(request)).await {
            Ok(Ok(_)) => Ok(None),
            Ok(Err(kube::Error::Api(status))) if status.reason == "AlreadyExists" => Ok(None),
            Ok(Err(kube::Error::Api(status))) => serde_json::to_value(&status)
                .map(Some)
                .map_err(|error| error.to_string()),
            Ok(Err(error)) => Err(Error::from(error).to_string()),
            Err(_) => Err(NO_ANSWER.to_owned()),
        }
    }

    /// A list; nothing when the kind is not served.
    async fn list(&self, api: Api<DynamicObject>, selector: &str) -> Result<Option<Value>, String> {
        let mut items = Vec::new();
        let read = timeout(LIST_DEADLINE, async {
            let mut params = ListParams::default().limit(PAGE);
            if !selector.is_empty() {
                params = params.labels(selector);
            }
            loop {
                let page = api.list(&params).await?;
                items.extend(page.items);
                match page.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => params = params.continue_token(&token),
                    None => return Ok::<_, kube::Error>(()),
                }
            }
        });
        match read.await {
            Ok(Ok(())) => {
                let items = serde_json::to_value(items).map_err(|error| error.to_string())?;
                Ok(Some(json!({"items": items})))
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(None),
            Ok(Err(error)) => Err(Error::from(error).to_string()),
            Err(_) => Err(NO_ANSWER.to_owned()),
        }
    }
}

const IS_DEFAULT_CLASS: &str = "/metadata/annotations/storageclass.kubernetes.io~1is-default-class";
const NO_ANSWER: &str = "no answer from the API server";

/// The newest of those that say they are the default, as the API server chooses.
fn default_class(classes: &Value) -> Option<&Value> {
    let text = |class: &'_ Value, path: &str| class.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let is_default = |class: &&Value| text(class, IS_DEFAULT_CLASS).is_some_and(|value| value == "true");
    classes
        .get("items")?
        .as_array()?
        .iter()
        .filter(is_default)
        .max_by(|one, other| {
            let age = |class: &Value| text(class, "/metadata/creationTimestamp");
            let name = |class: &Value| text(class, "/metadata/name");
            age(one).cmp(&age(other)).then_with(|| name(other).cmp(&name(one)))
        })
}

fn erased<K: kube::Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

#[cfg(test)]
mod tests;
