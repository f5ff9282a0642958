//! The controllers die after any of their writes for a PodProbeMarker; their successors bring it to the same end.
//!
//! One story is told without a crash, which tells how many writes it takes, and then with a crash after some of them: a Pod is listed, a result marks it, and the
//! marker goes with everything that it listed.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::{
    builders::{Fixture as _, pod},
    cluster,
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
    namespace::{self, FreshNamespace},
    sim::{SimOptions, SimulatedNodes},
    torture,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{chart::Kinds, controllers::Controllers, world::World};

const PATIENCE: Duration = Duration::from_mins(1);
/// Crashes in an ordinary run.
const SAMPLE: u64 = 6;

#[test]
fn given_a_crash_after_any_write_for_a_marker_then_its_pod_is_listed_marked_and_let_go_all_the_same() {
    run_test(torture::deadline(Duration::from_mins(10)), async {
        let world = World::knowing(Kinds::All, &cluster::kubeconfig(), "crash-probes").await;
        let options = SimOptions {
            count: 1,
            name_prefix: "crash-probes".to_owned(),
            ..SimOptions::default()
        };
        let nodes = SimulatedNodes::start(world.client.clone(), options).await.unwrap();
        let node = nodes.names().swap_remove(0);
        // The first one also makes the list of the node.
        Story::new(&world.client, &node).await.told(None).await;
        let writes = Story::new(&world.client, &node).await.told(None).await;
        assert!(writes >= 5, "{writes}");
        for write in torture::sample(1, writes, SAMPLE) {
            Story::new(&world.client, &node).await.told(Some(write)).await;
        }
        nodes.stop().await.unwrap();
    });
}

struct Story {
    client: Client,
    node: String,
    work: FreshNamespace,
    pod: Pod,
}

impl Story {
    async fn new(client: &Client, node: &str) -> Self {
        let work = namespace::fresh(client, "crash-probes").await.unwrap();
        let pods: Api<Pod> = work.api();
        let made = pod("web").image("nginx:1").label("app", "game").on_node(node).build();
        pods.create(&PostParams::default(), &made).await.unwrap();
        let pod = eventually(PATIENCE, "the Pod is initialized", || async {
            let pod = pods.get("web").await?;
            let conditions = json!(pod.status)["conditions"].as_array().cloned().unwrap_or_default();
            let mut conditions = conditions.iter();
            let is = conditions.any(|condition| condition["type"] == "Initialized" && condition["status"] == "True");
            is.then_some(pod).ok_or_else(|| NotYet::new("not yet"))
        })
        .await;
        Self {
            client: client.clone(),
            node: node.to_owned(),
            work,
            pod,
        }
    }

    /// Tells it; the controllers die with a write, or do not. How many writes it took.
    async fn told(self, crash_after: Option<u64>) -> u64 {
        let faults = Faults::new(1);
        if let Some(write) = crash_after {
            faults.crash_after_writes(write);
        }
        let controllers = Controllers::start(self.work.name(), &faults).await;
        for chapter in 0..3 {
            tokio::select! {
                () = faults.until_crashed() => {
                    let successor = Controllers::start(self.work.name(), &Faults::new(2)).await;
                    for rest in chapter..3 {
                        self.chapter(rest).await;
                    }
                    successor.stop().await;
                    break;
                }
                () = self.chapter(chapter) => {}
            }
        }
        controllers.stop().await;
        faults.writes()
    }

    async fn chapter(&self, number: u8) {
        match number {
            0 => self.is_listed().await,
            1 => self.is_marked().await,
            _ => self.is_let_go().await,
        }
    }

    async fn is_listed(&self) {
        let spec = json!({"selector": {"matchLabels": {"app": "game"}}, "probes": [{
            "name": "idle", "containerName": "main", "probe": {"exec": {"command": ["true"]}}, "podConditionType": "game.io/idle",
            "markerPolicy": [{"state": "Succeeded", "labels": {"idle": "true"}}],
        }]});
        let marker = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "game"}, "spec": spec});
        let marker: DynamicObject = serde_json::from_value(marker).unwrap();
        match self.markers().create(&PostParams::default(), &marker).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => drop(made.unwrap()),
        }
        self.until_listed("the Pod is listed", |names| names == ["game#idle"])
            .await;
        eventually(PATIENCE, "it is counted", || async {
            let status = self.markers().get("game").await?.data["status"].clone();
            (status["matchedPods"] == 1)
                .then_some(())
                .ok_or_else(|| NotYet::from(status))
        })
        .await;
    }

    async fn is_marked(&self) {
        let time = "2026-05-01T10:00:00Z";
        let state =
            json!({"name": "game#idle", "state": "Succeeded", "lastProbeTime": time, "lastTransitionTime": time});
        let status =
            json!([{"name": "web", "namespace": self.work.name(), "uid": self.pod.uid(), "probeStates": [state]}]);
        let patch = Patch::Merge(json!({"status": {"podProbeStatuses": status}}));
        self.lists()
            .patch_status(&self.node, &PatchParams::default(), &patch)
            .await
            .unwrap();
        let pods: Api<Pod> = self.work.api();
        eventually(PATIENCE, "the Pod is marked", || async {
            let pod = json!(pods.get("web").await?);
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let mut ours = conditions
                .iter()
                .filter(|condition| condition["type"] == "game.io/idle");
            let is_marked =
                pod["metadata"]["labels"]["idle"] == "true" && ours.any(|condition| condition["status"] == "True");
            is_marked.then_some(()).ok_or_else(|| NotYet::from(pod))
        })
        .await;
    }

    async fn is_let_go(&self) {
        match self.markers().delete("game", &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted.unwrap()),
        }
        eventually(PATIENCE, "the marker is gone", || async {
            let marker = self.markers().get_opt("game").await?;
            marker
                .is_none()
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{marker:?}")))
        })
        .await;
        self.until_listed("nothing is listed", <[String]>::is_empty).await;
    }

    /// Waits until the probes that are listed for the Pod are as wanted.
    async fn until_listed(&self, what: &str, wanted: impl Fn(&[String]) -> bool) {
        eventually(PATIENCE, what, || async {
            let list = self.lists().get(&self.node).await?;
            let entries = list.data["spec"]["podProbes"].as_array().cloned().unwrap_or_default();
            let ours = entries.iter().filter(|entry| entry["uid"] == json!(self.pod.uid()));
            let probes = ours.flat_map(|entry| entry["probes"].as_array().cloned().unwrap_or_default());
            let names: Vec<String> = probes
                .map(|probe: Value| probe["name"].as_str().unwrap().to_owned())
                .collect();
            wanted(&names)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{names:?}")))
        })
        .await;
    }

    fn markers(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), self.work.name(), &resource("PodProbeMarker"))
    }

    fn lists(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &resource("NodePodProbe"))
    }
}

fn resource(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", kind))
}
