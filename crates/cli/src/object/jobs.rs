//! What the numbers of jobs mean.

use super::{is_set, number};
use serde_json::Value;

pub(super) fn broadcastjob_summary(job: &Value) -> String {
    let count = |name: &str| number(job, &format!("/status/{name}"));
    let phase = job
        .pointer("/status/phase")
        .and_then(Value::as_str)
        .unwrap_or("pending");
    format!(
        "{phase}, {} nodes, {} active, {} succeeded, {} failed",
        count("desired"),
        count("active"),
        count("succeeded"),
        count("failed"),
    )
}

pub(super) fn broadcastjob(job: &Value) -> Vec<String> {
    let count = |name: &str| number(job, &format!("/status/{name}"));
    let mut sentences = Vec::new();
    if is_set(job, "/spec/paused") {
        sentences.push("It is paused: no further Pods are made.".to_owned());
    }
    let waiting = count("desired") - count("active") - count("succeeded") - count("failed");
    if waiting > 0 {
        sentences.push(format!("Nodes that have not had their Pod yet: {waiting}."));
    }
    sentences
}

pub(super) fn ephemeraljob_summary(job: &Value) -> String {
    let count = |name: &str| number(job, &format!("/status/{name}"));
    let phase = job
        .pointer("/status/phase")
        .and_then(Value::as_str)
        .unwrap_or("pending");
    format!(
        "{phase}, {} Pods, {} running, {} waiting, {} succeeded, {} failed",
        count("match"),
        count("running"),
        count("waiting"),
        count("succeeded"),
        count("failed"),
    )
}

pub(super) fn ephemeraljob(job: &Value) -> Vec<String> {
    if is_set(job, "/spec/paused") {
        vec!["It is paused: no further Pod gets containers.".to_owned()]
    } else {
        Vec::new()
    }
}

pub(super) fn advancedcronjob_summary(job: &Value) -> String {
    let active = job.pointer("/status/active").and_then(Value::as_array);
    let last = job.pointer("/status/lastScheduleTime").and_then(Value::as_str);
    format!(
        "schedule {:?}, {} active, {}",
        job.pointer("/spec/schedule")
            .and_then(Value::as_str)
            .unwrap_or_default(),
        active.map_or(0, Vec::len),
        last.map_or("never scheduled".to_owned(), |last| format!("last scheduled {last}")),
    )
}

pub(super) fn advancedcronjob(job: &Value) -> Vec<String> {
    if is_set(job, "/spec/paused") {
        vec!["It is paused: nothing is scheduled.".to_owned()]
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_a_broadcastjob_then_nodes_that_wait_are_told() {
        let status = json!({"phase": "running", "desired": 5, "active": 2, "succeeded": 1, "failed": 1});
        let job = json!({"spec": {"paused": true}, "status": status});
        assert_eq!(
            broadcastjob_summary(&job),
            "running, 5 nodes, 2 active, 1 succeeded, 1 failed"
        );
        assert_eq!(
            broadcastjob(&job),
            [
                "It is paused: no further Pods are made.",
                "Nodes that have not had their Pod yet: 1."
            ]
        );
    }

    #[test]
    fn given_an_ephemeraljob_then_its_pods_are_told() {
        let status = json!({"phase": "Paused", "match": 5, "running": 1, "waiting": 1, "succeeded": 2, "failed": 1});
        let job = json!({"spec": {"paused": true}, "status": status});
        let summary = "Paused, 5 Pods, 1 running, 1 waiting, 2 succeeded, 1 failed";
        assert_eq!(ephemeraljob_summary(&job), summary);
        assert_eq!(ephemeraljob(&job), ["It is paused: no further Pod gets containers."]);
        assert!(ephemeraljob(&json!({})).is_empty());
    }

    #[test]
    fn given_an_advancedcronjob_then_its_schedule_is_told() {
        let job = json!({"spec": {"schedule": "*/5 * * * *"}, "status": {"active": [{}], "lastScheduleTime": "2024-05-01T10:00:00Z"}});
        assert_eq!(
            advancedcronjob_summary(&job),
            "schedule \"*/5 * * * *\", 1 active, last scheduled 2024-05-01T10:00:00Z"
        );
        assert!(advancedcronjob(&job).is_empty());
    }
}
