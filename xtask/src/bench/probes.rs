//! What probes cost the daemon of a real node. So many commands as the goal speaks of would keep a small machine busy with starting them alone, which is the runtime's
//! work and not the daemon's; so there are fewer, and what each of them takes is told.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kruise_cri::Runtime;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::as_number;
use super::daemon::{PATIENCE, node_name, running};
use super::program::Program;
use super::score::Chapter;

const PROBES: usize = 200;
const PERIOD: Duration = Duration::from_secs(10);
const TIME: Duration = Duration::from_mins(1);
/// Two hundred checks a second in five hundredths of a core.
const PER_CHECK: f64 = 0.25;
/// Each check leaves a line behind, which is how they are counted.
const COMMAND: [&str; 3] = ["sh", "-c", "echo >> /tmp/checks"];

/// Has containers of these Pods probed on the first node, whose daemon this is.
pub(super) async fn run(
    client: &Client,
    runtime: &Runtime,
    daemon: &Program,
    pods: &[String],
    report: &mut Chapter,
) -> Result<()> {
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let mut containers = Vec::new();
    for name in pods {
        let (uid, id) = running(&api, name).await?;
        containers.push((name, uid, id.rsplit('/').next().unwrap_or_default().to_owned()));
    }
    let probe = |number: usize| {
        let probe = json!({"exec": {"command": COMMAND}, "periodSeconds": PERIOD.as_secs(), "timeoutSeconds": 5});
        json!({"name": format!("bench#p{number}"), "containerName": "main", "probe": probe})
    };
    let entry = |(place, (name, uid, _)): (usize, &(&String, String, String))| {
        let probes: Vec<Value> = (place..PROBES).step_by(pods.len()).map(probe).collect();
        json!({"name": name, "namespace": "default", "uid": uid, "IP": "", "probes": probes})
    };
    let entries: Vec<Value> = containers.iter().enumerate().map(entry).collect();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", "NodePodProbe"));
    let lists: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let list = DynamicObject::new(&node_name(1), &resource).data(json!({"spec": {"podProbes": entries}}));
    lists.create(&PostParams::default(), &list).await?;
    reported(&lists).await?;

    let checks = async || {
        let mut sum = 0;
        for (_, _, id) in &containers {
            sum += lines(runtime, id).await?;
        }
        anyhow::Ok(sum)
    };
    let (cpu, before, begin) = (daemon.cpu()?, checks().await?, Instant::now());
    sleep(TIME).await;
    let (cpu, time) = (daemon.cpu()?.saturating_sub(cpu), begin.elapsed());
    let made = as_number(checks().await?.saturating_sub(before));
    let rate = made / time.as_secs_f64();
    let wanted = as_number(PROBES) / PERIOD.as_secs_f64();
    report.at_least("probes: checks per second, of those asked for", rate / wanted, "", 0.9);
    report.at_most(
        "probes: CPU of the daemon per check",
        cpu.as_secs_f64() * 1000.0 / made.max(1.0),
        "ms",
        PER_CHECK,
    );
    Ok(())
}

/// Waits until every probe has succeeded.
async fn reported(lists: &Api<DynamicObject>) -> Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let list = lists.get(&node_name(1)).await?;
        let pods = list.data["status"]["podProbeStatuses"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let states = pods.iter().filter_map(|pod| pod["probeStates"].as_array());
        if states.flatten().filter(|state| state["state"] == "Succeeded").count() == PROBES {
            return Ok(());
        }
        sleep(Duration::from_secs(1)).await;
    }
    bail!("not every probe has succeeded")
}

/// How many checks were made in a container.
async fn lines(runtime: &Runtime, container: &str) -> Result<usize> {
    let words = ["wc", "-l", "/tmp/checks"].map(str::to_owned);
    let ended = runtime
        .exec(container, &words, Some(Duration::from_secs(10)), 4096)
        .await?;
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let count = text.split_whitespace().next().context("nothing was counted")?;
    Ok(count.parse()?)
}
