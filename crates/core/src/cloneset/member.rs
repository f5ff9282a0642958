//! The Pods of a set, looked at once.

use kruise_api::pod::Pod;

use super::counts::{Group, Tally};
use crate::shared::availability::Availability;
use crate::shared::lifecycle::State;

/// A Pod of the set, and what decisions ask about it.
#[derive(Clone, Debug)]
pub(super) struct Member<'a> {
    /// The Pod.
    pub(super) pod: &'a Pod,
    /// It is at the update revision.
    pub(super) is_updated: bool,
    /// Where it stands between its hooks.
    pub(super) state: State,
    /// It was specified for deletion, by its label or by the set's list.
    pub(super) is_specified_delete: bool,
    /// It is ready and between no hooks.
    pub(super) is_ready: bool,
    /// The same, for `minReadySeconds`.
    pub(super) availability: Availability,
}

impl Member<'_> {
    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.pod.metadata.name
    }

    /// It is ready for long enough, and between no hooks.
    pub(super) fn is_available(&self) -> bool {
        self.availability.is_now()
    }

    /// It waits for its `preDelete` hook.
    pub(super) fn is_preparing_delete(&self) -> bool {
        self.state == State::PreparingDelete
    }
}

/// Counts Pods in two groups; `is_new` says which a Pod belongs to.
pub(super) fn tally(members: &[Member<'_>], is_new: impl Fn(&Member<'_>) -> bool) -> Tally {
    let mut tally = Tally::default();
    for member in members {
        let group = if is_new(member) { &mut tally.new } else { &mut tally.old };
        count(group, member);
    }
    tally
}

fn count(group: &mut Group, member: &Member<'_>) {
    if member.is_preparing_delete() {
        group.preparing_delete += 1;
        return;
    }
    group.active += 1;
    if member.is_specified_delete {
        group.specified_delete += 1;
    } else if !member.is_available() {
        group.unavailable += 1;
    }
}
