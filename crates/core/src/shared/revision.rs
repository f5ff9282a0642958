//! ControllerRevisions: what a workload's Pods looked like, and which of them a Pod is at.
//!
//! - The data of a revision is the Pod template, written as the original writes it byte for byte ([`data`]). Its hash gives the revision its name.
//! - A template that was there before gets its old revision back, with the highest number: a rollback makes nothing new ([`choose`]).
//! - Equal is what has equal bytes, or says the same when both are written in that form: after a switch from the original, or after a change of how
//!   things are written, no Pod is restarted.
//! - Revisions beyond the history limit are removed, the oldest first, but never one that a Pod is at ([`superfluous`]).
//! - [`Revisions`] has all of this for one rollout: which revision the spec asks for, and which one the last finished rollout reached.

mod choose;
mod history;
mod rollout;
pub(crate) mod types;

pub use choose::{Candidate, Choice, NameTaken, Workload, choose, name_taken};
pub use history::{belonging, superfluous};
pub use rollout::{History, Revision, Revisions};

use kruise_api::names::label;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use serde_json::{Value, json};

use super::{fnv, go_json};

/// A directive in the data of a revision, for strategic merge patches: what follows replaces what is there.
pub const DIRECTIVE: &str = "$patch";

/// The data of a revision with this Pod template.
pub fn data(template: &Value) -> String {
    data_of("PodTemplateSpec", template)
}

/// The data of a revision with the template of a workload, as a UnitedDeployment has it.
pub fn workload_data(template: &Value) -> String {
    data_of("SubsetTemplate", template)
}

fn data_of(type_name: &str, template: &Value) -> String {
    let mut template = types::normal(type_name, template);
    if let Value::Object(template) = &mut template {
        template.insert(DIRECTIVE.to_owned(), json!("replace"));
    }
    go_json::to_string(&json!({"spec": {"template": template}}))
}

/// The template in the data of a revision; nothing when there is none.
pub fn template(data: &Value) -> Option<Value> {
    let mut template = data.pointer("/spec/template")?.as_object()?.clone();
    template.remove(DIRECTIVE);
    Some(Value::Object(template))
}

/// Whether the data of two revisions is the same: byte for byte, or in what it says.
pub fn is_same_data(one: &str, other: &str) -> bool {
    let meaning = |text: &str| {
        let value: Value = serde_json::from_str(text).ok()?;
        Some(data(&template(&value)?))
    };
    one == other || meaning(one).is_some_and(|one| meaning(other) == Some(one))
}

/// The same for templates of workloads: what is null or an empty object or list says nothing.
pub fn is_same_workload_data(one: &str, other: &str) -> bool {
    let meaning = |text: &str| {
        let value: Value = serde_json::from_str(text).ok()?;
        let data = workload_data(&template(&value)?);
        Some(without_empty(serde_json::from_str(&data).ok()?))
    };
    one == other || meaning(one).is_some_and(|one| meaning(other) == Some(one))
}

fn without_empty(value: Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key, without_empty(value)));
            Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        other => other,
    }
}

/// The hash of a revision. `collisions` tells revisions with equal hashes apart.
pub fn hash(data: &str, collisions: i32) -> String {
    let sum = fnv::fnv1(format!("{data}{collisions}").as_bytes());
    let digit = |digit: char| match digit {
        '0' => '4',
        '1' => '5',
        '2' => '6',
        '3' => '7',
        '4' => '8',
        '5' => '9',
        '6' => 'b',
        '7' => 'c',
        '8' => 'd',
        _ => 'f',
    };
    sum.to_string().chars().map(digit).collect()
}

/// Characters of a workload's name that fit into the name of a revision.
const NAME_LENGTH: usize = 223;

/// The name of a revision.
pub fn name(workload: &str, hash: &str) -> String {
    let cut: String = workload.chars().take(NAME_LENGTH).collect();
    format!("{cut}-{hash}")
}

/// The part of a revision's name that is its hash: what follows the last dash.
pub fn short(revision: &str) -> &str {
    revision.rsplit_once('-').map_or(revision, |(_, hash)| hash)
}

/// Whether two names mean the same revision, be they whole names or only hashes.
pub fn is_same(one: &str, other: &str) -> bool {
    one == other || short(one) == short(other)
}

/// The revision that a Pod is at, as its label says it.
pub fn of_pod(pod: &Pod) -> &str {
    pod.metadata.label(label::REVISION).unwrap_or_default()
}

/// Whether a Pod is at a revision. A Pod without the label is at none.
pub fn is_at(pod: &Pod, revision: &str) -> bool {
    let label = of_pod(pod);
    !label.is_empty() && is_same(label, revision)
}

/// The revision of this name, or with this hash in its name or in its label.
pub fn find<'a>(revisions: &[&'a ControllerRevision], name: &str) -> Option<&'a ControllerRevision> {
    let exact = revisions.iter().find(|revision| revision.name() == name);
    let labelled = |revision: &&&ControllerRevision| revision.metadata.label(label::REVISION) == Some(name);
    let found = exact
        .or_else(|| revisions.iter().find(labelled))
        .or_else(|| revisions.iter().find(|revision| is_same(revision.name(), name)));
    found.copied()
}

/// The hash of claim templates, as the annotation of a revision has it; empty when there are none.
pub fn claims_hash(claims: &Value) -> String {
    let mut claims = claims.as_array().cloned().unwrap_or_default();
    if claims.is_empty() {
        return String::new();
    }
    for claim in claims.iter_mut().filter_map(Value::as_object_mut) {
        // The webhook writes a phase into it, which does not count.
        claim.remove("status");
    }
    let name_of = |claim: &Value| {
        claim
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    claims.sort_by_cached_key(name_of);
    let texts: Vec<String> = claims
        .iter()
        .map(|claim| types::in_type_order("PersistentVolumeClaim", claim))
        .collect();
    fnv::fnv1a_of_printed(format!("[{}]", texts.join(",")).as_bytes()).to_string()
}

#[cfg(test)]
mod tests;
