//! Conditions in a workload's status, whatever else its kind keeps with them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_api::shared::conditions::{Condition, ConditionStatus, JobCondition};

/// A condition of some kind's status.
pub trait StatusCondition {
    /// A condition that holds since a time, with a message and no reason.
    fn holds(type_: &str, message: &str, since: Time) -> Self;

    /// What it is about.
    fn type_(&self) -> &str;

    /// Whether it holds.
    fn status(&self) -> &ConditionStatus;
}

impl StatusCondition for Condition {
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

/// Says that something failed. A condition that holds already stays as it is: users know it by its first message.
pub fn failed<C: StatusCondition>(conditions: &mut Vec<C>, type_: &str, message: &str, now: Timestamp) {
    let found = conditions.iter().find(|condition| condition.type_() == type_);
    if found.is_some_and(|condition| *condition.status() == ConditionStatus::True) {
        return;
    }
    conditions.retain(|condition| condition.type_() != type_);
    conditions.push(C::holds(type_, message, to_second(now)));
}

/// A condition of a job that holds from now on.
pub fn of_job(type_: &str, reason: &str, message: impl Into<String>, now: Timestamp) -> JobCondition {
    JobCondition {
        type_: type_.to_owned(),
        status: ConditionStatus::True,
        last_probe_time: Some(to_second(now)),
        last_transition_time: Some(to_second(now)),
        reason: reason.to_owned(),
        message: message.into(),
    }
}

/// Times of conditions are written to the second; a finer one would differ from what is read back.
pub fn to_second(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_said_once_with_its_first_message() {
        let now = "2024-05-01T10:00:00.5Z".parse().unwrap();
        let mut conditions: Vec<Condition> = vec![Condition {
            type_: "Failed".to_owned(),
            status: ConditionStatus::False,
            ..Condition::default()
        }];
        failed(&mut conditions, "Failed", "first", now);
        failed(&mut conditions, "Failed", "second", now);
        let [condition] = &conditions[..] else {
            panic!("{conditions:?}")
        };
        assert_eq!(
            (&*condition.message, &condition.status),
            ("first", &ConditionStatus::True)
        );
        let since = condition.last_transition_time.as_ref().unwrap().0.to_string();
        assert_eq!(since, "2024-05-01T10:00:00Z");
    }
}
