//! What a CloneSet says about itself in words.
//!
//! - `FailedScale`, `FailedUpdate`: something went wrong and was tried again; the message says what. They stay once
//!   they are there, as users know it. An object that merely changed under our hands is not worth a word.
//! - `Progressing`: only with `progressDeadlineSeconds`. First match:
//!
//! | when | status, reason |
//! |---|---|
//! | all Pods are updated and available, none too many | True, `CloneSetAvailable` |
//! | the rollout is paused | True, `CloneSetPaused` |
//! | all that the partition allows is updated and available | True, `ProgressPartitionAvailable` |
//! | the clock of this rollout ran out | False, `ProgressDeadlineExceeded` |
//! | otherwise | True, `CloneSetUpdated` |
//!
//! The clock starts when the set leaves one of the first three, and anew with each update revision. (The original went
//! by the age of whatever condition there was, so that a rollout could be late before it began.)

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_api::cloneset::v1beta1::CloneSetSpec;
use kruise_api::cloneset::{CloneSetCondition, CloneSetStatus};
use kruise_api::names::condition::clone_set as names;
use kruise_api::shared::conditions::ConditionStatus;

use crate::shared::conditions::{StatusCondition, to_second};
use crate::shared::seconds::whole_seconds;

/// `progressDeadlineSeconds` with this value means none.
const NO_DEADLINE: i32 = i32::MAX;

/// A condition as it should be.
struct Wanted {
    status: ConditionStatus,
    reason: &'static str,
    message: String,
}

impl StatusCondition for CloneSetCondition {
    fn holds(type_: &str, message: &str, since: Time) -> Self {
        Self {
            type_: type_.to_owned(),
            status: ConditionStatus::True,
            last_transition_time: Some(since),
            message: message.to_owned(),
            ..Self::default()
        }
    }

    fn type_(&self) -> &str {
        &self.type_
    }

    fn status(&self) -> &ConditionStatus {
        &self.status
    }
}

/// Brings `Progressing` up to date. `status` has the counts of now, `before` is the update revision that the old status
/// named. Returns when to look again.
pub(super) fn progress(
    status: &mut CloneSetStatus,
    before: &str,
    spec: &CloneSetSpec,
    now: Timestamp,
) -> Option<Duration> {
    let deadline = spec
        .progress_deadline_seconds
        .filter(|deadline| *deadline != NO_DEADLINE);
    let Some(deadline) = deadline else {
        status
            .conditions
            .retain(|condition| condition.type_ != names::PROGRESSING);
        return None;
    };
    let old = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == names::PROGRESSING);
    let same_rollout = before == status.update_revision;
    let clock = old.filter(|_| same_rollout).and_then(|old| Clock::of(old, deadline));
    if let Some(reached) = complete_or_paused(status, spec) {
        set(&mut status.conditions, reached, now, false);
        return None;
    }
    let (wanted, wake) = match clock {
        Some(Clock::RanOut) => (exceeded(&status.update_revision), None),
        Some(Clock::Until(end)) if end < now => (exceeded(&status.update_revision), None),
        Some(Clock::Until(end)) => (progressing(), Some(end.duration_since(now))),
        None => (progressing(), Some(SignedDuration::from_secs(deadline.into()))),
    };
    set(&mut status.conditions, wanted, now, clock.is_none());
    wake.map(|rest| whole_seconds(rest) + Duration::from_secs(1))
}

/// How a rollout's time passes.
#[derive(Clone, Copy)]
enum Clock {
    RanOut,
    Until(Timestamp),
}

impl Clock {
    /// The clock that an earlier round started; none when there was nothing to wait for.
    fn of(condition: &CloneSetCondition, deadline: i32) -> Option<Self> {
        match condition.reason.as_str() {
            names::DEADLINE_EXCEEDED => Some(Self::RanOut),
            names::UPDATED => {
                let started = condition.last_update_time.as_ref()?.0;
                let end = started.checked_add(SignedDuration::from_secs(deadline.into()));
                Some(Self::Until(end.unwrap_or(Timestamp::MAX)))
            }
            _ => None,
        }
    }
}

/// The first three rows of the table.
fn complete_or_paused(status: &CloneSetStatus, spec: &CloneSetSpec) -> Option<Wanted> {
    let replicas = spec.replicas.unwrap_or(1);
    let rolling = spec.update_strategy.rolling_update.as_ref();
    let all = [
        status.replicas,
        status.updated_replicas,
        status.updated_available_replicas,
    ];
    let good = |reason, message: &str| {
        Some(Wanted {
            status: ConditionStatus::True,
            reason,
            message: message.to_owned(),
        })
    };
    if status.current_revision == status.update_revision && all.iter().all(|count| *count == replicas) {
        good(names::AVAILABLE, "CloneSet is available")
    } else if rolling.is_some_and(|rolling| rolling.paused) {
        good(names::PAUSED, "CloneSet is paused")
    } else if status.expected_updated_replicas < replicas
        && status.expected_updated_replicas <= status.updated_available_replicas
    {
        good(
            names::PARTITION_AVAILABLE,
            "CloneSet has been paused due to partition ready",
        )
    } else {
        None
    }
}

fn exceeded(revision: &str) -> Wanted {
    Wanted {
        status: ConditionStatus::False,
        reason: names::DEADLINE_EXCEEDED,
        message: format!("CloneSet revision {revision} has timed out progressing"),
    }
}

fn progressing() -> Wanted {
    Wanted {
        status: ConditionStatus::True,
        reason: names::UPDATED,
        message: "CloneSet is progressing".to_owned(),
    }
}

/// Sets `Progressing`. The same status and reason stay untouched, unless the clock starts anew; the transition time
/// moves with the status only.
fn set(conditions: &mut Vec<CloneSetCondition>, wanted: Wanted, now: Timestamp, restart: bool) {
    let old = conditions
        .iter()
        .find(|condition| condition.type_ == names::PROGRESSING);
    let same_status = old.filter(|old| old.status == wanted.status);
    if !restart && same_status.is_some_and(|old| old.reason == wanted.reason) {
        return;
    }
    let since = same_status.and_then(|old| old.last_transition_time.clone());
    let new = CloneSetCondition {
        type_: names::PROGRESSING.to_owned(),
        status: wanted.status,
        last_transition_time: since.or_else(|| Some(to_second(now))),
        last_update_time: Some(to_second(now)),
        reason: wanted.reason.to_owned(),
        message: wanted.message,
    };
    conditions.retain(|condition| condition.type_ != names::PROGRESSING);
    conditions.push(new);
}

#[cfg(test)]
mod tests;
