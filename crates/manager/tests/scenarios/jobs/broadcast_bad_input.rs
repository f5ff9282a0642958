//! BroadcastJobs that cannot be, and Pods that cannot be made.

use std::sync::Arc;

use serde_json::json;

use super::{Scenario, Stage, broadcast, create, nodes, scenarios, status, try_create};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_jobs_that_cannot_be_then_they_are_refused_with_their_field,
        given_a_quota_then_a_condition_says_so_and_the_job_recovers,
        given_a_template_that_makes_no_pods_then_a_condition_says_so_until_it_is_mended,
        given_no_node_then_the_job_is_not_complete_and_says_why,
    ]
}

const KIND: &str = "BroadcastJob";

async fn given_jobs_that_cannot_be_then_they_are_refused_with_their_field(stage: Arc<Stage>) {
    let long = "x".repeat(64);
    for (name, change, field) in [
        (
            "a",
            json!({"completionPolicy": {"type": "Never", "ttlSecondsAfterFinished": 3}}),
            "spec.completionPolicy.ttlSecondsAfterFinished",
        ),
        (
            "a",
            json!({"completionPolicy": {"type": "Never", "activeDeadlineSeconds": 3}}),
            "spec.completionPolicy.activeDeadlineSeconds",
        ),
        (
            "a",
            json!({"template": {"metadata": {"labels": {"broadcastjob-name": "b"}}}}),
            "spec.template.metadata.labels",
        ),
        (
            "a",
            json!({"template": {"spec": {"restartPolicy": "Always"}}}),
            "spec.template.spec.restartPolicy",
        ),
        (
            "a",
            json!({"template": {"spec": {"containers": [{"name": "main"}]}}}),
            "spec.template.spec.containers[0].image",
        ),
        ("a.b", json!({}), "metadata.name"),
        (long.as_str(), json!({}), "metadata.name"),
    ] {
        let refused = try_create(&stage, KIND, name, &broadcast(&stage, &json!({}), &change)).await;
        let kube::Error::Api(answer) = refused.unwrap_err() else {
            panic!("{change}: no answer of the API server")
        };
        assert_eq!(answer.code, 422, "{}", answer.message);
        assert!(answer.message.contains(field), "{change}: {}", answer.message);
    }
}

async fn given_a_quota_then_a_condition_says_so_and_the_job_recovers(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 2).await;
    stage.set_quota(0).await;
    create(
        &stage,
        KIND,
        "job",
        &broadcast(&stage, &json!({"exit-after": "0s"}), &json!({})),
    )
    .await;
    let refused = stage.condition("job", "FailedCreate", "True").await;
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("quota"), "{message}");
    stage.event("job", "FailedCreate", "Error creating: ").await;
    stage.why("job", "failed").await;
    status(&stage, KIND, "job", &json!({"active": 0, "phase": "running"})).await;
    stage.lift_quota().await;
    let done = status(&stage, KIND, "job", &json!({"succeeded": 2, "phase": "completed"})).await;
    assert_eq!(done["conditions"].as_array().unwrap().len(), 1, "{done}");
}

async fn given_a_template_that_makes_no_pods_then_a_condition_says_so_until_it_is_mended(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 2).await;
    let nobody = json!({"template": {"spec": {"serviceAccountName": "nobody"}}});
    create(
        &stage,
        KIND,
        "job",
        &broadcast(&stage, &json!({"exit-after": "0s"}), &nobody),
    )
    .await;
    let refused = stage.condition("job", "FailedCreate", "True").await;
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("\"nobody\" not found"), "{message}");
    status(
        &stage,
        KIND,
        "job",
        &json!({"desired": 2, "active": 0, "failed": 0, "phase": "running"}),
    )
    .await;
    // Whoever changes the job has it tried at once, however long it was refused before.
    let mended = json!({"spec": {"template": {"spec": {"serviceAccountName": null, "serviceAccount": null}}}});
    stage.patch("job", mended).await;
    status(&stage, KIND, "job", &json!({"succeeded": 2, "phase": "completed"})).await;
}

async fn given_no_node_then_the_job_is_not_complete_and_says_why(stage: Arc<Stage>) {
    create(&stage, KIND, "job", &broadcast(&stage, &json!({}), &json!({}))).await;
    status(&stage, KIND, "job", &json!({"desired": 0, "phase": "running"})).await;
    stage.why("job", "noNodeFits").await;
}
