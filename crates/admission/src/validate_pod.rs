//! `/validate-pod`: deletions, evictions and updates of Pods, as far as their PodUnavailableBudget allows. What then leaves is noted ([`leaving`]).
//!
//! - A Pod that names no budget is let through at once, and so is a change that does not disturb it.
//! - A deletion or an update, of the Pod itself or of its resources (`pods/resize`), is judged by the Pod of the request, as it was before. An eviction does not bring the
//!   Pod along: the cache knows it, and before a Pod is let go as one that need not be protected, or that has a place already, the API server is asked: the place may be that
//!   of a Pod before it.
//! - In a dry run, of the request or of the eviction it asks for, everything is judged and nothing written down.
//! - A refusal is 403 with the reason `Forbidden`; [`Budgets`] tells it. What cannot be judged is 400.

mod leaving;

use crate::{Budgets, Context, Request, Verdict, budgets::Grant, descriptor::Descriptor};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod as WholePod;
use kruise_api::pod::Pod;
use kruise_core::{
    podunavailablebudget::{
        ledger::{self, Operation},
        operation, related,
    },
    shared::validate::label::subdomain_faults,
};
use kruise_runtime::error::Error;
use kube::{Api, api::DynamicObject, core::ApiResource};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::time::Duration;
use tokio::time::timeout;

/// How long a Pod may take to be read.
const DEADLINE: Duration = Duration::from_secs(3);
/// The part of a Pod through which its resources are changed.
const RESIZE: &str = "resize";
/// Without these letters in it a Pod names no budget, and need not be read.
const MARK: &str = "related-pub";

/// Judges a request.
pub(crate) fn validate<'a>(
    request: &'a Request<'a>,
    context: &'a Context,
    _: &'static Descriptor,
) -> BoxFuture<'a, Verdict> {
    Box::pin(async move {
        if !request.resource.group.is_empty() || request.resource.resource != "pods" {
            return Verdict::allow();
        }
        let verdict = protect(request, context).await;
        if !verdict.allowed {
            return verdict;
        }
        match leaving::note(request, context).await {
            Ok(()) => verdict,
            Err(reason) => Verdict::refuse(400, reason),
        }
    })
}

/// Asks the budget of the Pod.
async fn protect(request: &Request<'_>, context: &Context) -> Verdict {
    let Some(budgets) = &context.budgets else {
        return Verdict::allow();
    };
    let asked = match (&*request.operation, &*request.sub_resource) {
        ("UPDATE", "" | RESIZE) => updated(request, budgets),
        ("DELETE", "") => deleted(request, budgets),
        ("CREATE", "eviction") => evicted(request, context, budgets).await,
        _ => Ok(None),
    };
    let (pod, operation) = match asked {
        Ok(Some(asked)) => asked,
        Ok(None) => return Verdict::allow(),
        Err(reason) => return Verdict::refuse(400, reason),
    };
    let (user, dry_run) = (&*request.user_info.username, is_dry_run(request));
    let mut grant = budgets.ask(&pod, operation, user, dry_run).await;
    if operation == Operation::Evict && matches!(grant, Ok(Grant::Again)) {
        grant = match read_live(request, context, &pod.metadata.name).await {
            Ok(Some(live)) if live.metadata.uid != pod.metadata.uid => {
                budgets.ask(&live, operation, user, dry_run).await
            }
            Ok(_) => grant,
            Err(reason) => return Verdict::refuse(400, reason),
        };
    }
    match grant {
        Ok(Grant::Yes | Grant::Again) => Verdict::allow(),
        Ok(Grant::No(reason)) => Verdict::refuse(403, reason).because("Forbidden"),
        Err(error) => Verdict::refuse(400, error.to_string()),
    }
}

type Asked = Result<Option<(Pod, Operation)>, String>;

fn updated(request: &Request<'_>, budgets: &Budgets) -> Asked {
    let (Some(new), Some(old)) = (request.object, request.old_object) else {
        return Ok(None);
    };
    if !budgets.is_asked(Operation::Update) || !new.get().contains(MARK) {
        return Ok(None);
    }
    let changed: Pod = read(new)?;
    if related::budget_of(&changed.metadata).is_none() {
        return Ok(None);
    }
    let (before, after): (Value, Value) = (read(old)?, read(new)?);
    let Some(operation) = operation::of_update(&before, &after) else {
        return Ok(None);
    };
    // The budget that the Pod belongs to is asked, not one that the change names.
    let pod: Pod = read(old)?;
    Ok(Some((placed(pod, request), operation)))
}

fn deleted(request: &Request<'_>, budgets: &Budgets) -> Asked {
    let old = request
        .old_object
        .filter(|old| budgets.is_asked(Operation::Delete) && old.get().contains(MARK));
    let pod = old.map(read::<Pod>).transpose()?;
    Ok(pod.map(|pod| (placed(pod, request), Operation::Delete)))
}

async fn evicted(request: &Request<'_>, context: &Context, budgets: &Budgets) -> Asked {
    if !budgets.is_asked(Operation::Evict) {
        return Ok(None);
    }
    let name = named(request);
    let cached = context
        .stores
        .get::<Pod>()
        .and_then(|pods| pods.get(&request.namespace, &name));
    let is_protected =
        |pod: &Pod| related::budget_of(&pod.metadata).is_some() && ledger::free(pod, context.gates).is_none();
    if let Some(pod) = cached.filter(|pod| is_protected(pod)) {
        return Ok(Some(((*pod).clone(), Operation::Evict)));
    }
    // No budget at all: nothing that the API server could say would matter.
    let has_budgets = context
        .stores
        .synced::<kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget>()
        .is_none_or(|budgets| !budgets.is_empty());
    if !has_budgets {
        return Ok(None);
    }
    let pod = read_live(request, context, &name).await?;
    Ok(pod.map(|pod| (pod, Operation::Evict)))
}

/// Reads a Pod of the request's namespace from the API server.
async fn read_live(request: &Request<'_>, context: &Context, name: &str) -> Result<Option<Pod>, String> {
    // Nothing has such a name, and it would make another address of ours.
    if !subdomain_faults(name).is_empty() {
        return Ok(None);
    }
    let resource = ApiResource::erase::<WholePod>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &request.namespace, &resource);
    let pod = match timeout(DEADLINE, api.get_opt(name)).await {
        Ok(Ok(pod)) => pod,
        Ok(Err(error)) => return Err(Error::from(error).to_string()),
        Err(_) => return Err(format!("Pod {name} could not be read in time")),
    };
    let Some(pod) = pod else { return Ok(None) };
    let pod = serde_json::to_value(pod).and_then(serde_json::from_value::<Pod>);
    let pod = pod.map_err(|error| error.to_string())?;
    Ok(Some(placed(pod, request)))
}

/// The name of the Pod that is to be evicted.
fn named(request: &Request<'_>) -> String {
    if !request.name.is_empty() {
        return request.name.to_string();
    }
    let eviction = request
        .object
        .and_then(|eviction| serde_json::from_str::<Value>(eviction.get()).ok());
    let name = eviction.and_then(|eviction| Some(eviction.pointer("/metadata/name")?.as_str()?.to_owned()));
    name.unwrap_or_default()
}

fn read<T: serde::de::DeserializeOwned>(object: &RawValue) -> Result<T, String> {
    serde_json::from_str(object.get()).map_err(|error| error.to_string())
}

/// The Pod is in the namespace of the request, whatever it says itself.
fn placed(mut pod: Pod, request: &Request<'_>) -> Pod {
    if pod.metadata.namespace.is_empty() {
        pod.metadata.namespace = (&*request.namespace).into();
    }
    pod
}

fn is_dry_run(request: &Request<'_>) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Eviction {
        delete_options: Option<Options>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Options {
        dry_run: Option<Vec<String>>,
    }
    let asks = |options: Options| {
        options
            .dry_run
            .is_some_and(|parts| parts.iter().any(|part| part == "All"))
    };
    let eviction = request.object.filter(|_| request.sub_resource == "eviction");
    let eviction = eviction.and_then(|eviction| serde_json::from_str::<Eviction>(eviction.get()).ok());
    let options = request
        .options
        .and_then(|options| serde_json::from_str(options.get()).ok());
    request.dry_run.unwrap_or_default()
        || options.is_some_and(asks)
        || eviction.and_then(|eviction| eviction.delete_options).is_some_and(asks)
}
