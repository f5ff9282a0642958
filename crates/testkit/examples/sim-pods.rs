//! How fast do simulated nodes make Pods ready, and what does it cost? Run by hand against any cluster:
//!
//! ```text
//! KUBECONFIG=… cargo run --release -p kruise-testkit --example sim-pods -- --pods 2000 --nodes 20
//! ```
//!
//! One Deployment makes the Pods, so that this process does nothing but simulate and ask for the Deployment's status.

use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::builders::deployment;
use kruise_testkit::namespace;
use kruise_testkit::sim::{SimOptions, SimulatedNodes};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long, default_value_t = 2000)]
    pods: i32,
    #[arg(long, default_value_t = 20)]
    nodes: usize,
    /// Calls in flight
    #[arg(long, default_value_t = SimOptions::default().writers)]
    writers: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let client = Client::try_default().await?;
    let namespace = namespace::fresh(&client, "sim-pods").await?;
    let options = SimOptions {
        count: arguments.nodes,
        name_prefix: namespace.name().to_owned(),
        cpu: "1000".to_owned(),
        pods_per_node: 10_000,
        writers: arguments.writers,
        ..SimOptions::default()
    };
    let begin = Instant::now();
    let nodes = SimulatedNodes::start(client, options).await?;
    println!("{} nodes joined in {:.1?}", arguments.nodes, begin.elapsed());

    let deployments: Api<Deployment> = namespace.api();
    let (cpu_before, begin) = (cpu_seconds()?, Instant::now());
    let web = deployment("web")
        .replicas(arguments.pods)
        .pod(|pod| pod.node_selector(nodes.selector()));
    deployments.create(&PostParams::default(), &web.build()).await?;
    let mut first = None;
    let mut ready = 0;
    while ready < arguments.pods {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let status = deployments.get("web").await?.status.unwrap_or_default();
        ready = status.ready_replicas.unwrap_or(0);
        if ready > 0 {
            first.get_or_insert_with(|| begin.elapsed());
        }
    }
    let (took, cpu) = (begin.elapsed(), cpu_seconds()? - cpu_before);
    println!(
        "{ready} Pods ready in {took:.1?} ({:.0}/s; first seen after {:.1?}): {cpu:.2} s of CPU, {} kB resident, {:?}",
        f64::from(ready) / took.as_secs_f64(),
        first.unwrap_or_default(),
        resident_kilobytes()?,
        nodes.stats(),
    );

    let mut waits = seconds_from_bound_to_ready(&namespace.api()).await?;
    waits.sort_unstable();
    if let (Some(median), Some(longest)) = (waits.get(waits.len() / 2), waits.last()) {
        println!("from bound to ready: {median} s in the middle, {longest} s at most");
    }

    let (cpu_before, begin) = (cpu_seconds()?, Instant::now());
    let none = Patch::Merge(json!({ "spec": { "replicas": 0 } }));
    deployments.patch("web", &PatchParams::default(), &none).await?;
    while nodes.stats().pods > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!(
        "all gone in {:.1?}: {:.2} s of CPU, {:?}",
        begin.elapsed(),
        cpu_seconds()? - cpu_before,
        nodes.stats()
    );
    nodes.stop().await
}

/// How far the simulation was behind the scheduler.
async fn seconds_from_bound_to_ready(pods: &Api<Pod>) -> anyhow::Result<Vec<i64>> {
    let turned = |pod: &Pod, kind: &str| {
        let conditions = pod.status.as_ref()?.conditions.as_ref()?;
        let condition = conditions.iter().find(|condition| condition.type_ == kind)?;
        Some(condition.last_transition_time.as_ref()?.0.as_second())
    };
    let pods = pods.list(&ListParams::default()).await?;
    Ok(pods
        .iter()
        .filter_map(|pod| Some(turned(pod, "Ready")? - turned(pod, "PodScheduled")?))
        .collect())
}

/// User and system time of this process; Linux counts in hundredths of a second.
fn cpu_seconds() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("no command in /proc/self/stat")?;
    let ticks = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<u32>)
        .sum::<Result<u32, _>>()?;
    Ok(f64::from(ticks) / 100.0)
}

fn resident_kilobytes() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
