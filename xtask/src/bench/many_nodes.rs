//! A pull job over a thousand simulated nodes, whose daemons say at once that they have the image.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::TryStreamExt as _;
use kruise_testkit::cluster::TestControlPlane;
use kruise_testkit::progress::Progress;
use kruise_testkit::sim::{SimOptions, SimulatedNodes};
use kruise_testkit::watch;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::manager::{Manager, Webhooks};
use super::score::Chapter;
use super::{arena, platform};

const NODES: usize = 1000;
const PATIENCE: Duration = Duration::from_mins(5);
const IMAGE: &str = "registry.example/app";

pub(super) fn run(program: &Path, runtime: &Runtime, report: &mut Chapter, progress: &Progress) -> Result<()> {
    let control_plane = TestControlPlane::start(progress)?;
    let kubeconfig = control_plane.kubeconfig();
    progress.step("Installing CRDs and webhook configurations", |_| {
        platform::install(&kubeconfig)
    })?;
    let flags = ["--feature-gates=ImagePullJobGate=true", "--nodeimage-creation-delay=1s"];
    let mut manager = Manager::start(program, &kubeconfig, Webhooks::Address, &flags)?;
    manager.ready()?;
    runtime.block_on(measure(&kubeconfig, &manager, report, progress))
}

async fn measure(kubeconfig: &Path, manager: &Manager, report: &mut Chapter, progress: &Progress) -> Result<()> {
    let client = arena::client(kubeconfig).await?;
    let images: Api<DynamicObject> = Api::all_with(client.clone(), &super::kind("NodeImage", "nodeimages"));
    let options = SimOptions {
        count: NODES,
        ..SimOptions::default()
    };
    let nodes = SimulatedNodes::start(client.clone(), options).await?;
    progress.say("A NodeImage for each of 1,000 nodes …");
    let begin = Instant::now();
    while images.list_metadata(&ListParams::default()).await?.items.len() < NODES {
        if begin.elapsed() > PATIENCE {
            bail!("not every node has its NodeImage");
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let writes = || {
        manager
            .metrics()
            .sum("kruise_writes_total", |labels| labels.contains("resource=\"nodeimages"))
    };
    let (before, cpu, begin) = (writes()?, manager.cpu()?, Instant::now());
    progress.say("A pull job over all of them …");
    tokio::select! {
        done = job(&client) => done?,
        ended = daemons(&images) => ended.context("the simulated daemons ended")?,
    }
    let count = super::as_number(NODES);
    report.at_most(
        "pull job over 1,000 nodes: writes of the manager per node",
        (writes()? - before) / count,
        "",
        2.0,
    );
    report.add("pull job over 1,000 nodes: time", begin.elapsed().as_secs_f64(), "s");
    let cpu = manager.cpu()?.saturating_sub(cpu).as_secs_f64();
    report.add("pull job over 1,000 nodes: CPU of the manager", cpu, "s");
    nodes.stop().await
}

/// Makes a job for all nodes and waits for its end, well or not.
async fn job(client: &Client) -> Result<()> {
    let jobs: Api<DynamicObject> =
        Api::default_namespaced_with(client.clone(), &super::kind("ImagePullJob", "imagepulljobs"));
    let job = DynamicObject::new("all", &super::kind("ImagePullJob", "imagepulljobs"))
        .data(json!({"spec": {"image": format!("{IMAGE}:1"), "parallelism": 200}}));
    jobs.create(&PostParams::default(), &job).await?;
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let status = jobs.get("all").await?.data["status"].take();
        if !status["completionTime"].is_null() {
            if status["succeeded"] != NODES {
                bail!("the job has ended with {status}");
            }
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    bail!("the job does not end")
}

/// Answers every NodeImage as a daemon does that has the image already.
async fn daemons(images: &Api<DynamicObject>) -> Result<()> {
    watch::applied(images.clone())
        .map_err(anyhow::Error::from)
        .try_for_each_concurrent(64, |object| async move {
            let Some(status) = answer(&object.data) else {
                return Ok(());
            };
            let patch = Patch::Merge(json!({ "status": status }));
            images
                .patch_status(&object.name_any(), &PatchParams::default(), &patch)
                .await?;
            Ok(())
        })
        .await
}

/// What is still to be said of the image.
fn answer(object: &Value) -> Option<Value> {
    let asked = object["spec"]["images"][IMAGE]["tags"].get(0)?;
    // The first version is 0, and left out.
    let version = &asked["version"];
    let tag = object["status"]["imageStatuses"][IMAGE]["tags"].get(0);
    if tag.is_some_and(|tag| tag["version"] == *version) {
        return None;
    }
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    let tag = json!({
        "tag": "1", "phase": "Succeeded", "progress": 100, "version": version, "startTime": now, "completionTime": now,
    });
    Some(json!({"desired": 1, "succeeded": 1, "failed": 0, "pulling": 0, "imageStatuses": {(IMAGE): {"tags": [tag]}}}))
}
