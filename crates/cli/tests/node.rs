//! The plugin on a real cluster: what people see while containers are restarted and images pulled, and how it ends when that does not work.

use std::{path::PathBuf, process::Command, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::{
    cluster,
    eventually::{NotYet, eventually, not_yet, run_test},
    namespace::{self, FreshNamespace},
};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams},
};
use serde_json::json;

const PATIENCE: Duration = Duration::from_mins(2);

/// Exit code and everything that was printed.
async fn plugin(space: &FreshNamespace, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(PathBuf::from(env!("CARGO_BIN_EXE_kubectl-kruise")));
    command
        .args(args)
        .args(["-n", space.name(), "--kubeconfig"])
        .arg(cluster::nodes_kubeconfig());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn tells(outcome: &(Option<i32>, String), code: i32, parts: &[&str]) {
    let (ended, text) = outcome;
    assert_eq!(*ended, Some(code), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn given_restart_and_pull_then_progress_is_told_and_the_exit_code_says_how_it_ended() {
    run_test(Duration::from_mins(5), async {
        let client = cluster::nodes_client().await;
        let space = namespace::fresh(&client, "plugin").await.unwrap();
        let pods: Api<Pod> = space.api();
        let pod = json!({
            "metadata": {"name": "web-0"},
            "spec": {"terminationGracePeriodSeconds": 2, "containers": [{"name": "main", "image": "nginx:1.25"}, {"name": "side", "image": "nginx:1.25", "env": [{"name": "PORT", "value": "81"}]}]},
        });
        let pod = serde_json::from_value(pod).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "NodeImage"));
        let images: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        eventually(PATIENCE, "every node has a NodeImage", || async {
            let found = images.list(&ListParams::default()).await?.items.len();
            (found >= 3)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{found} NodeImages")))
        })
        .await;
        let counts = || async {
            let pod = pods.get("web-0").await?;
            let status = pod.status.unwrap_or_default();
            let statuses = status.container_statuses.clone().unwrap_or_default();
            if statuses.len() == 2 && statuses.iter().all(|each| each.ready) {
                Ok(statuses.iter().map(|each| each.restart_count).collect::<Vec<i32>>())
            } else {
                Err(not_yet(&status))
            }
        };
        assert_eq!(eventually(PATIENCE, "the Pod is ready", counts).await, [0, 0]);

        let one = ["restart", "pod/web-0", "-c", "main"];
        let two = ["pull", "nginx:1.21", "--nodes", "node2,node3", "--always"];
        let absent = ["pull", "nginx:no-such-tag", "--nodes", "node3", "--pull-timeout", "5s"];
        let (restarted, pulled, failed) =
            tokio::join!(plugin(&space, &one), plugin(&space, &two), plugin(&space, &absent));
        tells(
            &restarted,
            0,
            &[
                "ContainerRecreateRequest",
                "created",
                "main: Recreating",
                "done: main: Succeeded",
            ],
        );
        assert_eq!(eventually(PATIENCE, "the Pod is ready", counts).await, [1, 0]);
        tells(
            &pulled,
            0,
            &[
                "ImagePullJob",
                "created",
                "job has completed: 2 of 2 nodes have it, 0 pull, 0 failed",
            ],
        );
        tells(
            &failed,
            1,
            &["0 of 1 nodes have it, 0 pull, 1 failed", "failed on node3"],
        );

        let refused = plugin(&space, &["restart", "pod/web-0", "-c", "no-such-container"]).await;
        tells(&refused, 1, &["container no-such-container not found in Pod"]);
        let refused = plugin(&space, &["restart", "pod/no-such-pod", "-c", "main"]).await;
        tells(&refused, 1, &["no found Pod named no-such-pod"]);
        // A container that does not come back in time.
        let late = [
            "restart",
            "pod/web-0",
            "-c",
            "side",
            "--unready",
            "1m",
            "--timeout",
            "3s",
        ];
        let late = plugin(&space, &late).await;
        tells(&late, 1, &["recreating has exceeded the activeDeadlineSeconds"]);
    });
}
