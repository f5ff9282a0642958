//! Writing a status: only when it says something new, and then as a patch of what changed. Mere progress is written at most once a second: an object of thousands of parts
//! must not cost a write for each.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kruise_api::kind::Kind;
use kruise_api::merge_patch;
use kruise_api::meta::Object;
use kruise_api::resource::{Preconditions, Subresource};
use serde::Serialize;
use serde_json::json;

use crate::plan::{Action, Patch, Plan, Target};

/// The shortest time between two writes of mere progress.
pub const PROGRESS: SignedDuration = SignedDuration::from_secs(1);

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

/// Has a status written after everything else, or the object looked at again when its turn comes, `pace` after the last write; nothing is the last for what cannot wait.
pub fn write_in_turn(write: Action, last: Option<Timestamp>, pace: SignedDuration, now: Timestamp, plan: &mut Plan) {
    // A clock that was set back must not hold it up.
    let next = last
        .filter(|last| *last <= now)
        .and_then(|last| last.checked_add(pace).ok());
    match next.filter(|next| *next > now) {
        Some(next) => plan.wake(Duration::try_from(next.duration_since(now)).unwrap_or_default()),
        None => plan.status = Some(write),
    }
}
