use serde_json::json;

use super::*;
use crate::shared::conditions::failed;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn spec(deadline: Option<i32>, paused: bool) -> CloneSetSpec {
    serde_json::from_value(json!({
        "replicas": 3, "progressDeadlineSeconds": deadline, "updateStrategy": { "rollingUpdate": { "paused": paused } },
    }))
    .unwrap()
}

/// So many Pods updated and available, of three, with the rollout of `revision` under way.
fn status(available: i32, revision: &str, expected: i32) -> CloneSetStatus {
    CloneSetStatus {
        replicas: 3,
        updated_replicas: available,
        updated_available_replicas: available,
        expected_updated_replicas: expected,
        update_revision: revision.to_owned(),
        current_revision: if available == 3 {
            revision.to_owned()
        } else {
            "old".to_owned()
        },
        ..CloneSetStatus::default()
    }
}

/// Goes through rounds; each gives the reason and status there is then.
struct Story {
    conditions: Vec<CloneSetCondition>,
    revision: String,
}

impl Story {
    fn round(&mut self, mut status: CloneSetStatus, spec: &CloneSetSpec, second: i64) -> (String, String, Option<u64>) {
        status.conditions = std::mem::take(&mut self.conditions);
        let before = std::mem::replace(&mut self.revision, status.update_revision.clone());
        let wake = progress(&mut status, &before, spec, at(second));
        self.conditions = status.conditions;
        let condition = self.conditions.first().cloned().unwrap_or_default();
        (
            condition.reason,
            condition.status.to_string(),
            wake.map(|wake| wake.as_secs()),
        )
    }
}

fn said(reason: &str, status: &str, wake: Option<u64>) -> (String, String, Option<u64>) {
    (reason.to_owned(), status.to_owned(), wake)
}

#[test]
fn a_rollout_has_its_own_clock() {
    let mut story = Story {
        conditions: Vec::new(),
        revision: String::new(),
    };
    let spec = &spec(Some(10), false);
    let progress = |wake| said("CloneSetUpdated", "True", Some(wake));
    assert_eq!(story.round(status(0, "a", 3), spec, 0), progress(11));
    assert_eq!(story.round(status(1, "a", 3), spec, 4), progress(7));
    assert_eq!(
        story.round(status(3, "a", 3), spec, 5),
        said("CloneSetAvailable", "True", None)
    );
    // Long after it was available: a new clock, not an old one that ran out.
    assert_eq!(story.round(status(0, "b", 3), spec, 500), progress(11));
    assert_eq!(story.round(status(0, "b", 3), spec, 510), progress(1));
    assert_eq!(
        story.round(status(0, "b", 3), spec, 511),
        said("ProgressDeadlineExceeded", "False", None)
    );
    assert_eq!(
        story.conditions[0].message,
        "CloneSet revision b has timed out progressing"
    );
    assert_eq!(
        story.round(status(1, "b", 3), spec, 512),
        said("ProgressDeadlineExceeded", "False", None)
    );
    // Another revision starts over, and so does the same one after it was fine.
    assert_eq!(story.round(status(0, "c", 3), spec, 600), progress(11));
    assert_eq!(
        story.round(status(3, "c", 3), spec, 601),
        said("CloneSetAvailable", "True", None)
    );
    assert_eq!(story.round(status(2, "c", 3), spec, 900), progress(11));
}

#[test]
fn pausing_and_partitions_stop_the_clock() {
    let mut story = Story {
        conditions: Vec::new(),
        revision: String::new(),
    };
    let spec = |paused| spec(Some(10), paused);
    story.round(status(0, "a", 3), &spec(false), 0);
    assert_eq!(story.round(status(0, "a", 3), &spec(true), 100).0, "CloneSetPaused");
    assert_eq!(story.round(status(0, "a", 3), &spec(false), 200).0, "CloneSetUpdated");
    assert_eq!(
        story.round(status(1, "a", 1), &spec(false), 201).0,
        "ProgressPartitionAvailable"
    );
    assert_eq!(story.round(status(1, "a", 3), &spec(false), 400).0, "CloneSetUpdated");
}

#[test]
fn times_move_as_kubernetes_has_it() {
    let mut story = Story {
        conditions: Vec::new(),
        revision: String::new(),
    };
    let spec = &spec(Some(10), false);
    story.round(status(0, "a", 3), spec, 0);
    story.round(status(3, "a", 3), spec, 5);
    let condition = &story.conditions[0];
    let seconds = |time: &Option<Time>| time.as_ref().unwrap().0.as_second() - 1_700_000_000;
    assert_eq!(
        (
            seconds(&condition.last_transition_time),
            seconds(&condition.last_update_time)
        ),
        (0, 5)
    );
}

#[test]
fn without_a_deadline_there_is_no_condition() {
    for deadline in [None, Some(i32::MAX)] {
        let mut story = Story {
            conditions: Vec::new(),
            revision: String::new(),
        };
        story.round(status(0, "a", 3), &spec(Some(10), false), 0);
        assert_eq!(
            story.round(status(0, "a", 3), &spec(deadline, false), 1),
            said("", "", None)
        );
        assert!(story.conditions.is_empty());
    }
}

#[test]
fn a_failure_stays_as_it_was_first_said() {
    let mut conditions: Vec<CloneSetCondition> = Vec::new();
    failed(&mut conditions, names::FAILED_SCALE, "first", at(0));
    failed(&mut conditions, names::FAILED_SCALE, "second", at(9));
    failed(&mut conditions, names::FAILED_UPDATE, "other", at(9));
    let said: Vec<(&str, &str)> = conditions.iter().map(|one| (&*one.type_, &*one.message)).collect();
    assert_eq!(said, [("FailedScale", "first"), ("FailedUpdate", "other")]);
    assert_eq!(conditions[0].last_update_time, None);
}
