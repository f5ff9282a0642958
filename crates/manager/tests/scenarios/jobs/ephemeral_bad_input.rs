//! EphemeralJobs that cannot be, Pods that refuse their containers, and images that do not exist.

use std::sync::Arc;

use kruise_testkit::eventually::{NotYet, eventually};
use serde_json::{Value, json};

use super::ephemeral::{KIND, container, patch, pod, pod_with, pods, spec};
use super::{PATIENCE, Scenario, Stage, create, scenarios, status, try_create, version};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_jobs_that_cannot_be_then_they_are_refused_with_their_field,
        given_an_image_that_does_not_exist_then_the_job_waits_and_says_so,
        given_a_pod_that_refuses_the_containers_then_it_is_told_and_others_have_their_turn,
        given_no_containers_then_the_job_says_that_it_is_wrong,
    ]
}

async fn given_jobs_that_cannot_be_then_they_are_refused_with_their_field(stage: Arc<Stage>) {
    let with = |changes: Value| {
        let mut changed = container();
        kruise_api::merge_patch::merge(&mut changed, &changes);
        json!({"template": {"ephemeralContainers": [changed]}})
    };
    let at = |rest: &str| format!("ephemeralContainers[0].{rest}");
    for (changes, field) in [
        (with(json!({"name": null})), at("name: Required value")),
        (with(json!({"name": "Debug"})), at("name: Invalid value")),
        (with(json!({"image": null})), at("image: Required value")),
        (with(json!({"image": " busybox"})), at("image: Invalid value")),
        (
            with(json!({"imagePullPolicy": null})),
            at("imagePullPolicy: Required value"),
        ),
        (
            with(json!({"imagePullPolicy": "Sometimes"})),
            at("imagePullPolicy: Unsupported value"),
        ),
        (
            with(json!({"terminationMessagePolicy": null})),
            at("terminationMessagePolicy: Required value"),
        ),
        (with(json!({"ports": [{"containerPort": 80}]})), at("ports: Forbidden")),
        (with(json!({"lifecycle": {}})), at("lifecycle: Forbidden")),
        (
            with(json!({"resources": {"limits": {"cpu": "1"}}})),
            at("resources: Forbidden"),
        ),
        (
            with(json!({"volumeMounts": [{"name": "a", "mountPath": "/a", "subPath": "b"}]})),
            at("volumeMounts[0].subPath: Forbidden"),
        ),
        (
            with(json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]})),
            at("env[0].valueFrom.fieldRef.apiVersion: Required value"),
        ),
        // These the API server judges.
        (
            with(json!({"env": [{"value": "x"}]})),
            at("env[0].name: Required value"),
        ),
        (with(json!({"envFrom": [{}]})), at("envFrom")),
        (
            with(json!({"securityContext": {"runAsUser": -1}})),
            at("securityContext.runAsUser: Invalid value"),
        ),
        (
            with(json!({"volumeMounts": [{"name": "a"}]})),
            at("volumeMounts[0].mountPath: Required value"),
        ),
        (
            json!({"template": {"ephemeralContainers": [container(), container()]}}),
            "ephemeralContainers[1].name: Duplicate value".to_owned(),
        ),
        (
            with(json!({"image": 5})),
            "spec.template.ephemeralContainers[0].image".to_owned(),
        ),
    ] {
        let refused = try_create(&stage, KIND, "job", &spec(&changes)).await;
        let kube::Error::Api(answer) = refused.unwrap_err() else {
            panic!("{changes}: no answer of the API server")
        };
        assert_eq!(answer.code, 400, "{}", answer.message);
        assert!(answer.message.contains(&field), "{changes}: {}", answer.message);
    }
    let taken = with(json!({"volumeMounts": [{"name": "data", "mountPath": "/data"}], "targetContainerName": "none"}));
    create(&stage, KIND, "job", &spec(&taken)).await;
}

async fn given_an_image_that_does_not_exist_then_the_job_waits_and_says_so(stage: Arc<Stage>) {
    pods(&stage, 2).await;
    for pod in ["p0", "p1"] {
        stage.script_pod(pod, "pull-error.debug", Some("true")).await;
        stage.script_pod(pod, "exit-after.debug", Some("0s")).await;
    }
    create(&stage, KIND, "job", &spec(&json!({}))).await;
    status(
        &stage,
        KIND,
        "job",
        &json!({"phase": "Waiting", "match": 2, "waiting": 2}),
    )
    .await;
    let why = stage.about(KIND).why("job", "cannotStart").await;
    assert!(why["cause"].as_str().unwrap().contains("Pull"), "{why}");
    for pod in ["p0", "p1"] {
        stage.script_pod(pod, "pull-error.debug", None).await;
    }
    status(&stage, KIND, "job", &json!({"phase": "Succeeded", "succeeded": 2})).await;
}

async fn given_a_pod_that_refuses_the_containers_then_it_is_told_and_others_have_their_turn(stage: Arc<Stage>) {
    let (labels, script) = (json!({"app": "web"}), json!({"sim.kruise.test/exit-after.debug": "0s"}));
    pod(&stage, "a", &labels, &script).await;
    pod_with(
        &stage,
        "b",
        &labels,
        &script,
        &json!([{"name": "data", "emptyDir": {}}]),
    )
    .await;
    let mut debug = container();
    debug["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    create(
        &stage,
        KIND,
        "job",
        &spec(&json!({"template": {"ephemeralContainers": [debug]}})),
    )
    .await;
    stage
        .event("job", "CreateFailed", "Error adding ephemeral containers to pod a")
        .await;
    let jobs = stage.objects(version(KIND), KIND);
    eventually(PATIENCE, "the refusal is told", || async {
        let job = jobs.get("job").await?;
        let told = refusal(&job.data["status"]).filter(|refusal| refusal.contains("data"));
        told.map(drop)
            .ok_or_else(|| NotYet::new(job.data["status"].to_string()))
    })
    .await;
    let waits = json!({"phase": "Unknown", "match": 2, "succeeded": 1});
    status(&stage, KIND, "job", &waits).await;
    stage.about(KIND).why("job", "failed").await;
    patch(&stage, &json!({"template": {"ephemeralContainers": [container()]}})).await;
    let told = status(&stage, KIND, "job", &json!({"phase": "Succeeded", "succeeded": 2})).await;
    assert_eq!(refusal(&told), None);
}

/// Why a Pod refuses the containers, as a condition says it.
fn refusal(status: &Value) -> Option<&str> {
    let mut conditions = status["conditions"].as_array()?.iter();
    conditions.find(|known| known["type"] == "FailedCreate")?["message"].as_str()
}

async fn given_no_containers_then_the_job_says_that_it_is_wrong(stage: Arc<Stage>) {
    pods(&stage, 1).await;
    create(
        &stage,
        KIND,
        "job",
        &spec(&json!({"template": {"ephemeralContainers": []}})),
    )
    .await;
    let wrong = status(&stage, KIND, "job", &json!({"phase": "Error"})).await;
    assert_eq!(wrong["conditions"][1]["type"], "JobError");
    stage.about(KIND).why("job", "invalid").await;
}
