//! Where Pods find no node, with the strategy `Adaptive`.
//!
//! A Pod *waits for too long* when the scheduler found no node for it and `rescheduleCriticalSeconds` have passed.
//!
//! | without reservation | |
//! |---|---|
//! | a subset has a Pod that waits for too long | it takes no Pods (condition `Schedulable` is False) for `unschedulableDuration` |
//! | that time is over | it takes Pods again |
//!
//! | with reservation | |
//! |---|---|
//! | a Pod waits for too long | it is *reserved*: it stays, and does not count |
//! | a reserved Pod has been ready at the wanted revision for `unschedulableDuration` | it counts again |
//! | a subset has reserved Pods | it takes no Pods; what is new there, while the condition is False, is reserved at first |
//! | an old Pod is kept from being updated because reserved ones use up what may be unavailable | after `rescheduleCriticalSeconds` of the rollout it is reserved, too, and may be updated |
//!
//! Whether a Pod is reserved stands in its label. Times below one second count as one.

use std::time::Duration;

use jiff::Timestamp;
use kruise_api::names::condition::subset;
use kruise_api::names::label;
use kruise_api::pod::Pod;
use kruise_api::pod::status::{Holds, PodPhase};
use kruise_api::shared::conditions::{Condition, ConditionStatus};
use kruise_api::uniteddeployment::SubsetStatus;
use kruise_api::uniteddeployment::topology::AdaptiveStrategy;

use super::child::Existing;
use crate::shared::availability::{Availability, is_ready, ready_for};
use crate::shared::conditions::to_second;
use crate::shared::seconds::whole_seconds;
use crate::shared::time_to_live::after;

const CRITICAL: i32 = 30;
const DURATION: i32 = 300;

/// How long what is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Seconds a Pod may wait for a node.
    pub(super) critical: i32,
    /// Seconds until a subset is tried again, or a reserved Pod counts again.
    pub(super) duration: i32,
}

impl Patience {
    pub(super) fn of(adaptive: Option<&AdaptiveStrategy>) -> Self {
        let critical = adaptive.and_then(|adaptive| adaptive.reschedule_critical_seconds);
        let duration = adaptive.and_then(|adaptive| adaptive.unschedulable_duration);
        Self {
            critical: critical.unwrap_or(CRITICAL).max(1),
            duration: duration.unwrap_or(DURATION).max(1),
        }
    }

    pub(super) fn critical_time(self) -> Duration {
        Duration::from_secs(u64::try_from(self.critical).unwrap_or_default())
    }
}

/// How a subset takes Pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Outlook<'a> {
    /// It takes none now.
    pub(super) is_unschedulable: bool,
    /// Its condition was False when it was looked at.
    pub(super) is_marked: bool,
    /// When it gets more Pods, it stays marked for their sake.
    pub(super) keeps_mark: bool,
    /// What its condition becomes; nothing when it stays.
    pub(super) condition: Option<(ConditionStatus, &'static str)>,
    /// Reserved Pods.
    pub(super) reserved: Vec<&'a Pod>,
    /// Of those, the ones that are ready and have still to be updated.
    pub(super) blocked: i32,
    /// Pods whose label is to say whether they are reserved.
    pub(super) relabel: Vec<(&'a Pod, bool)>,
    /// Pods that wait for too long.
    pub(super) waiting: Vec<&'a Pod>,
    /// When to look again.
    pub(super) wake: Option<Duration>,
}

impl Outlook<'_> {
    fn look_again(&mut self, after: Duration) {
        self.wake = Some(self.wake.map_or(after, |earlier| earlier.min(after)));
    }
}

/// Whether Pods find a node, as a subset's status says it.
pub(super) fn condition(status: Option<&SubsetStatus>) -> Option<&Condition> {
    let conditions = &status?.conditions;
    conditions.iter().find(|known| known.type_ == subset::SCHEDULABLE)
}

fn is_marked(status: Option<&SubsetStatus>) -> bool {
    condition(status).is_some_and(|condition| condition.status == ConditionStatus::False)
}

/// Whether the scheduler found no node for a Pod.
fn finds_no_node(pod: &Pod) -> bool {
    let scheduled = pod.status.condition("PodScheduled");
    pod.status.phase == PodPhase::Pending
        && pod.spec.node_name.is_empty()
        && scheduled.is_some_and(|condition| condition.status == Holds::False && condition.reason == "Unschedulable")
}

/// How much longer a Pod may wait for a node; zero when it waits for too long, nothing when it does not wait.
fn patience_left(pod: &Pod, patience: Patience, now: Timestamp) -> Option<Duration> {
    let created = pod.metadata.creation_timestamp.filter(|_| finds_no_node(pod))?;
    let until = after(created.timestamp(), patience.critical.into());
    Some(whole_seconds(until.duration_since(now)))
}

/// Looks at a subset, without reservation.
pub(super) fn without_reservation<'a>(
    existing: &Existing<'_>,
    pods: &[&'a Pod],
    status: Option<&SubsetStatus>,
    patience: Patience,
    now: Timestamp,
) -> Outlook<'a> {
    let mut outlook = Outlook {
        is_marked: is_marked(status),
        ..Outlook::default()
    };
    if outlook.is_marked {
        let since = condition(status).and_then(|condition| condition.last_transition_time.as_ref());
        let until = since.map(|since| after(since.0, patience.duration.into()));
        if let Some(until) = until.filter(|until| *until > now) {
            outlook.is_unschedulable = true;
            outlook.look_again(whole_seconds(until.duration_since(now)));
            return outlook;
        }
        outlook.condition = Some((ConditionStatus::True, subset::RECOVER));
    }
    let (_, ready) = existing.counts();
    if ready >= existing.replicas() {
        return outlook;
    }
    for pod in pods {
        match patience_left(pod, patience, now) {
            Some(Duration::ZERO) => outlook.waiting.push(pod),
            Some(rest) => outlook.look_again(rest),
            None => {}
        }
    }
    if !outlook.waiting.is_empty() {
        outlook.is_unschedulable = true;
        outlook.condition = Some((ConditionStatus::False, subset::RESCHEDULE));
        outlook.look_again(Duration::from_secs(
            u64::try_from(patience.duration).unwrap_or_default(),
        ));
    }
    outlook
}

/// What reservation depends on besides the Pods of a subset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rollout<'a> {
    /// The wanted revision.
    pub(super) revision: &'a str,
    /// When the last rollout began.
    pub(super) since: Option<Timestamp>,
    /// Pods of the subset that are to stay at the old revision.
    pub(super) partition: i32,
}

/// Looks at a subset, with reservation.
pub(super) fn with_reservation<'a>(
    existing: &Existing<'_>,
    pods: &[&'a Pod],
    status: Option<&SubsetStatus>,
    rollout: &Rollout<'_>,
    patience: Patience,
    now: Timestamp,
) -> Outlook<'a> {
    let mut outlook = Outlook {
        is_marked: is_marked(status),
        keeps_mark: true,
        ..Outlook::default()
    };
    let is_wanted = |pod: &Pod| pod.metadata.label(label::SUBSET_REVISION) == Some(rollout.revision);
    let mut counted = Vec::new();
    for pod in pods {
        let value = pod.metadata.label(label::RESERVED_POD);
        let is_reserved = match value {
            None if outlook.is_marked => true,
            Some("true") => {
                let ready = ready_for(pod, patience.duration, now);
                if let (Availability::After(rest), true) = (ready, is_wanted(pod)) {
                    outlook.look_again(whole_seconds(rest));
                }
                !(ready == Availability::Available && is_wanted(pod))
            }
            _ => match patience_left(pod, patience, now) {
                Some(Duration::ZERO) => {
                    outlook.waiting.push(pod);
                    true
                }
                Some(rest) => {
                    outlook.look_again(rest);
                    false
                }
                None => false,
            },
        };
        if is_reserved {
            outlook.reserved.push(pod);
        } else {
            counted.push(*pod);
        }
    }
    if !outlook.reserved.is_empty() {
        let blocked = blocked(&counted, rollout, patience, now, &mut outlook);
        outlook.reserved.extend(blocked);
    }
    let blocked = outlook.reserved.iter().filter(|pod| is_ready(pod) && !is_wanted(pod));
    outlook.blocked = i32::try_from(blocked.count()).unwrap_or(i32::MAX);
    let is_reserved = |pod: &Pod| outlook.reserved.iter().any(|reserved| std::ptr::eq(*reserved, pod));
    let mut relabel = Vec::new();
    for pod in pods {
        let wanted = is_reserved(pod);
        let value = pod.metadata.label(label::RESERVED_POD);
        if value != Some(if wanted { "true" } else { "false" }) {
            relabel.push((*pod, wanted));
        }
    }
    outlook.relabel = relabel;
    outlook.is_unschedulable = !outlook.reserved.is_empty();
    // Pods that are still to come are reserved at first, so the mark has to be there when they do.
    let are_all_there = i32::try_from(pods.len()).is_ok_and(|count| count >= existing.replicas());
    outlook.condition = match (outlook.is_unschedulable, outlook.is_marked) {
        (true, _) => Some((ConditionStatus::False, subset::RESCHEDULE)),
        (false, true) if are_all_there => Some((ConditionStatus::True, subset::RECOVER)),
        (false, _) => None,
    };
    outlook
}

/// Old Pods that should have been updated by now and could not be, because of the reserved ones beside them. Those that the partition keeps are no such Pods.
fn blocked<'a>(
    counted: &[&'a Pod],
    rollout: &Rollout<'_>,
    patience: Patience,
    now: Timestamp,
    outlook: &mut Outlook<'_>,
) -> Vec<&'a Pod> {
    let is_old = |pod: &&&Pod| pod.metadata.label(label::SUBSET_REVISION) != Some(rollout.revision);
    let old: Vec<&Pod> = counted.iter().filter(is_old).copied().collect();
    let kept = usize::try_from(rollout.partition).unwrap_or_default();
    let Some(since) = rollout.since.filter(|_| old.len() > kept) else {
        return Vec::new();
    };
    let rest = whole_seconds(after(since, patience.critical.into()).duration_since(now));
    if !rest.is_zero() {
        outlook.look_again(rest);
        return Vec::new();
    }
    old.into_iter().skip(kept).collect()
}

/// Sets the condition of a subset; it is written anew only when it says something else.
pub(super) fn set_condition(status: &mut SubsetStatus, holds: ConditionStatus, reason: &'static str, now: Timestamp) {
    let known = condition(Some(status));
    if known.is_some_and(|known| known.status == holds && known.reason == reason) {
        return;
    }
    status.conditions.retain(|known| known.type_ != subset::SCHEDULABLE);
    status.conditions.push(Condition {
        type_: subset::SCHEDULABLE.to_owned(),
        status: holds,
        last_transition_time: Some(to_second(now)),
        reason: reason.to_owned(),
        message: String::new(),
    });
}
