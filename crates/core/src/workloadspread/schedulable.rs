//! Whether Pods of a subset find a node, with the strategy `Adaptive` and a time after which they are moved.
//!
//! - A Pod that the scheduler finds no node for in that time makes its subset one that takes no new Pods. Once that is written down such Pods are deleted, and
//!   those in their place go to another subset.
//! - Five minutes later the subset is tried again. A Pod that waits then makes it one that takes none again.
//! - The last subset always takes Pods: there is nothing behind it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kruise_api::names::condition::subset::{POD_UNSCHEDULABLE, SCHEDULABLE, SUFFICIENT};
use kruise_api::pod::Pod;
use kruise_api::pod::status::{Holds, PodPhase};
use kruise_api::shared::conditions::ConditionStatus;
use kruise_api::shared::standard_condition::StandardCondition;
use kruise_api::workloadspread::ScheduleStrategyType;
use kruise_api::workloadspread::v1beta1::{SubsetStatus, WorkloadSpread};

use crate::shared::conditions::to_second;
use crate::shared::seconds::whole_seconds;

/// How long a subset takes no new Pods after one found no node.
pub const TRIED_AGAIN_AFTER: SignedDuration = SignedDuration::from_secs(300);

/// Returns how long a Pod may wait for a node; nothing when it may wait for ever.
pub fn patience(spread: &WorkloadSpread) -> Option<SignedDuration> {
    let strategy = &spread.spec.schedule_strategy;
    if strategy.type_ != ScheduleStrategyType::Adaptive {
        return None;
    }
    let seconds = strategy.adaptive.as_ref()?.reschedule_critical_seconds?;
    (seconds > 0).then(|| SignedDuration::from_secs(seconds.into()))
}

/// Whether a subset takes no new Pods because they find no node.
pub fn is_refused(statuses: &[SubsetStatus], subset: &str) -> bool {
    let status = statuses.iter().find(|status| status.name == subset);
    status.is_some_and(refuses)
}

/// The same of one status.
pub fn refuses(status: &SubsetStatus) -> bool {
    condition(status).is_some_and(|condition| condition.status == ConditionStatus::False)
}

/// Returns the condition of a subset.
pub fn condition(status: &SubsetStatus) -> Option<&StandardCondition> {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == SCHEDULABLE)
}

/// How a Pod waits for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// It does not.
    No,
    /// For so much longer.
    For(Duration),
    /// For too long.
    TooLong,
}

/// Returns how a Pod waits for a node.
pub fn waits(pod: &Pod, patience: SignedDuration, now: Timestamp) -> Waits {
    if !is_unschedulable(pod) {
        return Waits::No;
    }
    let made = pod
        .metadata
        .creation_timestamp
        .map_or(now, kruise_api::meta::CompactTimestamp::timestamp);
    let left = patience - now.duration_since(made);
    if left.is_negative() {
        Waits::TooLong
    } else {
        // Times are in whole seconds, and the Pod has waited for longer than that only in the next one.
        Waits::For(whole_seconds(left) + Duration::from_secs(1))
    }
}

/// Whether the scheduler found no node for a Pod.
pub fn is_unschedulable(pod: &Pod) -> bool {
    let scheduled = pod.status.condition("PodScheduled");
    pod.status.phase == PodPhase::Pending
        && pod.spec.node_name.is_empty()
        && !pod.metadata.is_deleting()
        && scheduled.is_some_and(|scheduled| scheduled.status == Holds::False && scheduled.reason == "Unschedulable")
}

/// What is said of a subset from now on.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    pub condition: StandardCondition,
    /// It is tried again.
    pub has_recovered: bool,
    /// When it will be tried again.
    pub look_again: Option<Duration>,
}

/// Decides about a subset.
pub fn decide(old: Option<&StandardCondition>, is_last: bool, has_failed: bool, now: Timestamp) -> Decided {
    let was_false = old.is_some_and(|old| old.status == ConditionStatus::False);
    let kept = |look_again| Decided {
        condition: old.cloned().unwrap_or_default(),
        has_recovered: false,
        look_again,
    };
    if has_failed && !is_last {
        return Decided {
            condition: new_condition(old, ConditionStatus::False, POD_UNSCHEDULABLE, now),
            has_recovered: false,
            look_again: None,
        };
    }
    if was_false && !is_last {
        let since = old.and_then(|old| old.last_transition_time.as_ref()).map(|time| time.0);
        let left = since.map_or(SignedDuration::ZERO, |since| {
            TRIED_AGAIN_AFTER - now.duration_since(since)
        });
        if left.is_positive() {
            return kept(Some(whole_seconds(left)));
        }
    }
    Decided {
        condition: new_condition(old, ConditionStatus::True, SUFFICIENT, now),
        has_recovered: was_false && !is_last,
        look_again: None,
    }
}

fn new_condition(
    old: Option<&StandardCondition>,
    status: ConditionStatus,
    reason: &str,
    now: Timestamp,
) -> StandardCondition {
    let same = old.filter(|old| old.status == status);
    if let Some(same) = same.filter(|same| same.reason == reason) {
        return same.clone();
    }
    let since = same.and_then(|same| same.last_transition_time.clone());
    StandardCondition {
        type_: SCHEDULABLE.to_owned(),
        status,
        last_transition_time: Some(since.unwrap_or_else(|| to_second(now))),
        reason: reason.to_owned(),
        ..StandardCondition::default()
    }
}
