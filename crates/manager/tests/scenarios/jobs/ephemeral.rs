//! EphemeralJobs: containers come into Pods that run, and how it went is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Scenario, Stage, create, gone, scenarios, status};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_no_parallelism_then_containers_come_into_one_pod_at_a_time_and_the_job_goes_in_the_end,
        given_replicas_and_parallelism_then_so_many_pods_get_containers,
        given_a_name_that_is_taken_then_that_pod_is_not_counted,
        given_a_container_that_fails_then_the_job_fails_with_it,
        given_a_pause_then_no_pod_gets_containers_until_it_ends,
        given_no_pod_then_the_job_waits_for_one,
        given_a_deletion_then_the_job_goes_and_containers_stay,
        given_a_deadline_then_the_job_fails_while_containers_run,
    ]
}

pub(super) const KIND: &str = "EphemeralJob";

/// A Pod that runs on a simulated node.
pub(super) async fn pod(stage: &Stage, name: &str, labels: &Value, annotations: &Value) {
    pod_with(stage, name, labels, annotations, &json!([])).await;
}

/// The same with volumes.
pub(super) async fn pod_with(stage: &Stage, name: &str, labels: &Value, annotations: &Value, volumes: &Value) {
    let containers = json!([{"name": "main", "image": "nginx:1"}]);
    let pod = json!({
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"nodeName": stage.node(0), "containers": containers, "volumes": volumes},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    stage.pods.create(&PostParams::default(), &pod).await.unwrap();
}

pub(super) async fn pods(stage: &Stage, count: usize) {
    for number in 0..count {
        pod(stage, &format!("p{number}"), &json!({"app": "web"}), &json!({})).await;
    }
}

pub(super) fn container() -> Value {
    json!({"name": "debug", "image": "busybox:1", "imagePullPolicy": "IfNotPresent", "terminationMessagePolicy": "File"})
}

pub(super) fn spec(changes: &Value) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "web"}}, "template": {"ephemeralContainers": [container()]},
    });
    kruise_api::merge_patch::merge(&mut spec, changes);
    spec
}

/// The Pods that have a container of a job.
fn with_containers(pods: &BTreeMap<String, Pod>) -> Vec<&str> {
    let has = |pod: &Pod| {
        let spec = pod.spec.as_ref().unwrap();
        let containers = spec.ephemeral_containers.iter().flatten();
        let mut variables = containers.flat_map(|container| container.env.iter().flatten());
        variables.any(|variable| variable.name == "KRUISE_EJOB_ID")
    };
    let pods = pods.iter().filter(|(_, pod)| has(pod));
    pods.map(|(name, _)| name.as_str()).collect()
}

pub(super) async fn patch(stage: &Stage, changes: &Value) {
    let jobs = stage.objects("v1alpha1", KIND);
    let patch = Patch::Merge(json!({"spec": changes}));
    jobs.patch("job", &PatchParams::default(), &patch).await.unwrap();
}

async fn given_no_parallelism_then_containers_come_into_one_pod_at_a_time_and_the_job_goes_in_the_end(
    stage: Arc<Stage>,
) {
    pods(&stage, 3).await;
    let job = create(&stage, KIND, "job", &spec(&json!({}))).await;
    for (number, pod) in ["p0", "p1", "p2"].into_iter().enumerate() {
        status(
            &stage,
            KIND,
            "job",
            &json!({"phase": "Running", "match": 3, "running": 1, "succeeded": number}),
        )
        .await;
        let pods = stage.pods("web").await;
        assert_eq!(with_containers(&pods).len(), number + 1);
        let uid = &json!(pods[pod].spec)["ephemeralContainers"][0]["env"][0]["value"];
        assert_eq!(uid.as_str(), job.metadata.uid.as_deref());
        stage.script_pod(pod, "exit-after.debug", Some("0s")).await;
    }
    let ended = status(
        &stage,
        KIND,
        "job",
        &json!({"phase": "Succeeded", "running": 0, "succeeded": 3}),
    )
    .await;
    let types: Vec<_> = ended["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|known| known["type"].clone())
        .collect();
    assert_eq!(types, ["Initialized", "JobSucceeded"]);
    assert!(ended["completionTime"].is_string());
    patch(&stage, &json!({"ttlSecondsAfterFinished": 1})).await;
    gone(&stage, KIND, "job").await;
}

async fn given_replicas_and_parallelism_then_so_many_pods_get_containers(stage: Arc<Stage>) {
    pods(&stage, 3).await;
    create(&stage, KIND, "job", &spec(&json!({"replicas": 2, "parallelism": 5}))).await;
    status(
        &stage,
        KIND,
        "job",
        &json!({"phase": "Running", "match": 2, "running": 2}),
    )
    .await;
    assert_eq!(with_containers(&stage.pods("web").await), ["p0", "p1"]);
    patch(&stage, &json!({"replicas": 4})).await;
    status(&stage, KIND, "job", &json!({"match": 3, "running": 3})).await;
    stage.about(KIND).why("job", "tooFewPods").await;
}

async fn given_a_name_that_is_taken_then_that_pod_is_not_counted(stage: Arc<Stage>) {
    pods(&stage, 2).await;
    let debug = Patch::Strategic(json!({"spec": {"ephemeralContainers": [container()]}}));
    let params = PatchParams::default();
    let patched = stage.pods.patch_ephemeral_containers("p0", &params, &debug);
    patched.await.unwrap();
    stage.script_pod("p1", "exit-after.debug", Some("0s")).await;
    create(&stage, KIND, "job", &spec(&json!({"paused": true}))).await;
    status(&stage, KIND, "job", &json!({"phase": "Paused", "match": 1})).await;
    stage.about(KIND).why("job", "nameTaken").await;
    patch(&stage, &json!({"paused": false})).await;
    status(
        &stage,
        KIND,
        "job",
        &json!({"phase": "Succeeded", "match": 1, "succeeded": 1}),
    )
    .await;
    assert_eq!(with_containers(&stage.pods("web").await), ["p1"]);
}

async fn given_a_container_that_fails_then_the_job_fails_with_it(stage: Arc<Stage>) {
    pods(&stage, 1).await;
    stage.script_pod("p0", "exit-after.debug", Some("0s")).await;
    stage.script_pod("p0", "exit-code.debug", Some("3")).await;
    create(&stage, KIND, "job", &spec(&json!({}))).await;
    let ended = status(&stage, KIND, "job", &json!({"phase": "Failed", "failed": 1})).await;
    let failed = &ended["conditions"][1];
    assert_eq!(
        (&failed["type"], &failed["reason"]),
        (&json!("JobFailed"), &json!("CreateFailed"))
    );
}

async fn given_a_pause_then_no_pod_gets_containers_until_it_ends(stage: Arc<Stage>) {
    pods(&stage, 1).await;
    create(&stage, KIND, "job", &spec(&json!({"paused": true}))).await;
    status(&stage, KIND, "job", &json!({"phase": "Paused", "match": 1})).await;
    stage.about(KIND).why("job", "jobPaused").await;
    assert!(with_containers(&stage.pods("web").await).is_empty());
    patch(&stage, &json!({"paused": false})).await;
    status(&stage, KIND, "job", &json!({"phase": "Running", "running": 1})).await;
}

async fn given_no_pod_then_the_job_waits_for_one(stage: Arc<Stage>) {
    create(&stage, KIND, "job", &spec(&json!({}))).await;
    let waits = status(&stage, KIND, "job", &json!({"phase": "Waiting", "match": 0})).await;
    assert_eq!(waits["conditions"][1]["reason"], "MatchEmpty");
    stage.about(KIND).why("job", "noPodChosen").await;
    pods(&stage, 1).await;
    status(
        &stage,
        KIND,
        "job",
        &json!({"phase": "Running", "match": 1, "running": 1}),
    )
    .await;
}

async fn given_a_deletion_then_the_job_goes_and_containers_stay(stage: Arc<Stage>) {
    pods(&stage, 1).await;
    create(&stage, KIND, "job", &spec(&json!({}))).await;
    status(&stage, KIND, "job", &json!({"running": 1})).await;
    let jobs = stage.objects("v1alpha1", KIND);
    let finalizers = jobs.get("job").await.unwrap().metadata.finalizers;
    assert_eq!(finalizers.unwrap(), ["apps.kruise.io/ephemeralcontainers-cleanup"]);
    jobs.delete("job", &DeleteParams::default()).await.unwrap();
    gone(&stage, KIND, "job").await;
    assert_eq!(with_containers(&stage.pods("web").await), ["p0"]);
}

async fn given_a_deadline_then_the_job_fails_while_containers_run(stage: Arc<Stage>) {
    pods(&stage, 1).await;
    create(&stage, KIND, "job", &spec(&json!({"activeDeadlineSeconds": 4}))).await;
    let ended = status(&stage, KIND, "job", &json!({"phase": "Failed", "running": 1})).await;
    let conditions = ended["conditions"].as_array().unwrap();
    let failed = conditions.iter().find(|known| known["type"] == "JobFailed").unwrap();
    assert_eq!(failed["reason"], "DeadlineExceeded");
}
