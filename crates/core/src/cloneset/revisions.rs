//! The revisions of a CloneSet (see [`crate::shared::revision`]), and the labels with which its Pods tell theirs.
//!
//! Claim templates belong to a revision: their hash is an annotation of it. A Pod carries the name of its revision, or with the gate
//! `CloneSetShortHash` only the hash in it; a second label always has the hash.

use std::collections::BTreeMap;

use kruise_api::gates::{Gate, Gates};
use kruise_api::names::label;

use super::observed::Observed;
use crate::shared::owner::Owner;
use crate::shared::revision::{self, History, Revisions, Workload};

/// Finds the revisions of a set, or makes what is missing. Fails when the template cannot be kept.
pub(super) fn revisions<'a>(observed: &'a Observed, owner: &Owner) -> Result<Revisions<'a>, String> {
    let set = &*observed.set;
    let status = set.status.as_ref();
    let workload = Workload {
        owner,
        namespace: set.metadata.namespace.as_deref().unwrap_or_default(),
        annotations: set.metadata.annotations.as_ref(),
        template: &set.spec.template,
        claims: Some(&set.spec.volume_claim_templates),
    };
    let history = History {
        seen: &observed.revisions,
        selector: &set.spec.selector,
        current: status.map_or("", |status| &status.current_revision),
        collisions: status.and_then(|status| status.collision_count).unwrap_or_default(),
    };
    Revisions::of(&workload, &history)
}

/// The labels that tell a Pod's revision.
pub(super) fn pod_labels(revision: &str, gates: Gates) -> BTreeMap<String, String> {
    let hash = revision::short(revision);
    let shown = if gates.enabled(Gate::CloneSetShortHash) {
        hash
    } else {
        revision
    };
    BTreeMap::from([
        (label::REVISION.to_owned(), shown.to_owned()),
        (label::POD_TEMPLATE_HASH.to_owned(), hash.to_owned()),
    ])
}

#[cfg(test)]
mod tests;
