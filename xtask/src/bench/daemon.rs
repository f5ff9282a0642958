//! The node daemon on three real nodes: how fast it pulls beside direct pulls, how soon it stops a container, what it takes to wait and to probe.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, future, stream};
use k8s_openapi::api::core::v1::Pod;
use kruise_cri::{PullRequest, Runtime};
use kruise_testkit::image::{Image, LayerBuilder};
use kruise_testkit::instance::{Instance, Wanted};
use kruise_testkit::packages::Install;
use kruise_testkit::progress::Progress;
use kruise_testkit::{node, shell};
use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::program::Program;
use super::score::Chapter;
use super::{arena, card, many_nodes, platform, probes};
use crate::loopback::{free_ports, get};
use crate::product;

const NODES: u8 = 3;
const IMAGES: usize = 200;
/// Pulls at the same time on each node.
const WORKERS: usize = 8;
/// Direct pulls and pulls by the daemon take turns, and take turns in being first: a runtime with more images pulls more slowly.
const ROUNDS: usize = 4;
const RESTARTS: usize = 15;
pub(super) const PATIENCE: Duration = Duration::from_mins(5);

pub(super) fn run(report: &mut Chapter, progress: &Progress) -> Result<()> {
    node::possible().context("this scenario runs on real nodes")?;
    let programs = progress.step("Building the release programs", |step| {
        product::compile("release", step)
    })?;
    let [manager, _, daemon] = &programs[..] else {
        bail!("the programs of the image are not the ones that are known here");
    };
    let runtime = card::runtime()?;
    {
        let cluster = Cluster::up(progress)?;
        runtime.block_on(on_real_nodes(&cluster, daemon, report, progress))?;
    }
    many_nodes::run(manager, &runtime, report, progress)?;
    Ok(())
}

/// A cluster of the benchmark's own; it goes with this value.
struct Cluster(Instance);

impl Cluster {
    fn up(progress: &Progress) -> Result<Self> {
        let cluster = Self(Instance::open("bench-daemon")?);
        let wanted = Wanted {
            kubernetes: None,
            nodes: Some(NODES),
            install: Install::Allowed,
        };
        let kubernetes = cluster.0.up(&wanted, progress)?;
        for kind in ["nodeimages", "containerrecreaterequests", "nodepodprobes"] {
            let crd = crate::root().join(format!("config/crds/apps.kruise.io_{kind}.yaml"));
            let mut kubectl = cluster.0.kubectl(&kubernetes);
            shell::run(kubectl.args(["apply", "--server-side", "-f"]).arg(crd))?;
            shell::run(cluster.0.kubectl(&kubernetes).args([
                "wait",
                "--for=condition=Established",
                &format!("crd/{kind}.apps.kruise.io"),
            ]))?;
        }
        progress.step("Making images", |_| cluster.make_images())?;
        Ok(cluster)
    }

    /// Images of one small layer each, in as many sets as there are pulls.
    fn make_images(&self) -> Result<()> {
        let registry = self.0.registry();
        for set in 0..2 * ROUNDS {
            for number in 0..IMAGES {
                let content = format!("{set}/{number}\n").repeat(8192);
                let layer = LayerBuilder::default().file("content", 0o644, content.as_bytes())?;
                let image = Image::new(vec![layer.build()?], &json!({"Cmd": ["/content"]}));
                registry.put(&repository(set, number), "1", &image)?;
            }
        }
        Ok(())
    }

    fn socket(&self, node: u8) -> PathBuf {
        node::containerd_socket(self.0.folder(), node)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.0.down(true) {
            eprintln!("the cluster of the benchmark is still there: {error:#}");
        }
    }
}

fn repository(set: usize, number: usize) -> String {
    format!("bench/set{set}-{number}")
}

async fn on_real_nodes(cluster: &Cluster, program: &Path, report: &mut Chapter, progress: &Progress) -> Result<()> {
    let client = arena::client(&cluster.0.kubeconfig()).await?;
    let runtimes: Vec<Runtime> =
        future::try_join_all((1..=NODES).map(|node| async move { Runtime::connect(&cluster.socket(node)).await }))
            .await?;
    let mut daemons = (1..=NODES)
        .map(|node| Daemon::start(program, cluster, node))
        .collect::<Result<Vec<_>>>()?;
    for daemon in &mut daemons {
        daemon.healthy()?;
    }
    let kind = super::kind("NodeImage", "nodeimages");
    let images: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    for node in 1..=NODES {
        let empty = DynamicObject::new(&node_name(node), &kind).data(json!({"spec": {}}));
        images.create(&PostParams::default(), &empty).await?;
    }

    let (mut direct, mut ours) = (Duration::ZERO, Duration::ZERO);
    for round in 0..ROUNDS {
        for turn in 0..2 {
            let set = 2 * round + turn;
            if (round + turn) % 2 == 0 {
                progress.say("Pulling directly …");
                direct += pull_directly(&runtimes, set).await?;
            } else {
                progress.say("Pulling through the daemons …");
                ours += pull_by_daemon(&client, &runtimes, set).await?;
            }
        }
    }
    let what = format!("{IMAGES} images on {NODES} nodes, {WORKERS} at a time");
    let rounds = u32::try_from(ROUNDS)?;
    report.add(format!("{what}: directly"), (direct / rounds).as_secs_f64(), "s");
    report.add(format!("{what}: by the daemon"), (ours / rounds).as_secs_f64(), "s");
    let share = direct.as_secs_f64() / ours.as_secs_f64();
    report.at_least(format!("{what}: share of the direct rate"), share, "", 0.9);

    progress.say("Restarting containers …");
    let mut times = restarts(&client, &runtimes[0]).await?;
    times.sort_unstable();
    report.at_most(
        "request to recreate, until the container has ended: median",
        platform::milliseconds(times[times.len() / 2]),
        "ms",
        200.0,
    );

    progress.say("Nothing for two minutes …");
    platform::wait(Duration::from_secs(20));
    let daemon = &daemons[0].program;
    let (cpu, writes, begin) = (daemon.cpu()?, daemon.writes()?, Instant::now());
    platform::wait(Duration::from_mins(2));
    let hours = begin.elapsed().as_secs_f64() / 3600.0;
    let used = daemon.cpu()?.saturating_sub(cpu).as_secs_f64() / (hours * 3600.0);
    report.at_most(
        "idle daemon: resident",
        daemon.memory()? / platform::MEGABYTE,
        "MB",
        20.0,
    );
    report.at_most("idle daemon: CPU", used * 100.0, "% of a core", 0.1);
    report.at_most(
        "idle daemon: requests besides watches",
        (daemon.writes()? - writes) / hours,
        "per hour",
        6.0,
    );
    progress.say("Probing for a minute …");
    let pods: Vec<String> = (0..RESTARTS).map(restarted).collect();
    probes::run(&client, &runtimes[0], daemon, &pods, report).await
}

/// A daemon beside its node: the same runtime, watched from here.
struct Daemon {
    program: Program,
    port: u16,
}

impl Daemon {
    fn start(program: &Path, cluster: &Cluster, node: u8) -> Result<Self> {
        let [port] = free_ports()?;
        let mut command = Command::new(program);
        command
            .args([
                format!("--addr=127.0.0.1:{port}"),
                "--enable-pprof=false".to_owned(),
                format!("--kubeconfig={}", cluster.0.kubeconfig().display()),
                format!("--socket-file={}", cluster.socket(node).display()),
                format!("--max-workers-for-pull-image={WORKERS}"),
            ])
            .env("NODE_NAME", node_name(node));
        Ok(Self {
            program: Program::start(&mut command, tempfile::tempdir()?, port)?,
            port,
        })
    }

    fn healthy(&mut self) -> Result<()> {
        let health = format!("http://127.0.0.1:{}/healthz", self.port);
        self.program.until("healthy", || get(&health).is_some())
    }
}

pub(super) fn node_name(node: u8) -> String {
    format!("node{node}")
}

async fn pull_directly(runtimes: &[Runtime], set: usize) -> Result<Duration> {
    let begin = Instant::now();
    let pulls = runtimes.iter().map(|runtime| {
        stream::iter(0..IMAGES)
            .map(move |number| async move {
                let request = PullRequest {
                    image: format!("{}:1", repository(set, number)),
                    ..PullRequest::default()
                };
                runtime.pull_image(&request, PATIENCE).await
            })
            .buffer_unordered(WORKERS)
            .try_collect::<Vec<String>>()
    });
    future::try_join_all(pulls).await?;
    Ok(begin.elapsed())
}

/// Until the runtimes themselves have every image: what daemons say about it comes later.
async fn pull_by_daemon(client: &Client, runtimes: &[Runtime], set: usize) -> Result<Duration> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &super::kind("NodeImage", "nodeimages"));
    let images: Map<String, Value> = (0..IMAGES)
        .map(|number| {
            let tag = json!({"tag": "1", "version": 0, "pullPolicy": {"ttlSecondsAfterFinished": 3600}});
            (repository(set, number), json!({ "tags": [tag] }))
        })
        .collect();
    let begin = Instant::now();
    for node in 1..=NODES {
        ask(&api, &node_name(node), &json!({ "images": images })).await?;
    }
    // Images are pulled in the order of their names. Only the last ones are looked for, because looking costs the runtime time.
    let mut names: Vec<String> = (0..IMAGES).map(|number| repository(set, number)).collect();
    names.sort_unstable();
    let last = &names[IMAGES - WORKERS..];
    let all = runtimes.iter().map(|runtime| async move {
        for name in last {
            while runtime.image(&format!("{name}:1")).await?.is_none() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        anyhow::Ok(())
    });
    timeout(PATIENCE, future::try_join_all(all))
        .await
        .context("the daemons have not pulled everything")??;
    let time = begin.elapsed();
    let prefix = format!("docker.io/bench/set{set}-");
    for runtime in runtimes {
        let images = runtime.list_images().await?;
        let tags = images.iter().flat_map(|image| &image.repo_tags);
        let pulled = tags.filter(|tag| tag.starts_with(&prefix)).count();
        if pulled != IMAGES {
            bail!("{pulled} of {IMAGES} images are there when the last ones are");
        }
    }
    Ok(time)
}

/// Asks a node for images and no others. Its daemon may write at the same time.
async fn ask(api: &Api<DynamicObject>, node: &str, spec: &Value) -> Result<()> {
    loop {
        let mut object = api.get(node).await?;
        object.data["spec"] = spec.clone();
        match api.replace(node, &PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            answer => return Ok(answer.map(drop)?),
        }
    }
}

/// How long after its request each of several containers had ended. Requests are as the manager's webhook completes them.
async fn restarts(client: &Client, runtime: &Runtime) -> Result<Vec<Duration>> {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let requests: Api<DynamicObject> = Api::default_namespaced_with(
        client.clone(),
        &super::kind("ContainerRecreateRequest", "containerrecreaterequests"),
    );
    for number in 0..RESTARTS {
        let pod = json!({
            "metadata": {"name": restarted(number)},
            "spec": {"nodeName": node_name(1), "containers": [{"name": "main", "image": "nginx:1.25"}]},
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?)
            .await?;
    }
    let mut times = Vec::new();
    for number in 0..RESTARTS {
        let name = restarted(number);
        let (uid, id) = running(&pods, &name).await?;
        let request = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest",
            "metadata": {
                "name": name,
                "labels": {
                    "crr.apps.kruise.io/node-name": node_name(1), "crr.apps.kruise.io/pod-uid": uid,
                    "crr.apps.kruise.io/active": "true",
                },
            },
            "spec": {
                "podName": name, "strategy": {"failurePolicy": "Fail", "terminationGracePeriodSeconds": 30},
                "containers": [{"name": "main", "statusContext": {"containerID": id, "restartCount": 0}}],
            },
        });
        requests
            .create(&PostParams::default(), &serde_json::from_value(request)?)
            .await?;
        let visible = SystemTime::now();
        let id = id.rsplit('/').next().unwrap_or_default();
        times.push(ended(runtime, id).await?.duration_since(visible).unwrap_or_default());
    }
    Ok(times)
}

/// Name of a Pod whose container is restarted once.
fn restarted(number: usize) -> String {
    format!("restart-{number}")
}

/// UID and container of a Pod, once it runs.
pub(super) async fn running(pods: &Api<Pod>, name: &str) -> Result<(String, String)> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let pod = pods.get(name).await?;
        let statuses = pod
            .status
            .as_ref()
            .and_then(|status| status.container_statuses.as_ref());
        let running = statuses
            .and_then(|statuses| statuses.first())
            .filter(|status| status.ready);
        if let (Some(uid), Some(id)) = (
            &pod.metadata.uid,
            running.and_then(|status| status.container_id.clone()),
        ) {
            return Ok((uid.clone(), id));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("{name} does not run")
}

/// When a container ended, in the runtime's own words.
async fn ended(runtime: &Runtime, id: &str) -> Result<SystemTime> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let status = runtime.container(id).await?;
        if let Ok(nanoseconds @ 1..) = u64::try_from(status.finished_at) {
            return Ok(SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("the container was not stopped")
}
