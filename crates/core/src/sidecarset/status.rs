//! What a SidecarSet's status says: how many Pods it manages, how many of them are at its hash, ready, and both; and which Pods should have its containers and do not.
//!
//! It is written only when it says something new.

use kruise_api::names::condition::sidecar_set::PODS_WITHOUT_SIDECARS;
use kruise_api::pod::Pod;
use kruise_api::shared::conditions::{Condition, ConditionStatus};
use kruise_api::sidecarset::SidecarSetStatus;

use super::missing::names;
use super::revisions::Revisions;
use super::snapshot::{Member, Snapshot};
use crate::plan::Action;
use crate::shared::conditions::to_second;
use crate::shared::status;

/// The write that brings the status up to date; none when it is.
pub(super) fn write(snapshot: &Snapshot<'_>, revisions: &Revisions<'_>, missing: &[&Pod]) -> Option<Action> {
    let set = snapshot.set;
    let before = set.status.as_ref();
    let count = |of: &dyn Fn(&Member<'_>) -> bool| snapshot.members.iter().filter(|member| of(member)).count() as i32;
    let is_ready = |member: &Member<'_>| member.is_consistent && member.is_ready;
    let conditions = before.map(|before| before.conditions.clone()).unwrap_or_default();
    let new = SidecarSetStatus {
        observed_generation: set.metadata.generation.unwrap_or_default(),
        matched_pods: count(&|_| true),
        updated_pods: count(&|member| member.is_updated),
        ready_pods: count(&is_ready),
        updated_ready_pods: count(&|member| member.is_updated && is_ready(member)),
        latest_revision: revisions.latest.clone(),
        collision_count: Some(revisions.collisions),
        pods_without_sidecars: i32::try_from(missing.len()).unwrap_or(i32::MAX),
        conditions: with_conditions(conditions, snapshot, missing),
    };
    status::patch(set, before, &new)
}

/// The conditions with what is to be told of Pods that lack their sidecars. A set that never had one has no condition.
fn with_conditions(mut conditions: Vec<Condition>, snapshot: &Snapshot<'_>, missing: &[&Pod]) -> Vec<Condition> {
    let found = conditions
        .iter()
        .position(|condition| condition.type_ == PODS_WITHOUT_SIDECARS);
    if missing.is_empty() && found.is_none() {
        return conditions;
    }
    let before = found.map(|place| conditions.remove(place));
    let (status, reason, message) = if missing.is_empty() {
        (ConditionStatus::False, "AllInjected", String::new())
    } else {
        let message = format!(
            "Without its containers, as nobody answered or it did not apply when they were made: {}.",
            names(missing)
        );
        (ConditionStatus::True, "NotInjected", message)
    };
    let kept = before.filter(|before| before.status == status);
    let since = kept.and_then(|before| before.last_transition_time);
    conditions.push(Condition {
        type_: PODS_WITHOUT_SIDECARS.to_owned(),
        status,
        last_transition_time: since.or_else(|| Some(to_second(snapshot.env.now))),
        reason: reason.to_owned(),
        message,
    });
    conditions
}
