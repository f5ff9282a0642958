//! CloneSets, StatefulSets or DaemonSets of a namespace, driven as their users do: by changing the spec and watching the Pods.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::watch::{self, Event};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::bare;
use super::kind;

const PATIENCE: Duration = Duration::from_mins(15);

/// Two containers of the usual size; `gate` for the readiness gate that CloneSet adds by itself.
pub(super) fn pod_spec(image: &str, gate: bool) -> Value {
    let container = |name: &str, image: &str| {
        json!({
            "name": name, "image": image, "env": [{"name": "A", "value": "1"}],
            "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
        })
    };
    let gates = if gate {
        json!([{"conditionType": "InPlaceUpdateReady"}])
    } else {
        json!([])
    };
    json!({
        "containers": [container("main", image), container("side", "registry.example/side:1")],
        "readinessGates": gates, "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false,
    })
}

/// Some image of the application.
pub(super) fn image(version: u32) -> String {
    format!("registry.example/app:{version}")
}

/// How Pods are brought to a new revision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rollout {
    pub(super) policy: &'static str,
    pub(super) max_unavailable: &'static str,
}

pub(super) const ALL_IN_PLACE: Rollout = Rollout {
    policy: "InPlaceIfPossible",
    max_unavailable: "100%",
};

/// The kind of the sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Clone,
    Stateful,
    /// It has a Pod for each node that it is let onto: for none at the beginning.
    Daemon,
}

impl Kind {
    fn resource(self) -> ApiResource {
        match self {
            Self::Clone => kind("CloneSet", "clonesets"),
            Self::Stateful => kind("StatefulSet", "statefulsets"),
            Self::Daemon => kind("DaemonSet", "daemonsets"),
        }
    }

    /// Only StatefulSets ask their users for the readiness gate of updates in place.
    fn pod_spec(self, version: u32) -> Value {
        pod_spec(&image(version), self == Self::Stateful)
    }

    /// A set without Pods.
    fn spec(self, app: &str) -> Value {
        let mut spec = json!({
            "selector": {"matchLabels": {"app": app}},
            "updateStrategy": self.strategy(ALL_IN_PLACE),
            "template": {"metadata": {"labels": {"app": app}}, "spec": self.pod_spec(1)},
        });
        match self {
            Self::Clone => spec["replicas"] = json!(0),
            Self::Stateful => {
                spec["replicas"] = json!(0);
                spec["serviceName"] = json!(app);
                spec["podManagementPolicy"] = json!("Parallel");
            }
            Self::Daemon => {
                spec["updateStrategy"]["rollingUpdate"]["partition"] = json!("100%");
                spec["scaleStrategy"] = json!({"partitionedScaling": true});
                spec["burstReplicas"] = json!("100%");
            }
        }
        spec
    }

    /// So many Pods for a set.
    fn scaled(self, replicas: usize) -> Value {
        match self {
            Self::Clone | Self::Stateful => json!({"spec": {"replicas": replicas}}),
            Self::Daemon => json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}),
        }
    }

    fn strategy(self, rollout: Rollout) -> Value {
        let mut rules = json!({"maxUnavailable": rollout.max_unavailable, "partition": 0});
        let policy = match self {
            Self::Daemon => "rollingUpdateType",
            Self::Clone | Self::Stateful => "podUpdatePolicy",
        };
        rules[policy] = json!(rollout.policy);
        json!({"type": "RollingUpdate", "rollingUpdate": rules})
    }
}

/// A number of equal sets, which have a namespace for themselves.
pub(super) struct Workload {
    kind: Kind,
    sets: Api<DynamicObject>,
    pub(super) pods: Api<Pod>,
    names: Vec<String>,
}

impl Workload {
    /// CloneSets without any Pod.
    pub(super) async fn new(client: &Client, namespace: &str, sets: usize) -> Result<Self> {
        Self::of(Kind::Clone, client, namespace, sets).await
    }

    /// Sets of a kind without any Pod.
    pub(super) async fn of(kind: Kind, client: &Client, namespace: &str, sets: usize) -> Result<Self> {
        let resource = kind.resource();
        let this = Self {
            kind,
            sets: Api::namespaced_with(client.clone(), namespace, &resource),
            pods: Api::namespaced(client.clone(), namespace),
            names: (0..sets).map(|number| format!("set-{number}")).collect(),
        };
        this.for_all(async |name| {
            let set = DynamicObject::new(name, &resource).data(json!({"spec": kind.spec(name)}));
            this.sets.create(&PostParams::default(), &set).await?;
            Ok(())
        })
        .await?;
        Ok(this)
    }

    /// Gives each set so many replicas; returns how long it took until all Pods were there, and until all were ready.
    pub(super) async fn scale_out(&self, replicas: usize) -> Result<(Duration, Duration)> {
        let begin = Instant::now();
        let all = self.names.len() * replicas;
        let write = self.patch(self.kind.scaled(replicas));
        let (all, ready, ()) = tokio::try_join!(self.until(all, |_| true), self.until(all, bare::is_ready), write)?;
        Ok((all - begin, ready - begin))
    }

    /// Takes all replicas away; returns how long it took until all Pods were asked to go. They are gone then, too.
    pub(super) async fn scale_in(&self) -> Result<Duration> {
        let begin = Instant::now();
        let write = self.patch(self.kind.scaled(0));
        let asked = self.until(0, |pod| pod.metadata.deletion_timestamp.is_none());
        let (asked, ()) = tokio::try_join!(asked, write)?;
        bare::gone(&self.pods).await?;
        Ok(asked - begin)
    }

    /// Deletes the sets and waits until their Pods are gone.
    pub(super) async fn remove(&self) -> Result<()> {
        self.for_all(async |name| {
            self.sets.delete(name, &DeleteParams::background()).await?;
            Ok(())
        })
        .await?;
        bare::gone(&self.pods).await
    }

    /// Begins a rollout of a version of the application.
    pub(super) async fn roll(&self, rollout: Rollout, version: u32) -> Result<()> {
        let mut spec = self.kind.pod_spec(version);
        let containers = spec["containers"].take();
        self.patch(json!({"spec": {
            "updateStrategy": self.kind.strategy(rollout),
            "template": {"spec": {"containers": containers}},
        }}))
        .await
    }

    /// Waits until so many Pods run a version and are ready.
    pub(super) async fn rolled(&self, pods: usize, version: u32) -> Result<Instant> {
        let image = image(version);
        self.until(pods, |pod| bare::runs(pod, &image) && bare::is_ready(pod))
            .await
    }

    async fn patch(&self, patch: Value) -> Result<()> {
        let patch = &Patch::Merge(patch);
        self.for_all(async |name| {
            self.sets.patch(name, &PatchParams::default(), patch).await?;
            Ok(())
        })
        .await
    }

    async fn for_all(&self, act: impl AsyncFn(&str) -> Result<()>) -> Result<()> {
        let act = &act;
        stream::iter(&self.names)
            .map(|name| async move { act(name).await })
            .buffer_unordered(16)
            .try_collect()
            .await
    }

    /// Waits until the condition holds for so many Pods at the same time, and for no more.
    pub(super) async fn until(&self, count: usize, condition: impl Fn(&Pod) -> bool) -> Result<Instant> {
        until(&self.pods, count, condition).await
    }
}

/// Waits until the condition holds for so many of these Pods at the same time, and for no more.
pub(super) async fn until(pods: &Api<Pod>, count: usize, condition: impl Fn(&Pod) -> bool) -> Result<Instant> {
    let mut events = watch::events(pods.clone()).boxed();
    let mut holding = HashSet::new();
    let mut listed = false;
    let work = async {
        while !listed || holding.len() != count {
            match events.try_next().await?.context("the watch has ended")? {
                Event::Init => holding.clear(),
                Event::InitDone => listed = true,
                Event::InitApply(pod) | Event::Apply(pod) => {
                    let name = pod.metadata.name.clone();
                    if condition(&pod) {
                        holding.insert(name);
                    } else {
                        holding.remove(&name);
                    }
                }
                Event::Delete(pod) => {
                    holding.remove(&pod.metadata.name);
                }
            }
        }
        anyhow::Ok(())
    };
    match timeout(PATIENCE, work).await {
        Ok(result) => result.map(|()| Instant::now()),
        Err(_) => bail!(
            "{} of {count} Pods are where they should be after {PATIENCE:?}",
            holding.len()
        ),
    }
}
