//! A client that does nothing but the writes themselves: the limit that the API server sets on this machine.
//!
//! It makes the same requests as a controller would, through the same webhooks, with many at a time, and decides nothing.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::watch;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::workload::{image, pod_spec};

/// Writes under way at the same time.
const AT_ONCE: usize = 64;
const PATIENCE: Duration = Duration::from_mins(10);

/// Label `app` of the Pods.
pub(super) const APP: &str = "bare";

/// Pods of a namespace, written one by one.
pub(super) struct Bare {
    pods: Api<Pod>,
    owner: Value,
    names: Vec<String>,
    /// Where the Pods go; the scheduler decides if there is nothing here.
    nodes: Vec<String>,
    /// The scheduler brings each Pod to the node that it asks for.
    is_scheduled: bool,
}

impl Bare {
    pub(super) async fn new(client: &Client, namespace: &str, count: usize) -> Result<Self> {
        Self::on_nodes(client, namespace, count, &[]).await
    }

    /// Pods that nobody has to schedule and that are held back by nothing.
    ///
    /// They need an owner that exists and whose controller does not mind them.
    pub(super) async fn on_nodes(client: &Client, namespace: &str, count: usize, nodes: &[String]) -> Result<Self> {
        let kind = super::kind("PersistentPodState", "persistentpodstates");
        let owners: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
        let owner = DynamicObject::new("bare", &kind).data(json!({"spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "nobody"},
            "requiredPersistentTopology": {"keys": ["kubernetes.io/hostname"]},
        }}));
        let owner = owners.create(&PostParams::default(), &owner).await?;
        Ok(Self {
            pods: Api::namespaced(client.clone(), namespace),
            owner: json!([{
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "PersistentPodState", "name": "bare",
                "uid": owner.metadata.uid, "controller": true, "blockOwnerDeletion": true,
            }]),
            names: (0..count).map(|number| format!("bare-{number}")).collect(),
            nodes: nodes.to_owned(),
            is_scheduled: nodes.is_empty(),
        })
    }

    /// One Pod for each node, which asks the scheduler for it.
    pub(super) async fn one_per_node(client: &Client, namespace: &str, nodes: &[String]) -> Result<Self> {
        Ok(Self {
            is_scheduled: true,
            ..Self::on_nodes(client, namespace, nodes.len(), nodes).await?
        })
    }

    /// As many Pods with other names.
    pub(super) fn others(&self) -> Self {
        Self {
            pods: self.pods.clone(),
            owner: self.owner.clone(),
            names: self.names.iter().map(|name| format!("{name}-new")).collect(),
            nodes: self.nodes.clone(),
            is_scheduled: self.is_scheduled,
        }
    }

    /// Creates every Pod and says once that it is not held back. Returns when all are created, and when all are ready.
    pub(super) async fn create(&self) -> Result<(Duration, Duration)> {
        let begin = Instant::now();
        let ready = self.until_all(is_ready);
        let write = async {
            self.create_all().await?;
            let created = begin.elapsed();
            self.for_all(|name| self.release(name)).await?;
            Ok(created)
        };
        let (created, ()) = tokio::try_join!(write, ready)?;
        Ok((created, begin.elapsed()))
    }

    /// Creates every Pod; returns when the last request is answered.
    pub(super) async fn create_all(&self) -> Result<()> {
        let nodes = self.nodes.iter().map(Some).chain(self.nodes.is_empty().then_some(None));
        stream::iter(self.names.iter().zip(nodes.cycle()))
            .map(|(name, node)| async move {
                let pod = serde_json::from_value::<Pod>(self.manifest(name, node))?;
                self.pods.create(&PostParams::default(), &pod).await?;
                anyhow::Ok(())
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Does something to every Pod, many at a time.
    async fn for_all<'a, F: Future<Output = Result<()>>>(&'a self, act: impl Fn(&'a String) -> F) -> Result<()> {
        stream::iter(&self.names)
            .map(act)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Changes the image of every Pod in place, in three writes: not ready, the change, ready again once the container is new.
    pub(super) async fn update(&self, image: &str) -> Result<Duration> {
        let begin = Instant::now();
        let ready = self.until_all(|pod| is_ready(pod) && runs(pod, image));
        let write = self.for_all(|name| async move {
            self.condition(name, "False", "StartInPlaceUpdate").await?;
            let change = json!({"spec": {"containers": [{"name": "main", "image": image}]}});
            let change = Patch::Strategic(change);
            self.pods.patch(name, &PatchParams::default(), &change).await?;
            Ok(())
        });
        let finish = self.for_each(|pod| runs(pod, image), |name| async move { self.release(&name).await });
        tokio::try_join!(write, finish, ready)?;
        Ok(begin.elapsed())
    }

    /// Gives a sidecar of every Pod another image, in two writes: the change with what is noted about it, and a condition.
    pub(super) async fn upgrade(&self, sidecar: &str, image: &str) -> Result<Duration> {
        let begin = Instant::now();
        let ready = self.until_all(|pod| is_ready(pod) && runs_in(pod, sidecar, image));
        let write = self.for_all(|name| async move {
            // As much as the records of a SidecarSet.
            let note = json!({"example.com/records": "r".repeat(400)});
            let containers = json!([{"name": sidecar, "image": image}]);
            let change = json!({"metadata": {"annotations": note}, "spec": {"containers": containers}});
            let change = Patch::Strategic(change);
            self.pods.patch(name, &PatchParams::default(), &change).await?;
            let condition = json!({"type": "example.com/Upgraded", "status": "True", "reason": "Upgraded"});
            let condition = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
            self.pods
                .patch_status(name, &PatchParams::default(), &condition)
                .await?;
            Ok(())
        });
        tokio::try_join!(write, ready)?;
        Ok(begin.elapsed())
    }

    /// Deletes every Pod and waits until no Pod is left in the namespace; returns how long the requests took.
    pub(super) async fn delete(&self) -> Result<Duration> {
        let begin = Instant::now();
        self.delete_all().await?;
        let deleted = begin.elapsed();
        gone(&self.pods).await?;
        Ok(deleted)
    }

    /// Deletes every Pod; returns when the last request is answered.
    pub(super) async fn delete_all(&self) -> Result<()> {
        self.for_all(|name| async move {
            self.pods.delete(name, &DeleteParams::default()).await?;
            Ok(())
        })
        .await
    }

    /// Waits until every Pod has been ready.
    pub(super) async fn ready(&self) -> Result<()> {
        self.until_all(is_ready).await
    }

    async fn release(&self, name: &str) -> Result<()> {
        self.condition(name, "True", "").await
    }

    async fn condition(&self, name: &str, status: &str, reason: &str) -> Result<()> {
        let now = k8s_openapi::jiff::Timestamp::now().to_string();
        let state = if status == "True" { "Normal" } else { "Updating" };
        let patch = json!({
            "metadata": {"labels": {"lifecycle.apps.kruise.io/state": state}},
            "status": {"conditions": [
                {"type": "InPlaceUpdateReady", "status": status, "reason": reason, "lastTransitionTime": now},
                {"type": "KruisePodReady", "status": "True", "lastTransitionTime": now},
            ]},
        });
        self.pods
            .patch_status(name, &PatchParams::default(), &Patch::Strategic(patch))
            .await?;
        Ok(())
    }

    fn manifest(&self, name: &str, node: Option<&String>) -> Value {
        let mut spec = pod_spec(&image(1), node.is_none());
        match node {
            Some(node) if self.is_scheduled => {
                let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
                let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
                spec["affinity"] =
                    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
            }
            Some(node) => spec["nodeName"] = json!(node),
            None => {}
        }
        json!({"metadata": {"name": name, "labels": {"app": APP}, "ownerReferences": self.owner}, "spec": spec})
    }

    /// Waits until a condition has held for every Pod.
    pub(super) async fn until_all(&self, condition: impl Fn(&Pod) -> bool) -> Result<()> {
        self.for_each(condition, |_| async { Ok(()) }).await
    }

    /// Does something once for each Pod, as soon as a condition holds for it.
    async fn for_each<F: Future<Output = Result<()>>>(
        &self,
        condition: impl Fn(&Pod) -> bool,
        act: impl Fn(String) -> F,
    ) -> Result<()> {
        let mut open: HashSet<String> = self.names.iter().cloned().collect();
        let mut events = watch::applied(self.pods.clone()).boxed();
        let mut acting = stream::FuturesUnordered::new();
        let work = async {
            while !open.is_empty() {
                tokio::select! {
                    pod = events.try_next() => {
                        let pod = pod?.context("the watch has ended")?;
                        if condition(&pod) && open.remove(&pod.name_any()) {
                            acting.push(act(pod.name_any()));
                        }
                    }
                    Some(done) = acting.next(), if !acting.is_empty() => done?,
                }
            }
            while let Some(done) = acting.next().await {
                done?;
            }
            Ok(())
        };
        match timeout(PATIENCE, work).await {
            Ok(result) => result,
            Err(_) => bail!("not done within {PATIENCE:?}"),
        }
    }
}

/// Waits until no Pod is left.
pub(super) async fn gone(pods: &Api<Pod>) -> Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if pods
            .list_metadata(&ListParams::default().limit(1))
            .await?
            .items
            .is_empty()
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    bail!("Pods are left")
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|each| each.type_ == "Ready" && each.status == "True"))
}

/// Whether its spec asks for an image.
pub(super) fn is_to_run(pod: &Pod, image: &str) -> bool {
    let spec = pod.spec.as_ref();
    spec.is_some_and(|spec| spec.containers.iter().any(|each| each.image.as_deref() == Some(image)))
}

pub(super) fn runs(pod: &Pod, image: &str) -> bool {
    runs_in(pod, "main", image)
}

/// Whether a container runs an image, if it runs at all.
pub(super) fn runs_in(pod: &Pod, container: &str, image: &str) -> bool {
    let containers = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    containers.is_some_and(|all| all.iter().all(|each| each.name != container || each.image == image))
}
