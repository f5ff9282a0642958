//! Deletions of Kubernetes' own objects that are protected by a label. Those of our kinds are refused in [`crate::admit`]; the rules are in
//! [`kruise_core::shared::validate::deletion_protection`].
//!
//! - The object of the request is judged, never one of the cache. One that cannot be read is answered 400.
//! - Pods of a namespace are counted in the cache, which may be a moment behind; that there are none is only believed of the API server. Claims, and objects
//!   of a CRD, are listed at the API server. When that is not possible the answer is no, and says why.
//! - A refusal is 403, is counted and written down; those of Services and Ingresses are neither.

use crate::{Context, Request, Verdict, descriptor::Descriptor};
use futures::future::BoxFuture;
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, Pod as WholePod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kruise_api::{gates::Gate, pod::Pod};
use kruise_core::shared::{
    availability::is_active,
    validate::deletion_protection::{self, Protection, has_children},
};
use kruise_runtime::{cache::Index, error::Error};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use serde::{Deserialize, de::DeserializeOwned};
use std::{fmt, time::Duration};
use tokio::time::timeout;

/// How long all pages of a list may take together.
const DEADLINE: Duration = Duration::from_secs(8);
/// Objects on a page of a list.
const PAGE: u32 = 500;

/// Pods by namespace, as the manager's cache has them.
const PODS_BY_NAMESPACE: Index<Pod> = Index::new("namespace", |pod, key| key(&pod.metadata.namespace));

/// What is read of an object that is to be deleted.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Object<Spec> {
    metadata: ObjectMeta,
    spec: Spec,
}

/// `/validate-apps-deployment`, `-replicaset`, `-statefulset`.
pub(crate) fn workload<'a>(
    request: &'a Request<'a>,
    context: &'a Context,
    descriptor: &'static Descriptor,
) -> BoxFuture<'a, Verdict> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Spec {
        replicas: Option<i32>,
    }
    decided(async move {
        let Some((object, protection)) = protected::<Spec>(request, context)? else {
            return Ok(());
        };
        let refusal = match protection {
            Protection::Always => Some(deletion_protection::always()),
            Protection::Cascading => has_children("replicas", object.spec.replicas.unwrap_or_default().into()),
        };
        let Some(refusal) = refusal else { return Ok(()) };
        context.audit.deletion_refused(kind_of(descriptor), request).await;
        Err(Verdict::refuse(403, refusal))
    })
}

/// `/validate-service`, `/validate-ingress`.
pub(crate) fn endpoint(request: &Request<'_>, context: &Context) -> Verdict {
    match protected::<serde::de::IgnoredAny>(request, context) {
        Ok(Some((_, Protection::Always))) => Verdict::refuse(403, deletion_protection::always()),
        Ok(_) => Verdict::allow(),
        Err(refusal) => refusal,
    }
}

/// `/validate-namespace`.
pub(crate) fn namespace<'a>(
    request: &'a Request<'a>,
    context: &'a Context,
    _: &'static Descriptor,
) -> BoxFuture<'a, Verdict> {
    decided(async move {
        let Some((object, protection)) = protected::<serde::de::IgnoredAny>(request, context)? else {
            return Ok(());
        };
        let name = object.metadata.name.as_deref().unwrap_or(&request.name);
        let refusal = match protection {
            Protection::Always => Some(deletion_protection::always()),
            Protection::Cascading => namespace_children(context, name).await,
        };
        let Some(refusal) = refusal else { return Ok(()) };
        context.audit.namespace_deletion_refused(request).await;
        Err(Verdict::refuse(403, refusal))
    })
}

async fn namespace_children(context: &Context, namespace: &str) -> Option<String> {
    let pods = context.stores.synced::<Pod>().map_or(0, |pods| {
        let mut count = 0;
        pods.select(&PODS_BY_NAMESPACE, namespace, |pod| {
            count += i64::from(is_active(pod));
            false
        });
        count
    });
    let client = &context.client;
    let pods = if pods > 0 {
        Ok(pods)
    } else {
        let api: Api<WholePod> = Api::namespaced(client.clone(), namespace);
        let is_active = |pod: &WholePod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
        };
        count(&api, is_active).await
    };
    match pods {
        Ok(0) => {}
        Ok(pods) => return has_children("active pods", pods),
        Err(error) => return Some(deletion_protection::unknown_children("pods", &error)),
    }
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let is_bound = |claim: &PersistentVolumeClaim| {
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        claim.metadata.deletion_timestamp.is_none() && phase == Some("Bound")
    };
    match count(&api, is_bound).await {
        Ok(claims) => has_children("\"Bound\" status pvc", claims),
        Err(error) => Some(deletion_protection::unknown_children("pvc", &error)),
    }
}

/// What is read of a CRD, in either version.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Definition {
    group: String,
    names: Names,
    version: String,
    versions: Vec<DefinedVersion>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Names {
    kind: String,
    plural: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DefinedVersion {
    name: String,
    storage: bool,
}

/// `/validate-customresourcedefinition`.
pub(crate) fn definition<'a>(
    request: &'a Request<'a>,
    context: &'a Context,
    _: &'static Descriptor,
) -> BoxFuture<'a, Verdict> {
    decided(async move {
        let Some((object, protection)) = protected::<Definition>(request, context)? else {
            return Ok(());
        };
        let gate = Gate::DeletionProtectionForCRDCascadingGate;
        let refusal = match protection {
            Protection::Always => Some(deletion_protection::always()),
            Protection::Cascading if !context.gates.enabled(gate) => {
                Some(format!("feature-gate {gate} is not enabled"))
            }
            Protection::Cascading => defined_objects(&context.client, &object.spec).await,
        };
        let Some(refusal) = refusal else { return Ok(()) };
        context.audit.crd_deletion_refused(request).await;
        Err(Verdict::refuse(403, refusal))
    })
}

async fn defined_objects(client: &Client, definition: &Definition) -> Option<String> {
    let stored = definition.versions.iter().find(|version| version.storage);
    let version = stored.map_or(definition.version.as_str(), |version| version.name.as_str());
    let Definition { group, names, .. } = definition;
    let kind = GroupVersionKind::gvk(group, version, &names.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &names.plural);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let stays = |object: &DynamicObject| object.metadata.deletion_timestamp.is_none();
    match count(&api, stays).await {
        Ok(objects) => has_children("active CRs", objects),
        Err(error) => Some(format!(
            "failed to list CRs of {group}/{version}, Kind={}: {error}",
            names.kind
        )),
    }
}

/// Returns how many objects there are that count.
async fn count<K>(api: &Api<K>, counts: impl Fn(&K) -> bool) -> Result<i64, String>
where
    K: Clone + DeserializeOwned + fmt::Debug,
{
    let all = async {
        let (mut count, mut params) = (0, ListParams::default().limit(PAGE));
        loop {
            let page = api.list(&params).await?;
            count += page.items.iter().map(|object| i64::from(counts(object))).sum::<i64>();
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok::<_, kube::Error>(count),
            }
        }
    };
    match timeout(DEADLINE, all).await {
        Ok(counted) => counted.map_err(|error| Error::from(error).to_string()),
        Err(_) => Err("no answer from the API server".to_owned()),
    }
}

/// Returns the object of a deletion that is protected.
fn protected<Spec: Default + DeserializeOwned>(
    request: &Request<'_>,
    context: &Context,
) -> Result<Option<(Object<Spec>, Protection)>, Verdict> {
    let old = request
        .old_object
        .filter(|_| request.operation == "DELETE" && request.sub_resource.is_empty());
    let Some(old) = old.filter(|_| context.gates.enabled(Gate::ResourcesDeletionProtection)) else {
        return Ok(None);
    };
    let object: Object<Spec> =
        serde_json::from_str(old.get()).map_err(|error| Verdict::refuse(400, error.to_string()))?;
    let protection = deletion_protection::protection(&object.metadata, context.gates);
    Ok(protection.map(|protection| (object, protection)))
}

fn kind_of(descriptor: &Descriptor) -> &'static str {
    match descriptor.resource.plural() {
        "deployments" => "Deployment",
        "replicasets" => "ReplicaSet",
        "statefulsets" => "StatefulSet",
        other => other,
    }
}

/// Answers with what is decided; an error is a refusal.
fn decided<'a>(decision: impl Future<Output = Result<(), Verdict>> + Send + 'a) -> BoxFuture<'a, Verdict> {
    Box::pin(async move { decision.await.map_or_else(|refusal| refusal, |()| Verdict::allow()) })
}
