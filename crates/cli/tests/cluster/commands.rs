//! `restart` and `pull`: what they make, and how they tell what becomes of it. The test is manager and daemon.

use super::stage::Stage;
use k8s_openapi::api::core::v1::Pod;
use kruise_api::{
    containerrecreaterequest::v1beta1::ContainerRecreateRequest, imagepulljob::v1beta1::ImagePullJob, kind::WholeKind,
};
use kruise_testkit::{
    builders::pod,
    eventually::{NotYet, eventually, run_test},
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{fmt::Debug, process::Output, time::Duration};

const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for the object that the plugin makes.
async fn made<K: WholeKind + Clone + Debug>(api: &Api<K>) -> K {
    eventually(PATIENCE, "the plugin has made it", || async {
        let found = api.list(&ListParams::default()).await?.items;
        found.into_iter().next().ok_or_else(|| NotYet::new("nothing yet"))
    })
    .await
}

async fn answer<K: WholeKind + Clone + Debug>(api: &Api<K>, name: &str, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

pub(super) fn expect(output: &Output, code: i32, lines: &[&str]) {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
    for line in lines {
        assert!(
            stdout
                .lines()
                .chain(stderr.lines())
                .any(|printed| printed.contains(line)),
            "{line:?} is not in\n{stdout}{stderr}"
        );
    }
}

#[test]
fn given_a_pod_then_restart_makes_a_request_and_follows_it_to_its_end() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_kind("restart", "containerrecreaterequests.apps.kruise.io").await;
        let web = pod("web").image("nginx").container("side", "busybox").build();
        stage
            .namespace
            .api::<Pod>()
            .create(&PostParams::default(), &web)
            .await
            .unwrap();
        let requests: Api<ContainerRecreateRequest> = stage.namespace.api();
        let played = async {
            let request = made(&requests).await;
            let name = request.name_any();
            assert!(name.starts_with("web-"));
            let names: Vec<&str> = request
                .spec
                .containers
                .iter()
                .map(|container| container.name.as_str())
                .collect();
            assert_eq!(names, ["main", "side"], "all containers");
            let strategy = request.spec.strategy.as_ref().unwrap();
            assert_eq!(
                (strategy.unready_grace_period_seconds, strategy.ordered_recreate),
                (Some(2), true)
            );
            let states = |first: &str, second: &str| json!([{"name": "main", "phase": first}, {"name": "side", "phase": second}]);
            answer(
                &requests,
                &name,
                json!({"phase": "Recreating", "containerRecreateStates": states("Succeeded", "Failed")}),
            )
            .await;
            answer(
                &requests,
                &name,
                json!({"phase": "Completed", "completionTime": "2026-01-01T00:00:00Z"}),
            )
            .await;
        };
        let words = ["restart", "pod/web", "--ordered", "--unready", "2s"];
        let (output, ()) = tokio::join!(stage.kruise(&words), played);
        expect(&output, 1, &["created", "done: main: Succeeded, side: Failed"]);
        let gone = stage.kruise(&["restart", "pod/other"]).await;
        expect(&gone, 1, &["pods \"other\" not found"]);
    });
}

#[test]
fn given_nodes_then_pull_makes_a_job_and_names_those_that_failed() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_kind("pull", "imagepulljobs.apps.kruise.io").await;
        let jobs: Api<ImagePullJob> = stage.namespace.api();
        let played = async {
            let job = made(&jobs).await;
            assert_eq!(job.spec.selector.as_ref().unwrap().names, ["a", "b"]);
            let status = json!({
                "desired": 2, "active": 0, "succeeded": 1, "failed": 1, "failedNodes": ["b"], "message": "job has completed",
                "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:00Z",
            });
            answer(&jobs, &job.name_any(), status).await;
        };
        let (output, ()) = tokio::join!(stage.kruise(&["pull", "nginx:1", "--nodes", "a,b"]), played);
        expect(
            &output,
            1,
            &[
                "created",
                "job has completed: 1 of 2 nodes have it, 0 pull, 1 failed",
                "failed on b",
            ],
        );
        let begun = stage.kruise(&["pull", "nginx:1", "--no-wait"]).await;
        expect(&begun, 0, &["created"]);
    });
}
