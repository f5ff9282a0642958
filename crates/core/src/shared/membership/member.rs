//! A Pod of a workload, looked at once.

use jiff::Timestamp;
use kruise_api::pod::Pod;

use crate::shared::availability::{Availability, availability};
use crate::shared::lifecycle::{State, is_specified_delete, state};
use crate::shared::revision;

/// A Pod, and what decisions ask about it.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// The Pod.
    pub pod: &'a Pod,
    /// It is at the update revision.
    pub is_updated: bool,
    /// Where it stands between its hooks.
    pub state: State,
    /// It was specified for deletion.
    pub is_specified_delete: bool,
    /// It is ready and between no hooks.
    pub is_ready: bool,
    /// The same, for `minReadySeconds`.
    pub availability: Availability,
}

impl<'a> Member<'a> {
    /// Looks at a Pod of a workload that asks for this revision.
    pub fn of(pod: &'a Pod, update_revision: &str, min_ready_seconds: i32, now: Timestamp) -> Self {
        Self {
            pod,
            is_updated: revision::is_at(pod, update_revision),
            state: state(pod),
            is_specified_delete: is_specified_delete(pod),
            is_ready: availability(pod, 0, now).is_now(),
            availability: availability(pod, min_ready_seconds, now),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        &self.pod.metadata.name
    }

    /// It is ready for long enough, and between no hooks.
    pub fn is_available(&self) -> bool {
        self.availability.is_now()
    }

    /// It waits for its `preDelete` hook.
    pub fn is_preparing_delete(&self) -> bool {
        self.state == State::PreparingDelete
    }
}
