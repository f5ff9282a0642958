//! Pods that failed, and how long the next one of their node is waited for.
//!
//! The first failed Pod of a node is deleted at once, and after that the node waits: a second, then two, four, and so on, up to fifteen minutes. Nothing is
//! remembered of a node without a failure for half an hour, and nothing at all when the spec changes.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kruise_api::names::event;

use crate::plan::{Plan, Target, Write};
use crate::shared::seconds::whole_seconds;

const FIRST: SignedDuration = SignedDuration::from_secs(1);
const LONGEST: SignedDuration = SignedDuration::from_mins(15);
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_mins(30);

/// The nodes on which Pods of a set failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedPods(BTreeMap<Box<str>, Pause>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pause {
    length: SignedDuration,
    since: Timestamp,
}

impl Pause {
    fn end(self) -> Timestamp {
        self.since.checked_add(self.length).unwrap_or(Timestamp::MAX)
    }

    fn is_forgotten(self, now: Timestamp) -> bool {
        now.duration_since(self.since) > FORGOTTEN_AFTER
    }
}

impl FailedPods {
    /// A failed Pod of this node is deleted now. Forgets what is long ago.
    pub fn deleted(&mut self, node: &str, now: Timestamp) {
        self.0.retain(|_, pause| !pause.is_forgotten(now));
        let before = self.0.get(node).map(|pause| pause.length);
        let length = before.map_or(FIRST, |before| (before * 2).min(LONGEST));
        self.0.insert(node.into(), Pause { length, since: now });
    }

    /// When the next failed Pod of this node may be deleted; none when it may be now.
    pub fn pause_ends(&self, node: &str, now: Timestamp) -> Option<Timestamp> {
        Some(self.0.get(node)?.end()).filter(|end| *end > now)
    }

    /// True when nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The time until then, in whole seconds.
pub(super) fn until(end: Timestamp, now: Timestamp) -> Duration {
    whole_seconds(end.duration_since(now))
}

/// The failed Pods that a plan deletes.
pub fn deletions(plan: &Plan) -> impl Iterator<Item = &Target> {
    let chains = plan.actions.iter().flat_map(|step| &step.chains);
    let has_event = |write: &&Write| {
        let mut events = write.succeeded.iter();
        events.any(|event| event.reason == event::FAILED_DAEMON_POD)
    };
    let writes = chains.flat_map(|chain| &chain.writes).filter(has_event);
    writes.map(|write| write.action.object())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::fixture::at;

    #[test]
    fn given_pods_that_fail_again_and_again_then_pauses_double_up_to_fifteen_minutes() {
        let mut now = at("10:00:00");
        let mut failed = FailedPods::default();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            assert_eq!(failed.pause_ends("a", now), None);
            failed.deleted("a", now);
            let end = failed.pause_ends("a", now).unwrap();
            pauses.push(until(end, now).as_secs());
            now = end;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
        assert_eq!(failed.pause_ends("b", now), None, "other nodes do not wait");
    }

    #[test]
    fn given_half_an_hour_without_a_failure_then_the_node_begins_anew() {
        let mut failed = FailedPods::default();
        failed.deleted("a", at("10:00:00"));
        failed.deleted("a", at("10:00:10"));
        assert_eq!(failed.pause_ends("a", at("10:00:10")), Some(at("10:00:12")));
        failed.deleted("a", at("10:31:00"));
        assert_eq!(failed.pause_ends("a", at("10:31:00")), Some(at("10:31:01")));
        assert!(!failed.is_empty());
    }
}
