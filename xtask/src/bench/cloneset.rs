//! One large CloneSet, beside a client that makes the same writes and decides nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::cluster::TestControlPlane;
use kruise_testkit::process::wait_until;
use kruise_testkit::progress::Progress;
use kruise_testkit::shell;
use kruise_testkit::sim::{SimOptions, SimulatedNodes};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::bare::{self, Bare};
use super::manager::{Manager, Webhooks};
use super::platform::{self, MEGABYTE};
use super::score::Chapter;
use crate::product;

pub(super) const FIRST_IMAGE: &str = "registry.example/app:1";
const SECOND_IMAGE: &str = "registry.example/app:2";
const PATIENCE: Duration = Duration::from_mins(10);

pub(super) fn run(pods: usize, progress: &Progress) -> Result<Chapter> {
    let programs = progress.step("Building the release programs", |step| {
        product::compile("release", step)
    })?;
    let manager = programs.first().context("no manager was built")?;
    let control_plane = TestControlPlane::start(progress)?;
    let kubeconfig = control_plane.kubeconfig();
    progress.step("Installing CRDs and webhook configurations", |_| {
        platform::install(&kubeconfig)
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut running = Manager::start(manager, &kubeconfig, Webhooks::Address, &[])?;
    progress.step("Starting the manager", |_| running.ready())?;
    let mut report = runtime.block_on(measure(pods, &kubeconfig, &running, progress))?;
    progress.step("Creating 10,000 Pods", |_| runtime.block_on(crowd(&kubeconfig)))?;
    drop(running);
    progress.step("Starting the manager among 10,000 Pods", |_| {
        settled(manager, &kubeconfig, &mut report)
    })?;
    progress.step("Planning for 5,000 Pods", |_| planning(&mut report))?;
    Ok(report)
}

/// As many Pods as a cluster of some hundred nodes has.
async fn crowd(kubeconfig: &Path) -> Result<()> {
    let client = client(kubeconfig).await?;
    namespace(&client, "crowd").await?;
    let crowd = Bare::new(&client, "crowd", 10_000).await?;
    crowd.create_all().await?;
    crowd.run_all().await
}

/// What a manager takes that starts in a cluster with many Pods.
fn settled(program: &Path, kubeconfig: &Path, report: &mut Chapter) -> Result<()> {
    let mut manager = Manager::start(program, kubeconfig, Webhooks::Address, &[])?;
    manager.ready()?;
    let cached = || manager.metric("kruise_cache_objects", |labels| labels.contains("\"pods\""));
    if !wait_until(Duration::from_mins(1), || cached() >= 10_000.0) {
        bail!("only {} of 10,000 Pods are in the cache", cached());
    }
    platform::wait(Duration::from_secs(10));
    report.at_most("memory with 10,000 Pods", manager.memory()? / MEGABYTE, "MB", 40.0);
    report.at_most(
        "memory with 10,000 Pods, at its peak",
        manager.peak_memory()? / MEGABYTE,
        "MB",
        60.0,
    );
    Ok(())
}

/// How long the planner thinks, as its own example tells.
fn planning(report: &mut Chapter) -> Result<()> {
    let said = shell::run(product::static_cargo("run", "release")?.args([
        "--quiet",
        "-p",
        "kruise-core",
        "--example",
        "plan_time",
        "--",
        "5000",
    ]))?;
    for line in said.lines() {
        let (situation, time) = line.split_once(": ").with_context(|| format!("no figure in: {line}"))?;
        let time: f64 = time.trim_end_matches(" ms").parse()?;
        report.at_most(format!("planning for 5,000 Pods, {situation}"), time, "ms", 10.0);
    }
    Ok(())
}

pub(super) async fn client(kubeconfig: &Path) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn measure(pods: usize, kubeconfig: &Path, manager: &Manager, progress: &Progress) -> Result<Chapter> {
    let client = client(kubeconfig).await?;
    let nodes = SimulatedNodes::start(
        client.clone(),
        SimOptions {
            count: pods.div_ceil(200),
            ..SimOptions::default()
        },
    )
    .await?;
    let mut report = Chapter::new("cloneset");

    for name in ["bare", "ours"] {
        namespace(&client, name).await?;
    }
    progress.say("Bare client …");
    let bare = Bare::new(&client, "bare", pods).await?;
    let (bare_created, bare_ready) = bare.create().await?;
    let bare_updated = bare.update(SECOND_IMAGE).await?;
    let bare_deleted = bare.delete().await?;

    progress.say("CloneSet …");
    let set = CloneSet::new(&client, "ours").await?;
    let before = Spent::of(manager)?;
    let (created, ready) = set.scale(pods, true).await?;
    let scaled = Spent::of(manager)?;
    let updated = set.update(SECOND_IMAGE, pods).await?;
    let rolled = Spent::of(manager)?;
    let memory = manager.memory()?;
    progress.say("Nothing for a minute …");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let quiet = Spent::of(manager)?;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let after = Spent::of(manager)?;
    let (deleted, _) = set.scale(0, false).await?;
    nodes.stop().await?;

    let count = as_number(pods);
    let mut compare = |what: &str, ours: Duration, bare: Duration, goal: f64| {
        report.add(format!("{what}: bare client"), bare.as_secs_f64(), "s");
        report.add(format!("{what}: ours"), ours.as_secs_f64(), "s");
        report.at_least(
            format!("{what}: share of the bare rate"),
            bare.as_secs_f64() / ours.as_secs_f64(),
            "",
            goal,
        );
    };
    compare(&format!("0 to {pods} created"), created, bare_created, 0.8);
    compare(&format!("0 to {pods} ready"), ready, bare_ready, 0.7);
    compare(&format!("{pods} updated in place"), updated, bare_updated, 0.7);
    compare(&format!("{pods} to 0"), deleted, bare_deleted, 0.8);
    report.at_most(
        "requests per Pod, created and ready",
        (scaled.writes - before.writes) / count,
        "",
        2.1,
    );
    report.at_most(
        "requests per Pod, updated in place",
        (rolled.writes - scaled.writes) / count,
        "",
        3.1,
    );
    let per_thousand = 1000.0 / count;
    report.add(
        "CPU per 1,000 Pods created",
        scaled.cpu.saturating_sub(before.cpu).as_secs_f64() * per_thousand,
        "s",
    );
    report.add(
        "CPU per 1,000 Pods updated",
        rolled.cpu.saturating_sub(scaled.cpu).as_secs_f64() * per_thousand,
        "s",
    );
    report.at_most(
        "steady: writes of Pods and sets",
        after.writes - quiet.writes,
        "per minute",
        0.0,
    );
    report.at_most(
        "steady: CPU",
        after.cpu.saturating_sub(quiet.cpu).as_secs_f64() / 60.0 * 100.0,
        "% of a core",
        0.2,
    );
    report.at_most("memory after the rollout", memory / MEGABYTE, "MB", 30.0);
    report.add("memory at its peak", manager.peak_memory()? / MEGABYTE, "MB");
    Ok(report)
}

/// What the manager has spent so far.
struct Spent {
    writes: f64,
    cpu: Duration,
}

impl Spent {
    fn of(manager: &Manager) -> Result<Self> {
        Ok(Self {
            writes: manager.metric("kruise_writes_total", |labels| labels.contains("resource=\"pods")),
            cpu: manager.cpu()?,
        })
    }
}

/// A kind of ours.
pub(super) fn kind(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", kind), plural)
}

#[expect(clippy::cast_precision_loss, reason = "nobody measures 2^52 Pods")]
pub(super) fn as_number(count: usize) -> f64 {
    count as f64
}

async fn namespace(client: &Client, name: &str) -> Result<()> {
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    // The service account without which the API server refuses Pods.
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::namespaced(client.clone(), name);
    let begin = Instant::now();
    while accounts.get_opt("default").await?.is_none() {
        if begin.elapsed() > PATIENCE {
            bail!("no service account in {name}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

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

struct CloneSet {
    sets: Api<DynamicObject>,
    pods: Api<Pod>,
}

impl CloneSet {
    async fn new(client: &Client, namespace: &str) -> Result<Self> {
        let kind = kind("CloneSet", "clonesets");
        let sets: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
        let set = DynamicObject::new("large", &kind).data(json!({"spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "large"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"}},
            "template": {"metadata": {"labels": {"app": "large"}}, "spec": pod_spec(FIRST_IMAGE, false)},
        }}));
        sets.create(&PostParams::default(), &set).await?;
        Ok(Self {
            sets,
            pods: Api::namespaced(client.clone(), namespace),
        })
    }

    /// Returns when all Pods are there (or asked to go), and when all are ready.
    async fn scale(&self, replicas: usize, ready: bool) -> Result<(Duration, Duration)> {
        let begin = Instant::now();
        self.patch(&json!({"spec": {"replicas": replicas}})).await?;
        if !ready {
            let asked = self.until(0, |pod| pod.metadata.deletion_timestamp.is_none()).await?;
            bare::gone(&self.pods).await?;
            return Ok((asked - begin, begin.elapsed()));
        }
        let (all, ready) = tokio::try_join!(self.until(replicas, |_| true), self.until(replicas, bare::is_ready))?;
        Ok((all - begin, ready - begin))
    }

    async fn update(&self, image: &str, replicas: usize) -> Result<Duration> {
        let begin = Instant::now();
        let mut spec = pod_spec(image, false);
        let containers = spec["containers"].take();
        self.patch(&json!({"spec": {"template": {"spec": {"containers": containers}}}}))
            .await?;
        let done = self
            .until(replicas, |pod| bare::runs(pod, image) && bare::is_ready(pod))
            .await?;
        Ok(done - begin)
    }

    async fn patch(&self, patch: &Value) -> Result<()> {
        self.sets
            .patch("large", &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Waits until the condition holds for so many Pods at the same time.
    async fn until(&self, count: usize, condition: impl Fn(&Pod) -> bool) -> Result<Instant> {
        let mut events = watcher(self.pods.clone(), watcher::Config::default()).boxed();
        let mut holding = std::collections::HashSet::new();
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
            Ok(Instant::now())
        };
        match timeout(PATIENCE, work).await {
            Ok(result) => result,
            Err(_) => bail!("not reached within {PATIENCE:?}"),
        }
    }
}
