//! BroadcastJobs: which nodes they are for, and how many Pods run at the same time.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{Scenario, Stage, broadcast, create, nodes, scenarios, status};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_three_nodes_then_each_runs_a_pod_and_the_job_is_complete,
        given_a_share_of_nodes_then_no_more_run_at_once,
        given_one_at_a_time_then_never_two_run,
        given_nodes_that_do_not_fit_then_they_are_left_out_until_they_do,
        given_a_node_that_stops_fitting_then_its_pod_goes,
        given_a_node_that_goes_away_in_mid_run_then_the_job_goes_on_without_it,
        given_never_then_a_node_that_joins_later_is_served,
        given_a_paused_job_then_no_pod_is_made_until_it_goes_on,
        given_v1alpha1_then_the_job_is_the_same,
    ]
}

const KIND: &str = "BroadcastJob";

async fn edit_node(stage: &Stage, name: &str, patch: Value) {
    let nodes: Api<Node> = Api::all(stage.client());
    nodes
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

fn is_active(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

async fn given_three_nodes_then_each_runs_a_pod_and_the_job_is_complete(stage: Arc<Stage>) {
    let nodes = nodes(&stage, 3).await;
    let made = create(
        &stage,
        KIND,
        "job",
        &broadcast(&stage, &json!({"exit-after": "1s"}), &json!({})),
    )
    .await;
    assert_eq!(
        (
            &made.data["spec"]["parallelism"],
            &made.data["spec"]["completionPolicy"]
        ),
        (&json!(i32::MAX), &json!({"type": "Always"}))
    );
    let done = status(
        &stage,
        KIND,
        "job",
        &json!({"desired": 3, "active": 0, "succeeded": 3, "failed": 0, "phase": "completed"}),
    )
    .await;
    let condition = &done["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["reason"], &condition["message"]),
        (
            &json!("Complete"),
            &json!("Complete"),
            &json!("Job completed, 3 pods succeeded, 0 pods failed")
        )
    );
    assert!(done["startTime"].is_string() && done["completionTime"].is_string());
    let text = format!(
        "Job {}/job is completed, 3 pods succeeded, 0 pods failed",
        stage.namespace()
    );
    stage.event("job", "JobComplete", &text).await;
    stage.event("job", "SuccessfulCreate", "Created pod: job-").await;
    let pods = stage.pods("job").await;
    assert_eq!(pods.len(), 3);
    let uid = made.uid().unwrap();
    let mut on = BTreeSet::new();
    for pod in pods.values() {
        let labels = pod.labels();
        assert_eq!(
            (&labels["broadcastjob-name"], &labels["broadcastjob-controller-uid"]),
            (&"job".to_owned(), &uid)
        );
        let owner = &json!(pod.metadata.owner_references)[0];
        assert_eq!(
            (&owner["apiVersion"], &owner["controller"], &owner["blockOwnerDeletion"]),
            (&json!("apps.kruise.io/v1beta1"), &json!(true), &json!(true))
        );
        let spec = json!(pod.spec);
        let node = spec["nodeName"].as_str().unwrap().to_owned();
        let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(
            *required,
            json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]})
        );
        on.insert(node);
    }
    assert_eq!(on, nodes.names().into_iter().collect());
}

/// Runs a job to its end. Returns the most Pods that were active at the same time.
async fn most_active(stage: &Stage, parallelism: &Value) -> usize {
    let _nodes = nodes(stage, 3).await;
    let history = stage.pod_history("job").await;
    let spec = broadcast(
        stage,
        &json!({"exit-after": "1s"}),
        &json!({"parallelism": parallelism}),
    );
    create(stage, KIND, "job", &spec).await;
    status(stage, KIND, "job", &json!({"succeeded": 3, "phase": "completed"})).await;
    let states = history.end().await;
    let active = states
        .iter()
        .map(|pods| pods.values().filter(|pod| is_active(pod)).count());
    active.max().unwrap()
}

async fn given_a_share_of_nodes_then_no_more_run_at_once(stage: Arc<Stage>) {
    assert_eq!(most_active(&stage, &json!("34%")).await, 2);
}

async fn given_one_at_a_time_then_never_two_run(stage: Arc<Stage>) {
    assert_eq!(most_active(&stage, &json!(1)).await, 1);
}

async fn given_nodes_that_do_not_fit_then_they_are_left_out_until_they_do(stage: Arc<Stage>) {
    let nodes = nodes(&stage, 3).await;
    let names = nodes.names();
    edit_node(&stage, &names[0], json!({"spec": {"unschedulable": true}})).await;
    let taint = json!([{"key": "example.com/busy", "effect": "NoSchedule"}]);
    edit_node(&stage, &names[1], json!({"spec": {"taints": taint}})).await;
    create(&stage, KIND, "job", &broadcast(&stage, &json!({}), &json!({}))).await;
    status(&stage, KIND, "job", &json!({"desired": 1, "active": 1})).await;
    let why = stage.why("job", "nodesUnfit").await;
    assert!(why["cause"].is_string(), "{why}");
    edit_node(&stage, &names[1], json!({"spec": {"taints": null}})).await;
    status(
        &stage,
        KIND,
        "job",
        &json!({"desired": 2, "active": 2, "phase": "running"}),
    )
    .await;
}

async fn given_a_node_that_stops_fitting_then_its_pod_goes(stage: Arc<Stage>) {
    let nodes = nodes(&stage, 2).await;
    create(&stage, KIND, "job", &broadcast(&stage, &json!({}), &json!({}))).await;
    status(&stage, KIND, "job", &json!({"desired": 2, "active": 2})).await;
    edit_node(&stage, &nodes.names()[0], json!({"spec": {"unschedulable": true}})).await;
    status(&stage, KIND, "job", &json!({"desired": 1, "active": 1, "failed": 0})).await;
    stage.until("job", "one Pod is left", |pods| pods.len() == 1).await;
    stage.event("job", "SuccessfulDelete", "Delete pod: job-").await;
}

async fn given_a_node_that_goes_away_in_mid_run_then_the_job_goes_on_without_it(stage: Arc<Stage>) {
    let nodes = nodes(&stage, 2).await;
    create(&stage, KIND, "job", &broadcast(&stage, &json!({}), &json!({}))).await;
    status(&stage, KIND, "job", &json!({"desired": 2, "active": 2})).await;
    let names = nodes.names();
    nodes.remove(&names[0]).await.unwrap();
    status(&stage, KIND, "job", &json!({"desired": 1})).await;
    let left = stage
        .until("job", "the Pod of the other node runs", |pods| {
            pods.values()
                .any(|pod| json!(pod.spec)["nodeName"] == names[1].as_str())
        })
        .await;
    let left = left
        .values()
        .find(|pod| json!(pod.spec)["nodeName"] == names[1].as_str());
    stage
        .script_pod(&left.unwrap().name_any(), "exit-after", Some("0s"))
        .await;
    status(
        &stage,
        KIND,
        "job",
        &json!({"desired": 1, "succeeded": 1, "phase": "completed"}),
    )
    .await;
}

async fn given_never_then_a_node_that_joins_later_is_served(stage: Arc<Stage>) {
    let nodes = nodes(&stage, 1).await;
    let spec = broadcast(
        &stage,
        &json!({"exit-after": "0s"}),
        &json!({"completionPolicy": {"type": "Never"}}),
    );
    create(&stage, KIND, "job", &spec).await;
    status(
        &stage,
        KIND,
        "job",
        &json!({"desired": 1, "succeeded": 1, "phase": "running"}),
    )
    .await;
    nodes.add(1).await.unwrap();
    let both = status(
        &stage,
        KIND,
        "job",
        &json!({"desired": 2, "succeeded": 2, "phase": "running"}),
    )
    .await;
    assert!(both["completionTime"].is_null() && both["conditions"].is_null());
}

async fn given_a_paused_job_then_no_pod_is_made_until_it_goes_on(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 2).await;
    let spec = broadcast(&stage, &json!({"exit-after": "0s"}), &json!({"paused": true}));
    create(&stage, KIND, "job", &spec).await;
    status(&stage, KIND, "job", &json!({"desired": 2, "phase": "paused"})).await;
    stage.why("job", "jobPaused").await;
    assert!(stage.pods("job").await.is_empty());
    stage.patch("job", json!({"spec": {"paused": false}})).await;
    stage.event("job", "Continue", "continue to process job").await;
    status(&stage, KIND, "job", &json!({"succeeded": 2, "phase": "completed"})).await;
}

async fn given_v1alpha1_then_the_job_is_the_same(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 1).await;
    let spec = broadcast(&stage, &json!({"exit-after": "0s"}), &json!({}));
    let job = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": KIND, "metadata": {"name": "job"}, "spec": spec});
    let jobs = stage.objects("v1alpha1", KIND);
    let job = serde_json::from_value(job).unwrap();
    jobs.create(&kube::api::PostParams::default(), &job).await.unwrap();
    status(&stage, KIND, "job", &json!({"succeeded": 1, "phase": "completed"})).await;
    assert_eq!(jobs.get("job").await.unwrap().data["status"]["phase"], "completed");
}
