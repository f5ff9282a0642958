//! `get`: a table of all kinds, objects as they are, what changes, and the nodes of a BroadcastJob. The test is its controller and kubelet.

use super::{commands::expect, stage::Stage};
use k8s_openapi::api::core::v1::Pod;
use kruise_api::{broadcastjob::v1beta1::BroadcastJob, cloneset::v1beta1::CloneSet};
use kruise_testkit::eventually::run_test;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{process::Output, time::Duration};
use tokio::io::{AsyncBufReadExt as _, BufReader};

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
        let row = stage.kruise(&["get", "bcj"]).await;
        expect(&row, 0, &["NAME", "broadcastjob/clean-up   3", "Running"]);
        let gone = stage.kruise(&["get", "nothing", "web"]).await;
        expect(&gone, 1, &["error: there is no resource type \"nothing\" here"]);
    });
}

/// What was printed, with ages taken out, in cells.
fn rows(output: &Output) -> Vec<Vec<String>> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().map(|line| {
        let cells = line.split("   ").map(str::trim).filter(|cell| !cell.is_empty());
        let is_age = |cell: &str| cell.ends_with('s') && cell[..cell.len() - 1].parse::<u32>().is_ok();
        cells
            .map(|cell| if is_age(cell) { "AGE" } else { cell }.to_owned())
            .collect()
    });
    lines.collect()
}

#[test]
fn given_workloads_then_one_table_tells_how_far_they_are_and_what_they_wait_for() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_cloneset("overview").await;
        let sets: Api<CloneSet> = stage.namespace.api();
        let partition =
            json!({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}}});
        sets.patch("web", &PatchParams::default(), &Patch::Merge(&partition))
            .await
            .unwrap();
        let seen = json!({"status": {"observedGeneration": 2}});
        sets.patch_status("web", &PatchParams::default(), &Patch::Merge(&seen))
            .await
            .unwrap();
        let head = ["NAME", "WANTED", "UPDATED", "READY", "AGE", "STATE", "WAITS FOR"];
        let line = [
            "cloneset/web",
            "5",
            "2",
            "5",
            "AGE",
            "Held",
            "The partition keeps 3 Pods at the old revision.",
        ];
        for words in [
            &["get"][..],
            &["get", "all"],
            &["get", "clone"],
            &["get", "CloneSets", "web"],
            &["get", "clone/web"],
        ] {
            let output = stage.kruise(words).await;
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            assert_eq!(rows(&output), [&head[..], &line], "{words:?}");
        }
        let everywhere = stage
            .kruise(&["get", "clone", "-A", "-o", "wide", "--no-headers"])
            .await;
        let found = rows(&everywhere);
        let ours = found.iter().find(|row| row[0] == stage.namespace.name()).unwrap();
        assert_eq!(ours[1..6], ["cloneset/web", "5", "2", "5", "AGE"]);
        assert_eq!(ours[7..10], ["5", "-", "nginx"]);

        let json = stage.kruise(&["get", "clone", "web", "-o", "json"]).await;
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(
            (&json["kind"], &json["metadata"]["name"]),
            (&json!("CloneSet"), &json!("web"))
        );
        assert_eq!(json["metadata"]["managedFields"], Value::Null);
        let older = stage
            .kruise(&["get", "clonesets.v1alpha1.apps.kruise.io", "web", "-o", "yaml"])
            .await;
        expect(&older, 0, &["apiVersion: apps.kruise.io/v1alpha1"]);
        let names = stage.kruise(&["get", "clone", "-o", "name"]).await;
        expect(&names, 0, &["cloneset.apps.kruise.io/web"]);
        let none = stage.kruise(&["get", "clone", "-l", "app=nothing"]).await;
        expect(&none, 0, &["No resources found in"]);
        let both = stage.kruise(&["get", "clone/web", "clone/gone", "-o", "name"]).await;
        expect(
            &both,
            1,
            &[
                "cloneset.apps.kruise.io/web",
                "error: clonesets.apps.kruise.io \"gone\" not found",
            ],
        );
    });
}

#[test]
fn given_watch_then_changes_are_told_until_nobody_reads() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_cloneset("watch").await;
        let mut child = stage.start(&["get", "clone", "-w"]);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let head = lines.next_line().await.unwrap().unwrap();
        assert!(head.starts_with("NAME"), "{head}");
        let first = lines.next_line().await.unwrap().unwrap();
        assert!(first.contains("cloneset/web   5"), "{first}");
        let sets: Api<CloneSet> = stage.namespace.api();
        let status = json!({"status": {"updatedReplicas": 5, "expectedUpdatedReplicas": 5}});
        sets.patch_status("web", &PatchParams::default(), &Patch::Merge(&status))
            .await
            .unwrap();
        let next = lines.next_line().await.unwrap().unwrap();
        assert!(next.contains("Ready"), "{next}");
        child.kill().await.unwrap();
    });
}

#[test]
fn given_no_right_or_no_crds_then_one_sentence_says_so() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_cloneset("nothing").await;
        for words in [
            &["get", "clone/web", "--as", "nobody"][..],
            &["get", "clone", "--as", "nobody"],
            &["get", "--as", "nobody"],
        ] {
            let refused = stage.kruise(words).await;
            expect(&refused, 1, &["error: ", "User \"nobody\" cannot"]);
            assert_eq!(
                String::from_utf8_lossy(&refused.stderr).lines().count(),
                1,
                "{refused:?}"
            );
        }
        stage.without_kind().await;
        let alone = stage.kruise(&["get", "clone"]).await;
        expect(
            &alone,
            1,
            &["error: the cluster does not know CloneSets: OpenKruise is not installed there"],
        );
        let nobody = stage.kruise(&["get", "clone", "--cluster", "nowhere"]).await;
        assert_eq!(nobody.status.code(), Some(1));
        let text = String::from_utf8_lossy(&nobody.stderr).into_owned();
        assert!(text.starts_with("error: ") && text.lines().count() == 1, "{text}");
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
