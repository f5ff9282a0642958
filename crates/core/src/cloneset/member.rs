//! The Pods of a set, looked at once.

use kruise_api::pod::Pod;

use super::counts::{PodCounts, RevisionCounts};
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
pub(super) fn count_pods(members: &[Member<'_>], is_new: impl Fn(&Member<'_>) -> bool) -> PodCounts {
    let mut counts = PodCounts::default();
    for member in members {
        let counts = if is_new(member) {
            &mut counts.new
        } else {
            &mut counts.old
        };
        count(counts, member);
    }
    counts
}

fn count(counts: &mut RevisionCounts, member: &Member<'_>) {
    if member.is_preparing_delete() {
        counts.preparing_delete += 1;
        return;
    }
    counts.active += 1;
    if member.is_specified_delete {
        counts.specified_delete += 1;
    } else if !member.is_available() {
        counts.unavailable += 1;
    }
}
