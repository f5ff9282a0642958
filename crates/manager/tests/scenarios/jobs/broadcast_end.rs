//! BroadcastJobs: how they end.

use std::sync::Arc;

use kube::ResourceExt as _;
use serde_json::json;

use super::{Scenario, Stage, broadcast, create, gone, nodes, scenarios, status};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_fail_fast_then_a_failed_pod_ends_the_job_and_the_others,
        given_continue_then_the_job_completes_with_a_failure,
        given_pause_then_the_job_waits_until_the_failed_pod_is_gone,
        given_restarts_then_a_pod_counts_as_failed_above_the_limit,
        given_no_time_to_live_then_the_job_goes_when_it_is_complete,
        given_a_deadline_then_the_job_fails_and_its_pods_go,
    ]
}

const KIND: &str = "BroadcastJob";

/// Lets one Pod of the job, which runs everywhere, end with a failure.
async fn one_fails(stage: &Stage) -> String {
    let pods = stage.pods("job").await;
    let name = pods.values().next().unwrap().name_any();
    stage
        .patch_pod(
            &name,
            json!({"metadata": {"annotations": {"sim.kruise.test/exit-code": "1", "sim.kruise.test/exit-after": "0s"}}}),
        )
        .await;
    name
}

async fn given_fail_fast_then_a_failed_pod_ends_the_job_and_the_others(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 3).await;
    create(&stage, KIND, "job", &broadcast(&stage, &json!({}), &json!({}))).await;
    status(&stage, KIND, "job", &json!({"active": 3})).await;
    let failed = one_fails(&stage).await;
    let ended = status(
        &stage,
        KIND,
        "job",
        &json!({"desired": 3, "active": 0, "succeeded": 0, "failed": 3, "phase": "failed"}),
    )
    .await;
    assert_eq!(ended["conditions"][0]["type"], "Failed");
    stage
        .until("job", "only the failed Pod is left", |pods| pods.keys().eq([&failed]))
        .await;
    stage
        .event(
            "job",
            "failed pod is found",
            "failure policy is FailurePolicyTypeFailFast and failed pod is found: 0 pods succeeded, 3 pods failed",
        )
        .await;
    stage.event("job", "SuccessfulDelete", "Delete pod: job-").await;
}

async fn given_continue_then_the_job_completes_with_a_failure(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 2).await;
    let spec = broadcast(&stage, &json!({}), &json!({"failurePolicy": {"type": "Continue"}}));
    create(&stage, KIND, "job", &spec).await;
    status(&stage, KIND, "job", &json!({"active": 2})).await;
    let failed = one_fails(&stage).await;
    status(
        &stage,
        KIND,
        "job",
        &json!({"active": 1, "failed": 1, "phase": "running"}),
    )
    .await;
    let pods = stage.pods("job").await;
    let other = pods.keys().find(|name| **name != failed).unwrap();
    stage.script_pod(other, "exit-after", Some("0s")).await;
    status(
        &stage,
        KIND,
        "job",
        &json!({"succeeded": 1, "failed": 1, "phase": "completed"}),
    )
    .await;
}

async fn given_pause_then_the_job_waits_until_the_failed_pod_is_gone(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 2).await;
    let spec = broadcast(
        &stage,
        &json!({}),
        &json!({"failurePolicy": {"type": "Pause"}, "parallelism": 1}),
    );
    create(&stage, KIND, "job", &spec).await;
    status(&stage, KIND, "job", &json!({"active": 1})).await;
    let failed = one_fails(&stage).await;
    status(
        &stage,
        KIND,
        "job",
        &json!({"active": 0, "failed": 1, "phase": "paused"}),
    )
    .await;
    let told = stage.event("job", "Paused", "job is paused, due to failed pod").await;
    assert_eq!(told.count.unwrap_or(1), 1);
    stage.why("job", "pausedByFailure").await;
    stage.delete_pod(&failed).await;
    status(
        &stage,
        KIND,
        "job",
        &json!({"active": 1, "failed": 0, "phase": "running"}),
    )
    .await;
    stage.event("job", "Continue", "continue to process job").await;
}

async fn given_restarts_then_a_pod_counts_as_failed_above_the_limit(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 1).await;
    let spec = json!({
        "failurePolicy": {"type": "Continue", "restartLimit": 2}, "template": {"spec": {"restartPolicy": "OnFailure"}},
    });
    create(
        &stage,
        KIND,
        "job",
        &broadcast(&stage, &json!({"crash": "true"}), &spec),
    )
    .await;
    status(
        &stage,
        KIND,
        "job",
        &json!({"active": 0, "failed": 1, "phase": "running"}),
    )
    .await;
    let pods = stage.pods("job").await;
    let restarts = json!(pods.values().next().unwrap().status)["containerStatuses"][0]["restartCount"].clone();
    assert!(restarts.as_i64().unwrap() >= 3, "{restarts}");
    stage.why("job", "failedNotEnded").await;
}

async fn given_no_time_to_live_then_the_job_goes_when_it_is_complete(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 1).await;
    let spec = broadcast(
        &stage,
        &json!({"exit-after": "0s"}),
        &json!({"completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 0}}),
    );
    create(&stage, KIND, "job", &spec).await;
    gone(&stage, KIND, "job").await;
    stage
        .until("job", "its Pods follow", std::collections::BTreeMap::is_empty)
        .await;
}

async fn given_a_deadline_then_the_job_fails_and_its_pods_go(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 2).await;
    let spec = broadcast(
        &stage,
        &json!({}),
        &json!({"completionPolicy": {"type": "Always", "activeDeadlineSeconds": 5}}),
    );
    create(&stage, KIND, "job", &spec).await;
    let ended = status(
        &stage,
        KIND,
        "job",
        &json!({"active": 0, "failed": 2, "phase": "failed"}),
    )
    .await;
    let text = format!(
        "Job {}/job was active longer than specified deadline",
        stage.namespace()
    );
    assert_eq!(ended["conditions"][0]["message"], json!(text));
    stage.event("job", "DeadlineExceeded", &text).await;
    stage
        .until("job", "its Pods are gone", std::collections::BTreeMap::is_empty)
        .await;
}
