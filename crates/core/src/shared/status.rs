//! Writing a status: only when it says something new, and then as a patch of what changed.

use kruise_api::kind::Kind;
use kruise_api::merge_patch;
use kruise_api::meta::Object;
use kruise_api::resource::{Preconditions, Subresource};
use serde::Serialize;
use serde_json::json;

use crate::plan::{Action, Patch, Target};

/// Returns the write that brings the stored status to this one; none when they are the same. A status that is not there yet is written whole:
/// fields that are zero are required.
pub fn patch<K: Kind + Object, S: Serialize>(object: &K, old: Option<&S>, new: &S) -> Option<Action> {
    let changes = match old {
        Some(old) => merge_patch::changes(old, new).ok().flatten()?,
        None => serde_json::to_value(new).ok()?,
    };
    Some(Action::Patch {
        object: Target::of(object),
        subresource: Some(Subresource::Status),
        patch: Patch::Merge(json!({ "status": changes })),
        preconditions: Preconditions::unchanged(object),
    })
}
