//! EphemeralJobs: no Pod gets containers twice.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

use super::*;

const PODS: usize = 3;

struct EachOnce;

#[test]
fn given_a_crash_after_any_write_of_an_ephemeral_job_then_every_pod_gets_its_containers_once() {
    crash_after_any_write(EachOnce);
}

impl Case for EachOnce {
    type Watch = ();

    const NAME: &'static str = "ejob";
    const NODES: usize = 1;
    // The finalizer, each Pod, and the end.
    const WRITES: u64 = PODS as u64 + 2;

    async fn prepare(&self, at: &Attempt<'_>) {
        let node = at.nodes.names()[0].clone();
        let pods: Api<Pod> = at.work.api();
        for number in 0..PODS {
            let script = json!({"sim.kruise.test/exit-after.debug": "0s"});
            let pod = json!({
                "metadata": {"name": format!("p{number}"), "labels": {"app": "web"}, "annotations": script},
                "spec": {"nodeName": node, "containers": [{"name": "main", "image": "nginx:1"}]},
            });
            let pod = serde_json::from_value(pod).unwrap();
            pods.create(&PostParams::default(), &pod).await.unwrap();
        }
    }

    async fn submit(&self, at: &Attempt<'_>) {
        let container = json!({
            "name": "debug", "image": "busybox:1", "imagePullPolicy": "IfNotPresent", "terminationMessagePolicy": "File",
        });
        let spec =
            json!({"selector": {"matchLabels": {"app": "web"}}, "template": {"ephemeralContainers": [container]}});
        at.create("v1alpha1", "EphemeralJob", &spec).await;
    }

    async fn is_done(&self, at: &Attempt<'_>, (): &()) -> Result<(), NotYet> {
        let status = at.jobs("v1alpha1", "EphemeralJob").get("job").await?.data["status"].clone();
        let is_done = status["phase"] == "Succeeded" && status["succeeded"] == PODS;
        is_done.then_some(()).ok_or_else(|| NotYet::new(format!("{status:#}")))
    }

    async fn judge(&self, at: &Attempt<'_>, (): (), crash_after: Option<u64>) {
        let pods: Api<Pod> = at.work.api();
        for pod in pods.list(&ListParams::default()).await.unwrap().items {
            let containers = pod.spec.unwrap().ephemeral_containers.unwrap_or_default();
            assert_eq!(containers.len(), 1, "{crash_after:?}");
        }
    }
}
