//! Which Pods count: active, ready, available.
//!
//! - *Active*: not on its way out and not ended.
//! - *Ready*: running, its `Ready` condition holds, and no update in place holds it back.
//! - *Available*: ready for `minReadySeconds`, and between no lifecycle hooks.
//!
//! Whether an update holds a Pod back is asked again although kubelet computes `Ready` from it: kubelet may be late.

use jiff::{SignedDuration, Timestamp};
use kruise_api::names::condition::pod::IN_PLACE_UPDATE_READY;
use kruise_api::pod::Pod;
use kruise_api::pod::status::{Holds, PodPhase};

use super::lifecycle::{State, state};

/// The condition that kubelet computes.
pub const READY: &str = "Ready";
/// The condition that kubelet computes of the containers alone.
pub const CONTAINERS_READY: &str = "ContainersReady";

/// How far a Pod is from being available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It is.
    Available,
    /// It will be after this time, if it stays ready.
    After(SignedDuration),
    /// Nobody knows.
    Unavailable,
}

impl Availability {
    /// True when it is available now.
    pub fn is_now(self) -> bool {
        self == Self::Available
    }
}

/// Not ended and not on its way out.
pub fn is_active(pod: &Pod) -> bool {
    !matches!(pod.status.phase, PodPhase::Succeeded | PodPhase::Failed) && !pod.metadata.is_deleting()
}

/// Running, ready, and not held back by an update in place. The lifecycle state does not matter.
pub fn is_ready(pod: &Pod) -> bool {
    let updated = pod.status.condition(IN_PLACE_UPDATE_READY);
    pod.status.phase == PodPhase::Running
        && pod.status.is_true(READY)
        && updated.is_none_or(|condition| condition.status == Holds::True)
}

/// Ready for so long, and between no lifecycle hooks.
pub fn availability(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Availability {
    if !matches!(state(pod), State::None | State::Normal) {
        return Availability::Unavailable;
    }
    ready_for(pod, min_ready_seconds, now)
}

/// Ready for so long; the lifecycle state does not matter.
pub fn ready_for(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Availability {
    if !is_ready(pod) {
        return Availability::Unavailable;
    }
    if min_ready_seconds <= 0 {
        return Availability::Available;
    }
    let since = pod.status.condition(READY).and_then(|ready| ready.last_transition_time);
    let Some(since) = since else {
        return Availability::Unavailable;
    };
    let remaining = SignedDuration::from_secs(min_ready_seconds.into()) - now.duration_since(since.timestamp());
    if remaining.is_positive() {
        Availability::After(remaining)
    } else {
        Availability::Available
    }
}
