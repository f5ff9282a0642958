//! Simulated nodes in the foreground, for `cargo xtask up --sim N`. Ends on SIGTERM or Ctrl-C and takes its nodes along.

use std::path::PathBuf;
use std::pin::pin;

use anyhow::bail;
use clap::Parser;
use k8s_openapi::api::core::v1::Taint;
use kruise_testkit::program;
use kruise_testkit::sim::{SimOptions, SimulatedNodes};

/// Registers simulated nodes with a cluster and gives their Pods a life, until it is told to end.
#[derive(Debug, Parser)]
struct Arguments {
    /// Cluster to join; KUBECONFIG or the usual places when not given
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// How many nodes
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Nodes are called <prefix>-0, <prefix>-1, …
    #[arg(long, default_value = "sim")]
    prefix: String,
    /// Most Pods on one node
    #[arg(long, default_value_t = 250)]
    pods_per_node: u32,
    /// Taint of every node (key[=value]:Effect), to keep real work away where real nodes exist
    #[arg(long = "taint", value_parser = taint)]
    taints: Vec<Taint>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    program::log();
    let arguments = Arguments::parse();
    // Before the first node exists, so that none is left behind however early the end comes.
    let mut stop = pin!(program::stop_signal()?);
    let client = program::client(arguments.kubeconfig.as_deref()).await?;

    let options = SimOptions {
        count: arguments.nodes,
        name_prefix: arguments.prefix,
        pods_per_node: arguments.pods_per_node,
        taints: arguments.taints,
        ..SimOptions::default()
    };
    let nodes = tokio::select! {
        nodes = SimulatedNodes::start(client, options) => nodes?,
        // What has joined already goes when the rest of the start is dropped.
        () = &mut stop => return Ok(()),
    };
    tracing::info!(nodes = nodes.names().len(), "simulated nodes have joined");
    tokio::select! {
        () = nodes.ended() => bail!("the simulation has ended by itself; its log says why"),
        () = stop => tracing::info!("told to end"),
    }
    nodes.stop().await
}

fn taint(text: &str) -> Result<Taint, String> {
    let (key, effect) = text.rsplit_once(':').ok_or("expected key[=value]:Effect")?;
    let (key, value) = key
        .split_once('=')
        .map_or((key, None), |(key, value)| (key, Some(value.to_owned())));
    Ok(Taint {
        key: key.to_owned(),
        value,
        effect: effect.to_owned(),
        time_added: None,
    })
}
