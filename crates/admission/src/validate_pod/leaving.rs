//! Pods that are deleted or evicted and belong to a WorkloadSpread: the spread hears of it, so that the Pod in its place finds room in the same subset.
//!
//! - Nobody is refused for it, unless it cannot be written down. It is noted after a budget has granted the deletion, so that a refused one makes no room.
//! - Not in a dry run; not of Pods that have ended, have no controller, or do not say their subset; and not when the spread is gone.

use super::{is_dry_run, named, read, read_live};
use crate::{Context, Request};
use kruise_api::{gates::Gate, meta::CompactTimestamp, pod::Pod, workloadspread::v1beta1::WorkloadSpread};
use kruise_core::{
    shared::availability::is_active,
    workloadspread::{ledger::Leave, related},
};

/// Without these letters in it a Pod has no subset, and need not be read.
const MARK: &str = "matched-workloadspread";

/// Notes that the Pod of a request leaves its spread.
pub(super) async fn note(request: &Request<'_>, context: &Context) -> Result<(), String> {
    let Some(spreads) = context.spreads.as_ref() else {
        return Ok(());
    };
    if !context.gates.enabled(Gate::WorkloadSpread) || is_dry_run(request) {
        return Ok(());
    }
    let pod = match (&*request.operation, &*request.sub_resource) {
        ("DELETE", "") => deleted(request)?,
        ("CREATE", "eviction") => evicted(request, context).await?,
        _ => None,
    };
    let Some(pod) = pod.filter(is_active) else {
        return Ok(());
    };
    let (Some(owner), Some(matched)) = (pod.metadata.controller(), related::matched(&pod.metadata)) else {
        return Ok(());
    };
    let label = |key: &str| pod.metadata.label(key);
    let leave = Leave {
        pod: pod.metadata.name.to_string(),
        version: spreads.versioned().version_of(Some(&owner.kind), label),
        uid: matched.uid,
        subset: matched.subset,
        made: pod.metadata.creation_timestamp.map(CompactTimestamp::timestamp),
    };
    let noted = spreads.leave(&request.namespace, &matched.name, &leave).await;
    noted.map_err(|error| error.to_string())
}

fn deleted(request: &Request<'_>) -> Result<Option<Pod>, String> {
    let old = request.old_object.filter(|old| old.get().contains(MARK));
    old.map(read).transpose()
}

async fn evicted(request: &Request<'_>, context: &Context) -> Result<Option<Pod>, String> {
    // Without any spread nothing that the API server could say would matter.
    let spreads = context.stores.synced::<WorkloadSpread>();
    if spreads.is_some_and(|spreads| spreads.is_empty()) {
        return Ok(None);
    }
    let name = named(request);
    let cached = context.stores.get::<Pod>();
    match cached.and_then(|pods| pods.get(&request.namespace, &name)) {
        Some(pod) => Ok(Some((*pod).clone())),
        None => read_live(request, context, &name).await,
    }
}
