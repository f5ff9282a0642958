//! Writing a status: only when it says something new, and then as a patch of what changed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::document;
use serde::Serialize;
use serde_json::json;

use crate::plan::{Action, ObjectKind, Part, Patch, Preconditions, Target};

/// Returns the write that brings the stored status to this one; none when they are the same. A status that is not there yet is written whole:
/// fields that are zero are required.
pub fn patch<S: Serialize>(kind: ObjectKind, meta: &ObjectMeta, old: Option<&S>, new: &S) -> Option<Action> {
    let changes = match old {
        Some(old) => document::changes(old, new).ok().flatten()?,
        None => serde_json::to_value(new).ok()?,
    };
    Some(Action::Patch {
        object: Target::whole(kind, meta),
        part: Part::Status,
        patch: Patch::Merge(json!({ "status": changes })),
        preconditions: Preconditions::whole(meta),
    })
}
