//! What a CloneSet's status says.
//!
//! - `replicas` are the active Pods: not ended and not on their way out. Pods that wait for a hook or are specified for
//!   deletion are among them.
//! - *Ready* looks at the Pod's own conditions only; *available* also asks for `minReadySeconds` and for no lifecycle
//!   hook in between.
//! - `currentRevision` becomes `updateRevision` as soon as every wanted Pod is at it; it does not wait for readiness.
//! - The status is written only when it says something new, and then as a patch of what changed.

use kruise_api::cloneset::CloneSetStatus;
use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_api::names::condition::clone_set::PROGRESSING;

use super::counts;
use crate::plan::Action;
use crate::shared::membership::Member;
use crate::shared::{availability, selector, status};

/// The status with the counts of now; conditions are those of before.
pub(super) fn new_status(set: &CloneSet, members: &[Member<'_>], revisions: &RevisionNames<'_>) -> CloneSetStatus {
    let before = set.status.clone().unwrap_or_default();
    let count = |of: &dyn Fn(&Member<'_>) -> bool| members.iter().filter(|member| of(member)).count() as i32;
    let replicas = members.len() as i32;
    let updated_replicas = count(&|member| member.is_updated);
    let all_updated = updated_replicas == replicas && replicas == set.spec.replicas.unwrap_or(1);
    let generation = set.metadata.generation.unwrap_or_default();
    CloneSetStatus {
        observed_generation: before.observed_generation.max(generation),
        replicas,
        ready_replicas: count(&|member| availability::is_ready(member.pod)),
        available_replicas: count(&|member| member.is_available()),
        updated_replicas,
        updated_ready_replicas: count(&|member| member.is_updated && availability::is_ready(member.pod)),
        updated_available_replicas: count(&|member| member.is_updated && member.is_available()),
        expected_updated_replicas: counts::expected_updated(&set.spec) as i32,
        update_revision: revisions.update.to_owned(),
        current_revision: if all_updated {
            revisions.update
        } else {
            revisions.current
        }
        .to_owned(),
        collision_count: Some(revisions.collisions),
        conditions: before.conditions,
        label_selector: selector::text(&set.spec.selector),
    }
}

/// The revisions that a status names.
#[derive(Clone, Copy, Debug)]
pub(super) struct RevisionNames<'a> {
    /// The one that the spec asks for.
    pub(super) update: &'a str,
    /// The one that the last finished rollout reached.
    pub(super) current: &'a str,
    /// Times a name was already taken.
    pub(super) collisions: i32,
}

/// The write that brings the stored status to this one; none when it says nothing new.
pub(super) fn write(set: &CloneSet, new: &CloneSetStatus) -> Option<Action> {
    let old = set.status.as_ref();
    if old.is_some_and(|old| !needs_update(old, new)) {
        return None;
    }
    status::patch(set, old, new)
}

/// Whether users would see a difference. Times and texts of conditions alone are none.
fn needs_update(old: &CloneSetStatus, new: &CloneSetStatus) -> bool {
    let scalars = |status: &CloneSetStatus| CloneSetStatus {
        conditions: Vec::new(),
        collision_count: None,
        ..status.clone()
    };
    scalars(old) != scalars(new) || conditions_differ(old, new)
}

/// A condition came, went, or changed its status; of `Progressing` the reason counts too.
fn conditions_differ(old: &CloneSetStatus, new: &CloneSetStatus) -> bool {
    let summary = |status: &CloneSetStatus| {
        let mut summary: Vec<(String, String, String)> = status
            .conditions
            .iter()
            .map(|condition| {
                let is_progress = condition.type_ == PROGRESSING;
                let reason = if is_progress {
                    condition.reason.clone()
                } else {
                    String::new()
                };
                (condition.type_.clone(), condition.status.to_string(), reason)
            })
            .collect();
        summary.sort();
        summary
    };
    summary(old) != summary(new)
}

#[cfg(test)]
mod tests;
