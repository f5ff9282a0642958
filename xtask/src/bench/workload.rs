//! CloneSets of a namespace, driven as their users do: by changing the spec and watching the Pods.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
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

impl Rollout {
    fn strategy(self) -> Value {
        json!({
            "type": "RollingUpdate",
            "rollingUpdate": {"podUpdatePolicy": self.policy, "maxUnavailable": self.max_unavailable, "partition": 0},
        })
    }
}

/// A number of equal CloneSets, which have a namespace for themselves.
pub(super) struct Workload {
    sets: Api<DynamicObject>,
    pub(super) pods: Api<Pod>,
    names: Vec<String>,
}

impl Workload {
    /// Creates them without any Pod.
    pub(super) async fn new(client: &Client, namespace: &str, sets: usize) -> Result<Self> {
        let kind = kind("CloneSet", "clonesets");
        let this = Self {
            sets: Api::namespaced_with(client.clone(), namespace, &kind),
            pods: Api::namespaced(client.clone(), namespace),
            names: (0..sets).map(|number| format!("set-{number}")).collect(),
        };
        this.for_all(async |name| {
            let set = DynamicObject::new(name, &kind).data(json!({"spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": name}},
                "updateStrategy": ALL_IN_PLACE.strategy(),
                "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec(&image(1), false)},
            }}));
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
        let write = self.patch(json!({"spec": {"replicas": replicas}}));
        let (all, ready, ()) = tokio::try_join!(self.until(all, |_| true), self.until(all, bare::is_ready), write)?;
        Ok((all - begin, ready - begin))
    }

    /// Takes all replicas away; returns how long it took until all Pods were asked to go. They are gone then, too.
    pub(super) async fn scale_in(&self) -> Result<Duration> {
        let begin = Instant::now();
        let write = self.patch(json!({"spec": {"replicas": 0}}));
        let asked = self.until(0, |pod| pod.metadata.deletion_timestamp.is_none());
        let (asked, ()) = tokio::try_join!(asked, write)?;
        bare::gone(&self.pods).await?;
        Ok(asked - begin)
    }

    /// Begins a rollout of a version of the application.
    pub(super) async fn roll(&self, rollout: Rollout, version: u32) -> Result<()> {
        let mut spec = pod_spec(&image(version), false);
        let containers = spec["containers"].take();
        self.patch(json!({"spec": {
            "updateStrategy": rollout.strategy(),
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
    let mut events = watcher(pods.clone(), watcher::Config::default()).boxed();
    let mut holding = HashSet::new();
    let mut listed = false;
    let work = async {
        while !listed || holding.len() != count {
            match events.try_next().await?.context("the watch has ended")? {
                watcher::Event::Init => holding.clear(),
                watcher::Event::InitDone => listed = true,
                watcher::Event::InitApply(pod) | watcher::Event::Apply(pod) => {
                    let name = pod.metadata.name.clone();
                    if condition(&pod) {
                        holding.insert(name);
                    } else {
                        holding.remove(&name);
                    }
                }
                watcher::Event::Delete(pod) => {
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
