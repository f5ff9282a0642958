//! Simulated kubelets against a real apiserver, scheduler and controller-manager.
//!
//! Every test has its own namespace and its own set of nodes, and binds its Pods to them, so that all can run at the same time.

mod containers;
mod end;
mod nodes;
mod readiness;
mod storage;
mod workloads;

use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};
use kruise_testkit::builders::PodBuilder;
use kruise_testkit::eventually::{eventually, eventually_seen, not_yet, run_test};
use kruise_testkit::namespace::{self, FreshNamespace};
use kruise_testkit::sim::{SimOptions, SimulatedNodes};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::Value;

/// Far above what anything here takes, also when all tests run at once on a small machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// One test's own part of the cluster.
struct Scenario {
    client: Client,
    // Dropped in this order: the nodes still end the Pods of the namespace.
    namespace: FreshNamespace,
    nodes: SimulatedNodes,
}

fn on_cluster<F>(name: &'static str, test: impl FnOnce(Scenario) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send,
{
    with_nodes(name, SimOptions::default(), test);
}

fn with_nodes<F>(name: &'static str, options: SimOptions, test: impl FnOnce(Scenario) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send,
{
    // Making a control plane, when there is none, is not part of the test's time.
    kruise_testkit::cluster::kubeconfig();
    run_test(PATIENCE * 3, async move {
        let client = kruise_testkit::cluster::client().await;
        let namespace = namespace::fresh(&client, name).await.unwrap();
        let name_prefix = namespace.name().to_owned();
        let options = SimOptions {
            namespace: Some(name_prefix.clone()),
            name_prefix,
            ..options
        };
        let nodes = SimulatedNodes::start(client.clone(), options).await.unwrap();
        test(Scenario {
            client,
            namespace,
            nodes,
        })
        .await;
    });
}

impl Scenario {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        self.namespace.api()
    }

    /// Creates a Pod that the scheduler binds to one of this test's nodes.
    async fn create(&self, pod: PodBuilder) -> Pod {
        let pod = pod.node_selector(self.nodes.selector()).build();
        self.api().create(&PostParams::default(), &pod).await.unwrap()
    }

    async fn created_and_ready(&self, pod: PodBuilder) -> Pod {
        let name = self.create(pod).await.metadata.name.unwrap();
        self.until(&name, "the Pod is ready", is_ready).await
    }

    /// The Pod as it is when `good` holds for it.
    async fn until(&self, name: &str, what: &str, good: impl Fn(&Pod) -> bool) -> Pod {
        let pods: Api<Pod> = self.api();
        eventually(PATIENCE, what, || async {
            let pod = pods.get(name).await?;
            if good(&pod) { Ok(pod) } else { Err(not_yet(&pod.status)) }
        })
        .await
    }

    /// Like `until`, for states that may be over soon. Begin it before causing them.
    async fn sees(&self, name: &str, what: &str, good: impl Fn(&Pod) -> bool) {
        eventually_seen(self.api::<Pod>(), name, PATIENCE, what, |pod| match pod {
            Some(pod) if good(pod) => Ok(()),
            other => Err(not_yet(&other.map(|pod| &pod.status))),
        })
        .await;
    }

    async fn gone(&self, name: &str) {
        let pods: Api<Pod> = self.api();
        eventually(PATIENCE, "the Pod is gone", || async {
            match pods.get_opt(name).await? {
                None => Ok(()),
                Some(pod) => Err(not_yet(&pod)),
            }
        })
        .await;
    }

    async fn patch(&self, name: &str, patch: Value) -> Pod {
        self.api()
            .patch(name, &PatchParams::default(), &Patch::Strategic(patch))
            .await
            .unwrap()
    }

    async fn patch_status(&self, name: &str, patch: Value) -> Pod {
        self.api()
            .patch_status(name, &PatchParams::default(), &Patch::Strategic(patch))
            .await
            .unwrap()
    }
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status
        .as_ref()?
        .conditions
        .as_ref()?
        .iter()
        .find(|condition| condition.type_ == kind)
}

fn condition_is(pod: &Pod, kind: &str, status: &str) -> bool {
    condition(pod, kind).is_some_and(|condition| condition.status == status)
}

fn is_ready(pod: &Pod) -> bool {
    condition_is(pod, "Ready", "True")
}

fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

/// The status of the first container.
fn main_status(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}

fn waits_for(pod: &Pod) -> &str {
    let state = main_status(pod).and_then(|status| status.state.as_ref());
    state
        .and_then(|state| state.waiting.as_ref())
        .and_then(|waiting| waiting.reason.as_deref())
        .unwrap_or_default()
}
