//! Which workloads are its own, and of which subset each is.
//!
//! | a workload that | is |
//! |---|---|
//! | it controls, that its selector chooses, of the kind of the template | the workload of its subset |
//! | the same, but the subset has an older one | one too many: it is deleted |
//! | the same, but of a subset that is no longer there, or of another kind | deleted with its Pods |
//! | it controls, and its selector does not choose | released: it lives on without its owner |
//! | nobody controls, that its selector chooses, with the label of a subset, of the kind of the template | adopted |
//! | says no subset, or is somebody else's | left alone; one of its own that says no subset holds everything up, as nobody knows what to do with it |

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruise_api::meta::{CompactTimestamp, OwnerReference, Uid};
use kruise_api::names::label;
use kruise_api::resource::Preconditions;
use serde_json::{Value, json};

use super::child::{Child, Existing};
use super::template::WorkloadKind;
use crate::plan::{Action, Chain};
use crate::shared::owner::{Owner, is_controlled_by};

/// The workloads that were found, by what becomes of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims<'a> {
    /// The workload of each subset, also of those that are no longer there.
    pub(super) children: BTreeMap<String, Existing<'a>>,
    /// Those of a subset that has an older one.
    pub(super) duplicates: Vec<Existing<'a>>,
    /// Those of other kinds.
    pub(super) other_kinds: Vec<&'a Child>,
    pub(super) released: Vec<&'a Child>,
    pub(super) adoptable: Vec<&'a Child>,
    /// Its own that say no subset.
    pub(super) nameless: Vec<&'a Child>,
}

impl<'a> Claims<'a> {
    /// Sorts workloads by what becomes of them.
    pub(super) fn of(children: &'a [Child], owner: &Uid, selector: &LabelSelector, kind: WorkloadKind) -> Self {
        let mut claims = Self::default();
        let mut own: Vec<Existing<'a>> = Vec::new();
        for child in children {
            let is_chosen = child.is_chosen_by(selector);
            if !is_controlled_by(child.meta(), owner) {
                let is_free = child.meta().controller().is_none() && !child.is_deleting();
                let says_subset = child.meta().label(label::SUBSET_NAME).is_some();
                if is_free && is_chosen && says_subset && child.kind == kind {
                    claims.adoptable.push(child);
                }
            } else if !is_chosen {
                claims.released.push(child);
            } else if child.kind != kind {
                claims.other_kinds.push(child);
            } else if let Some(existing) = Existing::of(child) {
                own.push(existing);
            } else {
                claims.nameless.push(child);
            }
        }
        own.sort_by_cached_key(|existing| {
            let meta = existing.child.meta();
            let created = meta.creation_timestamp.map(CompactTimestamp::timestamp);
            (existing.child.is_deleting(), created, existing.child.name().to_owned())
        });
        for existing in own {
            if claims.children.contains_key(&existing.subset) {
                claims.duplicates.push(existing);
            } else {
                claims.children.insert(existing.subset.clone(), existing);
            }
        }
        claims
    }

    /// Those of subsets that are no longer there.
    pub(super) fn superfluous(&self, subsets: &BTreeSet<&str>) -> Vec<&Existing<'a>> {
        let all = self.children.values();
        all.filter(|existing| !subsets.contains(&*existing.subset)).collect()
    }
}

/// Makes a workload its own that was nobody's.
pub(super) fn adopt(child: &Child, owner: &Owner) -> Chain {
    let others = child.meta().owner_references.0.iter().map(plain);
    change_owners(child, &others.chain([owner.reference()]).collect::<Vec<_>>())
}

/// Takes its name off a workload that is no longer its own.
pub(super) fn release(child: &Child, owner: &Uid) -> Chain {
    let others = child.meta().owner_references.0.iter();
    let others: Vec<Value> = others.filter(|other| other.uid != *owner).map(plain).collect();
    change_owners(child, &others)
}

/// The whole list is written, as not all of these kinds know how to merge one; so it has to be as it was seen.
fn change_owners(child: &Child, owners: &[Value]) -> Chain {
    let patch = json!({ "metadata": { "ownerReferences": owners } });
    let unchanged = Preconditions::unchanged(&*child.object);
    Chain::of(Action::merge(child.target(), None, patch, unchanged).into())
}

fn plain(reference: &OwnerReference) -> Value {
    let mut json = json!({
        "apiVersion": &*reference.api_version, "kind": &*reference.kind, "name": &*reference.name, "uid": reference.uid.to_string(),
    });
    for (field, holds) in [
        ("controller", reference.controller),
        ("blockOwnerDeletion", reference.block_owner_deletion),
    ] {
        if let Some(json) = json.as_object_mut().filter(|_| holds) {
            json.insert(field.to_owned(), Value::Bool(true));
        }
    }
    json
}
