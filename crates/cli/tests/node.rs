//! The plugin on a real cluster: what people see while containers are restarted and images pulled, and how it ends when that does not work.

use std::{path::PathBuf, process::Command, time::Duration};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
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
        .args(["-n", space.name(), "--kubeconfig"])
        .arg(cluster::nodes_kubeconfig())
        .args(args);
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

/// Waits until a CloneSet has so many available Pods at its newest revision.
async fn available(space: &FreshNamespace, name: &str, wanted: i64) -> DynamicObject {
    let sets: Api<DynamicObject> = Api::namespaced_with(
        space.api::<Pod>().into_client(),
        space.name(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "CloneSet")),
    );
    eventually(PATIENCE, "the Pods are available", || async {
        let set = sets.get(name).await?;
        let status = &set.data["status"];
        if status["availableReplicas"] == wanted && status["updatedReplicas"] == wanted {
            Ok(set)
        } else {
            Err(not_yet(status))
        }
    })
    .await
}

#[test]
fn given_a_deployment_then_it_is_migrated_planned_for_and_looked_into() {
    run_test(Duration::from_mins(6), async {
        let client = cluster::nodes_client().await;
        let space = namespace::fresh(&client, "plugin-plan").await.unwrap();
        let deployments: Api<Deployment> = space.api();
        let deployment = json!({
            "metadata": {"name": "web"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"terminationGracePeriodSeconds": 2, "containers": [{"name": "main", "image": "nginx:1.25"}]},
            }},
        });
        let deployment = serde_json::from_value(deployment).unwrap();
        deployments.create(&PostParams::default(), &deployment).await.unwrap();
        eventually(PATIENCE, "the Deployment is at rest", || async {
            let status = deployments.get("web").await?.status.unwrap_or_default();
            (status.available_replicas == Some(2))
                .then_some(())
                .ok_or_else(|| not_yet(&status))
        })
        .await;
        let moved = plugin(&space, &["migrate", "deployment", "web", "--timeout-seconds", "120"]).await;
        tells(
            &moved,
            0,
            &["Successfully migrated 2 replicas from Deployment/web to CloneSet/web"],
        );
        available(&space, "web", 2).await;

        let file = std::env::temp_dir().join(format!("{}.yaml", space.name()));
        let new = |container: &str| {
            let rolling = "{podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 1, maxSurge: 0, partition: 1}";
            format!(
                "apiVersion: apps.kruise.io/v1beta1\nkind: CloneSet\nmetadata: {{name: web}}\nspec:\n  updateStrategy: {{type: RollingUpdate, rollingUpdate: {rolling}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec: {{containers: [{container}]}}\n"
            )
        };
        for (container, change, becomes) in [
            (
                "{name: main, image: 'nginx:1.21', imagePullPolicy: IfNotPresent}",
                "containers[0].image: \"nginx:1.25\" → \"nginx:1.21\"",
                "1 Pod updated in place",
            ),
            // Templates of ours default to another policy than a Deployment's, and it cannot be changed in place.
            (
                "{name: main, image: 'nginx:1.21'}",
                "containers[0].imagePullPolicy: \"IfNotPresent\" → \"Always\"",
                "1 Pod deleted, 1 Pod made",
            ),
        ] {
            std::fs::write(&file, new(container)).unwrap();
            let planned = plugin(&space, &["plan", "-f", file.to_str().unwrap()]).await;
            tells(
                &planned,
                0,
                &[
                    change,
                    &format!("What becomes of Pods: {becomes}"),
                    "Budget: 2 of 2 Pods are ready now; it never gets fewer than 1, and there are never more than 2 Pods.",
                    "The partition keeps 1 Pod at the old revision.",
                    "Nothing was written.",
                ],
            );
        }
        drop(std::fs::remove_file(&file));
        let set = available(&space, "web", 2).await;
        assert_eq!(
            set.data["spec"]["template"]["spec"]["containers"][0]["image"],
            "nginx:1.25"
        );

        let told = plugin(&space, &["exec", "cloneset/web", "--", "cat", "/etc/hostname"]).await;
        tells(&told, 0, &["web-"]);
        let failed = plugin(
            &space,
            &["exec", "cloneset/web", "-c", "main", "--", "sh", "-c", "exit 7"],
        )
        .await;
        tells(&failed, 7, &[]);
        let absent = plugin(&space, &["exec", "cloneset/web", "-S", "log", "--", "date"]).await;
        tells(&absent, 1, &["container log not found in pod"]);
    });
}
