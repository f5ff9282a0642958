//! `migrate`: at no moment fewer Pods are available than wanted. The test plays kubelets and the CloneSet's controller, slowly.

use super::{explain::expect, stage::Stage};
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Pod};
use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_testkit::{
    cluster,
    eventually::{NotYet, eventually, run_test},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(30);
const EVERY: Duration = Duration::from_millis(100);

fn deployment(replicas: i32) -> Deployment {
    let deployment = json!({
        "metadata": {"name": "api", "labels": {"team": "a"}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "api"}}, "template": {
            "metadata": {"labels": {"app": "api"}}, "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
        }},
    });
    serde_json::from_value(deployment).unwrap()
}

/// Available Pods of both workloads.
#[derive(Clone, Copy, Debug, Default)]
struct Available {
    deployment: usize,
    set: usize,
}

/// The kubelets of the Deployment's Pods, and the controller of the CloneSet: Pods become ready one at a time, those that are not wanted go at once.
struct Played {
    pods: Api<Pod>,
    sets: Api<CloneSet>,
    seen: Mutex<Vec<Available>>,
    /// Pods of the CloneSet do not become ready.
    is_stuck: AtomicBool,
}

impl Played {
    fn new(stage: &Stage) -> Arc<Self> {
        Arc::new(Self {
            pods: stage.namespace.api(),
            sets: stage.namespace.api(),
            seen: Mutex::default(),
            is_stuck: AtomicBool::new(false),
        })
    }

    fn last(&self) -> Available {
        self.seen.lock().unwrap().last().copied().unwrap_or_default()
    }

    async fn play(&self) {
        let mut there = 0;
        loop {
            let mut pods = self.pods.list(&ListParams::default()).await.unwrap().items;
            pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
            let (ready, waiting): (Vec<&Pod>, Vec<&Pod>) = pods.iter().partition(|pod| is_ready(pod));
            let set = value(self.sets.get_opt("api").await.unwrap());
            let wanted = set["spec"]["replicas"]
                .as_u64()
                .and_then(|count| usize::try_from(count).ok());
            let grown = there + usize::from(!self.is_stuck.load(Ordering::Relaxed));
            there = wanted.unwrap_or_default().min(grown.max(there));
            self.seen.lock().unwrap().push(Available {
                deployment: ready.len(),
                set: there,
            });
            let params = PatchParams::default();
            if set.is_object() {
                let patch = Patch::Merge(status(&set, there));
                self.sets.patch_status("api", &params, &patch).await.unwrap();
            }
            if let Some(name) = waiting.first().and_then(|pod| pod.metadata.name.as_deref()) {
                let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
                let patch = Patch::Merge(json!({"status": {"phase": "Running", "conditions": [ready]}}));
                // One that was not wanted any more is gone.
                drop(self.pods.patch_status(name, &params, &patch).await);
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    async fn has(&self, deployment: usize, set: usize) {
        eventually(PATIENCE, "the Pods are there", || async {
            let last = self.last();
            if (last.deployment, last.set) == (deployment, set) {
                Ok(())
            } else {
                Err(NotYet::new(format!("{last:?}")))
            }
        })
        .await;
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn value(object: Option<impl serde::Serialize>) -> Value {
    object.map_or(Value::Null, |object| serde_json::to_value(object).unwrap())
}

fn status(object: &Value, available: usize) -> Value {
    json!({"status": {
        "observedGeneration": object["metadata"]["generation"], "replicas": available, "updatedReplicas": available,
        "readyReplicas": available, "availableReplicas": available, "updatedReadyReplicas": available, "updatedAvailableReplicas": available,
    }})
}

/// Waits until the Deployment's own controller has seen its Pods.
async fn at_rest(deployments: &Api<Deployment>, available: i32) {
    eventually(PATIENCE, "the Deployment is at rest", || async {
        let status = value(deployments.get_opt("api").await?)["status"].clone();
        if status["availableReplicas"] == available && status["updatedReplicas"] == available {
            Ok(())
        } else {
            Err(NotYet::new(status.to_string()))
        }
    })
    .await;
}

#[test]
fn given_a_deployment_then_its_pods_move_and_come_back_without_a_moment_below_what_is_wanted() {
    run_test(Duration::from_mins(4), async {
        let stage = Stage::with_cloneset("migrate").await;
        let (deployments, sets): (Api<Deployment>, Api<CloneSet>) = (stage.namespace.api(), stage.namespace.api());
        let params = PostParams::default();
        deployments.create(&params, &deployment(3)).await.unwrap();
        let played = Played::new(&stage);
        let playing = played.clone();
        let playing = tokio::spawn(async move { playing.play().await });
        at_rest(&deployments, 3).await;
        played.has(3, 0).await;
        played.seen.lock().unwrap().clear();

        // Killed in the middle, while the second Pod does not become ready.
        played.is_stuck.store(true, Ordering::Relaxed);
        let mut killed = Command::new(env!("CARGO_BIN_EXE_kubectl-kruise"))
            .args([
                "migrate",
                "deployment",
                "api",
                "-n",
                stage.namespace.name(),
                "--kubeconfig",
            ])
            .arg(cluster::kubeconfig())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually(PATIENCE, "the migration has begun", || async {
            let set = value(sets.get_opt("api").await?);
            if set["spec"]["replicas"] == 1 {
                Ok(())
            } else {
                Err(NotYet::new(set.to_string()))
            }
        })
        .await;
        killed.kill().unwrap();
        killed.wait().unwrap();
        let timed_out = stage
            .kruise(&["migrate", "deployment/api", "--timeout-seconds", "1"])
            .await;
        expect(
            &timed_out,
            1,
            &["Going on with the migration from Deployment/api", "timed out"],
        );
        played.is_stuck.store(false, Ordering::Relaxed);
        let done = stage.kruise(&["migrate", "deployment", "api"]).await;
        expect(
            &done,
            0,
            &[
                "Migration progress",
                "Successfully migrated 3 replicas from Deployment/api to CloneSet/api",
            ],
        );
        played.has(0, 3).await;
        let set = value(sets.get_opt("api").await.unwrap());
        assert_eq!(set["metadata"]["annotations"].get("kubectl.kruise.io/migration"), None);
        assert_eq!(set["metadata"]["labels"]["team"], "a");

        // The Deployment that is left is used again, with what runs now.
        let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}});
        sets.patch("api", &PatchParams::default(), &Patch::Merge(&image))
            .await
            .unwrap();
        eventually(PATIENCE, "the new template is looked at", || async {
            let set = value(sets.get_opt("api").await?);
            if set["status"]["observedGeneration"] == set["metadata"]["generation"] {
                Ok(())
            } else {
                Err(NotYet::new("not yet"))
            }
        })
        .await;
        let back = ["migrate", "cloneset", "api", "--to", "deployment", "--max-surge", "2"];
        expect(
            &stage.kruise(&back).await,
            0,
            &["its template becomes that of CloneSet/api", "Successfully migrated 3"],
        );
        played.has(3, 0).await;
        let deployment = value(deployments.get_opt("api").await.unwrap());
        assert_eq!(
            deployment["spec"]["template"]["spec"]["containers"][0]["image"],
            "nginx:2"
        );
        playing.abort();
        for pods in played.seen.lock().unwrap().iter() {
            let all = pods.deployment + pods.set;
            assert!((3..=5).contains(&all), "{pods:?}");
        }
    });
}

#[test]
fn given_the_words_of_the_existing_plugin_then_a_set_is_made_empty_and_takes_as_many_as_said() {
    run_test(Duration::from_mins(3), async {
        let stage = Stage::with_cloneset("migrate-old").await;
        let (deployments, sets): (Api<Deployment>, Api<CloneSet>) = (stage.namespace.api(), stage.namespace.api());
        deployments
            .create(&PostParams::default(), &deployment(3))
            .await
            .unwrap();
        let played = Played::new(&stage);
        let playing = tokio::spawn(async move { played.play().await });
        let words = [
            "migrate",
            "CloneSet",
            "--from",
            "Deployment",
            "--src-name",
            "api",
            "--dst-name",
            "api",
        ];
        let with = |more: &[&'static str]| [&words[..], more].concat();
        let made = stage.kruise(&with(&["--create"])).await;
        expect(&made, 0, &["Successfully created from Deployment/api to CloneSet/api"]);
        let replicas = |object: Value| object["spec"]["replicas"].clone();
        assert_eq!(replicas(value(sets.get_opt("api").await.unwrap())), 0);
        expect(&stage.kruise(&with(&["--create"])).await, 1, &["already exists"]);
        expect(
            &stage.kruise(&with(&["--replicas", "0"])).await,
            1,
            &["invalid replicas 0"],
        );
        at_rest(&deployments, 3).await;
        expect(
            &stage.kruise(&with(&["--replicas", "9"])).await,
            1,
            &["has 3 replicas, 9 cannot be moved"],
        );
        let moved = stage
            .kruise(&with(&["--replicas", "2", "--timeout-seconds", "60"]))
            .await;
        expect(
            &moved,
            0,
            &["Successfully migrated 2 replicas from Deployment/api to CloneSet/api"],
        );
        assert_eq!(replicas(value(sets.get_opt("api").await.unwrap())), 2);
        assert_eq!(replicas(value(deployments.get_opt("api").await.unwrap())), 1);

        let scaler = json!({"metadata": {"name": "scaler"}, "spec": {"maxReplicas": 9, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"}}});
        let scalers: Api<HorizontalPodAutoscaler> = stage.namespace.api();
        let scaler: HorizontalPodAutoscaler = serde_json::from_value(scaler).unwrap();
        scalers.create(&PostParams::default(), &scaler).await.unwrap();
        at_rest(&deployments, 1).await;
        expect(
            &stage.kruise(&words).await,
            1,
            &["HorizontalPodAutoscaler scaler scales Deployment api"],
        );
        scalers.delete("scaler", &DeleteParams::default()).await.unwrap();
        expect(
            &stage.kruise(&["migrate", "deployment", "none"]).await,
            1,
            &["deployments.apps \"none\" not found"],
        );
        playing.abort();
    });
}
