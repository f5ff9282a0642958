//! The controllers die after any of their writes for an EphemeralJob; their successors bring it to the same end, and no Pod gets containers twice.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::{
    cluster,
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
    namespace::{self, FreshNamespace},
    sim::{SimOptions, SimulatedNodes},
    torture,
};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams},
};
use serde_json::json;

use super::{chart::Kinds, controllers::Controllers, world::World};

const PATIENCE: Duration = Duration::from_secs(90);
const AT_ONCE: usize = 6;
/// Crashes in an ordinary run.
const SAMPLE: u64 = 6;
const PODS: usize = 3;

#[test]
fn given_a_crash_after_any_write_of_an_ephemeral_job_then_every_pod_gets_its_containers_once() {
    run_test(torture::deadline(Duration::from_mins(10)), async {
        let world = World::knowing(Kinds::All, &cluster::kubeconfig(), "crash-ejob").await;
        let options = SimOptions {
            count: 1,
            name_prefix: "crash-ejob".to_owned(),
            ..SimOptions::default()
        };
        let nodes = SimulatedNodes::start(world.client.clone(), options).await.unwrap();
        let node = nodes.names()[0].clone();
        let writes = attempt(&world, &node, None).await;
        // The finalizer, each Pod, and the end.
        assert!(writes > PODS as u64, "{writes}");
        let crashes = torture::sample(1, writes.min(PODS as u64 + 2), SAMPLE);
        let crashes = stream::iter(crashes).map(|write| attempt(&world, &node, Some(write)));
        crashes.buffer_unordered(AT_ONCE).for_each(|_| async {}).await;
        nodes.stop().await.unwrap();
    });
}

/// Runs a job to its end, with a crash on the way or without. How many writes it took.
async fn attempt(world: &World, node: &str, crash_after: Option<u64>) -> u64 {
    let work = namespace::fresh(&world.client, "crash-ejob").await.unwrap();
    let pods: Api<Pod> = work.api();
    for number in 0..PODS {
        let pod = json!({
            "metadata": {
                "name": format!("p{number}"), "labels": {"app": "web"}, "annotations": {"sim.kruise.test/exit-after.debug": "0s"},
            },
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "nginx:1"}]},
        });
        let pod = serde_json::from_value(pod).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    let faults = Faults::new(1);
    if let Some(write) = crash_after {
        faults.crash_after_writes(write);
    }
    let controllers = Controllers::start(work.name(), &faults).await;
    let container = json!({
        "name": "debug", "image": "busybox:1", "imagePullPolicy": "IfNotPresent", "terminationMessagePolicy": "File",
    });
    let job = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "EphemeralJob", "metadata": {"name": "job"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"ephemeralContainers": [container]}},
    });
    let job: DynamicObject = serde_json::from_value(job).unwrap();
    jobs(&work, world).create(&PostParams::default(), &job).await.unwrap();
    if crash_after.is_some() {
        faults.until_crashed().await;
        let successor = Controllers::start(work.name(), &Faults::new(2)).await;
        succeeds(&work, world).await;
        successor.stop().await;
    } else {
        succeeds(&work, world).await;
    }
    let writes = faults.writes();
    controllers.stop().await;
    for pod in pods.list(&ListParams::default()).await.unwrap().items {
        let containers = pod.spec.unwrap().ephemeral_containers.unwrap_or_default();
        assert_eq!(containers.len(), 1, "{crash_after:?}");
    }
    writes
}

fn jobs(work: &FreshNamespace, world: &World) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", "EphemeralJob"));
    Api::namespaced_with(world.client.clone(), work.name(), &kind)
}

async fn succeeds(work: &FreshNamespace, world: &World) {
    let jobs = jobs(work, world);
    eventually(PATIENCE, "the job succeeds", || async {
        let status = jobs.get("job").await?.data["status"].clone();
        let is_done = status["phase"] == "Succeeded" && status["succeeded"] == PODS;
        is_done.then_some(()).ok_or_else(|| NotYet::new(format!("{status:#}")))
    })
    .await;
}
