//! Which Pods count: active, ready, available.
//!
//! - *Active*: not on its way out and not ended.
//! - *Ready*: running, its `Ready` condition holds, and no update in place holds it back.
//! - *Available*: ready for `minReadySeconds`, and between no lifecycle hooks.
//!
//! Whether an update holds a Pod back is asked again although kubelet computes `Ready` from it: kubelet may be late.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kruise_api::names::condition::pod::IN_PLACE_UPDATE_READY;
use kruise_api::pod::Pod;
use kruise_api::pod::status::{Holds, PodPhase};

use super::lifecycle::{State, state};
use crate::shared::seconds::whole_seconds;

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

/// Returns when the next of these Pods has been ready for long enough; none when none is on the way.
pub fn next_available(pods: impl IntoIterator<Item = Availability>) -> Option<Duration> {
    let rests = pods.into_iter().filter_map(|availability| match availability {
        Availability::After(rest) => Some(whole_seconds(rest)),
        _ => None,
    });
    rests.min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::fixture::{Fixture as _, at, running_pod};
    use serde_json::json;

    #[test]
    fn pods_count_as_they_are() {
        let ready = running_pod("p").ready();
        for (what, pod, expected) in [
            ("ready", ready.clone(), (true, true)),
            (
                "pending",
                ready.clone().set("/status/phase", json!("Pending")),
                (true, false),
            ),
            (
                "failed",
                ready.clone().set("/status/phase", json!("Failed")),
                (false, false),
            ),
            (
                "succeeded",
                ready.clone().set("/status/phase", json!("Succeeded")),
                (false, false),
            ),
            (
                "leaving",
                ready
                    .clone()
                    .set("/metadata/deletionTimestamp", json!("2024-05-01T10:00:00Z")),
                (false, true),
            ),
            ("new", running_pod("p"), (true, false)),
            (
                "kubelet is late",
                running_pod("p")
                    .condition("Ready", "True")
                    .condition("InPlaceUpdateReady", "False"),
                (true, false),
            ),
            ("not ours", running_pod("p").condition("Ready", "True"), (true, true)),
        ] {
            let pod = pod.typed();
            assert_eq!((is_active(&pod), is_ready(&pod)), expected, "{what}");
        }
    }

    #[test]
    fn available_is_who_was_ready_long_enough_and_is_between_no_hooks() {
        // Ready since 09:00:00.
        let pod = running_pod("p").ready();
        let found = |min: i32, time: &str| availability(&pod.typed(), min, at(time));
        assert_eq!(found(0, "09:00:00"), Availability::Available);
        assert_eq!(
            found(30, "09:00:10"),
            Availability::After(SignedDuration::from_secs(20))
        );
        assert_eq!(found(30, "09:00:30"), Availability::Available);
        assert_eq!(
            found(30, "08:59:50"),
            Availability::After(SignedDuration::from_secs(40))
        );
        assert!(found(i32::MAX, "09:00:10") != Availability::Available);
        for (state, expected) in [
            ("Normal", true),
            ("", true),
            ("Updated", false),
            ("PreparingNormal", false),
            ("X", false),
        ] {
            let pod = pod.clone().state(state).typed();
            assert_eq!(availability(&pod, 0, at("10:00:00")).is_now(), expected, "{state}");
            assert!(ready_for(&pod, 0, at("10:00:00")).is_now());
        }
        let unknown = running_pod("p")
            .set("/status/conditions", json!([{"type": "Ready", "status": "True"}]))
            .typed();
        assert_eq!(availability(&unknown, 0, at("10:00:00")), Availability::Available);
        assert_eq!(availability(&unknown, 5, at("10:00:00")), Availability::Unavailable);
    }

    #[test]
    fn a_workload_looks_again_when_its_next_pod_becomes_available() {
        let after = |millis| Availability::After(SignedDuration::from_millis(millis));
        let pods = [
            Availability::Available,
            after(9_000),
            after(2_500),
            Availability::Unavailable,
        ];
        assert_eq!(next_available(pods), Some(Duration::from_secs(3)));
        assert_eq!(next_available([Availability::Available]), None);
    }
}
