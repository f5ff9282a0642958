//! `get`: the nodes of a BroadcastJob. The test is its controller and kubelet.

use super::{commands::expect, stage::Stage};
use k8s_openapi::api::core::v1::Pod;
use kruise_api::broadcastjob::v1beta1::BroadcastJob;
use kruise_testkit::eventually::run_test;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn given_a_broadcast_job_then_get_lists_its_nodes_and_why_pods_failed() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_kind("get", "broadcastjobs.apps.kruise.io").await;
        let jobs: Api<BroadcastJob> = stage.namespace.api();
        let main = json!({"name": "main", "image": "busybox"});
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [main]}});
        let job = json!({"metadata": {"name": "clean-up"}, "spec": {"template": template}});
        let job: BroadcastJob = serde_json::from_value(job).unwrap();
        let job = jobs.create(&PostParams::default(), &job).await.unwrap();
        let counts = json!({"phase": "running", "desired": 3, "active": 0, "succeeded": 1, "failed": 1});
        let status = Patch::Merge(json!({ "status": counts }));
        jobs.patch_status("clean-up", &PatchParams::default(), &status)
            .await
            .unwrap();
        let uid = job.metadata.uid.unwrap();
        let failed = json!({"terminated": {"exitCode": 3, "reason": "Error", "message": "no space left"}});
        pod(&stage, "a", &uid, "Succeeded", &json!({"terminated": {"exitCode": 0}})).await;
        pod(&stage, "b", &uid, "Failed", &failed).await;
        pod(&stage, "of-another", "u-other", "Failed", &json!({})).await;

        for words in [&["get", "broadcastjob", "clean-up"][..], &["get", "bcj/clean-up"]] {
            let output = stage.kruise(words).await;
            let namespace = stage.namespace.name();
            let head = format!("BroadcastJob {namespace}/clean-up: running, 3 nodes, 0 active, 1 succeeded, 1 failed");
            expect(&output, 0, &[&head, "Nodes that have not had their Pod yet: 1."]);
            let told = String::from_utf8(output.stdout).unwrap();
            let rows: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
            assert_eq!(rows[2], ["NODE", "STATE", "RESTARTS", "POD", "REASON"], "{told}");
            assert_eq!(rows[3][..4], ["node-b", "Failed", "0", "b"], "{told}");
            assert_eq!(rows[3][4..].join(" "), "main: exit code 3: no space left");
            assert_eq!(rows[4], ["node-a", "Succeeded", "0", "a"], "{told}");
            assert!(!told.contains("of-another"), "{told}");
        }
        let gone = stage.kruise(&["get", "bcj", "other"]).await;
        expect(&gone, 1, &["broadcastjobs.apps.kruise.io \"other\" not found"]);
        let other = stage.kruise(&["get", "cloneset", "web"]).await;
        expect(&other, 1, &["CloneSets cannot be shown"]);
    });
}

/// A Pod of the job that has come to this state.
async fn pod(stage: &Stage, name: &str, job: &str, phase: &str, state: &Value) {
    let pods: Api<Pod> = stage.namespace.api();
    let labels = json!({"broadcastjob-name": "clean-up", "broadcastjob-controller-uid": job});
    let spec = json!({
        "nodeName": format!("node-{name}"), "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}],
    });
    let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let main = json!({
        "name": "main", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0, "state": state,
    });
    let status = Patch::Merge(json!({"status": {"phase": phase, "containerStatuses": [main]}}));
    pods.patch_status(name, &PatchParams::default(), &status).await.unwrap();
}
