//! `cargo xtask up`: from a clone to the product on a real cluster.

mod farewell;
mod programs;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kruise_api::names::env;
use kruise_testkit::instance::{Instance, Wanted};
use kruise_testkit::kubernetes::{self, Kubernetes};
use kruise_testkit::packages::Install;
use kruise_testkit::process::wait_until;
use kruise_testkit::progress::Progress;
use kruise_testkit::{node, registry, shell};

use crate::clusters::Named;
use crate::loopback::{free_ports, get};
use crate::{install, product};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub named: Named,
    /// Real nodes, each with its own kubelet and containerd; needs root [default: 3, or 0 without root].
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=9))]
    pub nodes: Option<u8>,
    /// Simulated nodes: they give Pods a life without running anything. Beside real nodes they carry the taint
    /// kruise-rs/simulated=true:NoSchedule.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub sim: u32,
    /// The Kubernetes version, such as 1.34.
    #[arg(long, value_name = "VERSION")]
    pub kubernetes: Option<String>,
    /// Install nothing on this machine; say what is missing instead.
    #[arg(long)]
    pub no_install: bool,
    /// Use the cluster of the current kubeconfig instead of making one; needs --image.
    #[arg(long, requires = "image", conflicts_with_all = ["nodes", "sim", "kubernetes"])]
    pub existing: bool,
    /// Where to push the image for --existing: a repository that the cluster can pull from.
    #[arg(long, value_name = "REPOSITORY")]
    pub image: Option<String>,
    /// Values for the chart beside its own, as with helm; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let started = Instant::now();
    let progress = Progress::shown();
    if args.existing {
        return existing(args, &progress);
    }
    let instance = bring_up(args, &progress)?;
    let kubernetes = instance.kubernetes()?;
    programs::put(&instance, &kubernetes, &progress)?;
    farewell::say(&instance, &kubernetes, started)
}

/// The first run is a long one.
fn say_what_is_coming(args: &Args, instance: &Instance, progress: &Progress) -> Result<()> {
    let there = instance.shape().map(|shape| shape.kubernetes);
    let version = there.as_deref().or(args.kubernetes.as_deref());
    if !Kubernetes::is_built(version.unwrap_or(kubernetes::DEFAULT_VERSION))? {
        progress.say(
            "The first time, Kubernetes, Helm and the product are built: some fifteen minutes on two cores. Later runs take half a minute.",
        );
    }
    Ok(())
}

/// Makes or repairs the cluster and installs the product into it.
pub(crate) fn bring_up(args: &Args, progress: &Progress) -> Result<Instance> {
    let instance = Instance::open(&args.named.name)?;
    say_what_is_coming(args, &instance, progress)?;
    let nodes = real_nodes(args, &instance, progress)?;
    let install = if args.no_install {
        Install::Refused
    } else {
        Install::Allowed
    };
    let wanted = Wanted {
        kubernetes: args.kubernetes.clone(),
        nodes,
        install,
    };
    let kubernetes = instance.up(&wanted, progress)?;
    provision(&instance, progress)?;
    if args.sim > 0 {
        simulate(&instance, args.sim, progress)?;
    }
    if instance.shape().is_some_and(|shape| shape.nodes > 0) {
        let image = product::build(product::LOCAL, progress)?;
        let tag = product::tag(&image);
        instance.registry().put(product::REPOSITORY, &tag, &image)?;
        let mut values = vec![
            format!("manager.image.repository={}", product::REPOSITORY),
            format!("manager.image.tag={tag}"),
        ];
        values.extend(args.set.iter().cloned());
        install::chart(
            Some(&instance.kubeconfig()),
            &kubernetes.part("kubectl"),
            &values,
            progress,
        )?;
    } else {
        beside_the_cluster(&instance, &kubernetes, &args.set, progress)?;
    }
    Ok(instance)
}

/// How many real nodes to ask for; without root there can be none, which is said.
fn real_nodes(args: &Args, instance: &Instance, progress: &Progress) -> Result<Option<u8>> {
    match (node::possible(), args.nodes) {
        (Ok(()), None) => Ok(if instance.shape().is_some() { None } else { Some(3) }),
        (Ok(()), asked) => Ok(asked),
        (Err(why), Some(1..)) => Err(why.context("--nodes asks for real nodes")),
        (Err(why), _) => {
            progress.say(&format!(
                "note: {why}; this cluster gets simulated nodes only: Pods are shown as running, but nothing runs"
            ));
            Ok(Some(0))
        }
    }
}

/// Claims get volumes on the nodes that outlive their Pods and can grow.
fn provision(instance: &Instance, progress: &Progress) -> Result<()> {
    let program = beside_xtask("kruise-local-storage", "kruise-testkit")?;
    progress.step("Starting the local storage", |_| {
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(instance.kubeconfig());
        command.arg("--cluster").arg(instance.folder());
        instance.processes().start("storage", &mut command).map(drop)
    })
}

/// What a Pod has to tolerate to be placed on a simulated node beside real ones.
const SIMULATED_TAINT: &str = "kruise-rs/simulated=true:NoSchedule";

fn simulate(instance: &Instance, count: u32, progress: &Progress) -> Result<()> {
    let program = beside_xtask("kruise-sim-nodes", "kruise-testkit")?;
    progress.step(&format!("Starting {count} simulated nodes"), |_| {
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(instance.kubeconfig());
        command.args(["--nodes", &count.to_string()]);
        if instance.shape().is_some_and(|shape| shape.nodes > 0) {
            // Pods that are to run for real must not end up where nothing runs.
            command.args(["--taint", SIMULATED_TAINT]);
        }
        instance.processes().start("simulated-nodes", &mut command).map(drop)
    })
}

/// Without real nodes nothing can run in the cluster: the chart brings everything but Pods, and one manager runs here.
fn beside_the_cluster(instance: &Instance, kubernetes: &Kubernetes, set: &[String], progress: &Progress) -> Result<()> {
    if instance.status().get("simulated-nodes").is_none_or(|runs| !runs) {
        simulate(instance, 3, progress)?;
    }
    let mut values = [
        "manager.replicas=0",
        // Nothing runs from it.
        "manager.image.tag=none",
        "daemon.nodeSelector.kruise-rs/no-real-nodes=true",
    ]
    .map(str::to_owned)
    .to_vec();
    values.extend(set.iter().cloned());
    install::chart(
        Some(&instance.kubeconfig()),
        &kubernetes.part("kubectl"),
        &values,
        progress,
    )?;
    let program = beside_xtask("kruise-manager", "kruise-manager")?;
    progress.step("Starting a manager beside the cluster", |_| {
        let processes = instance.processes();
        processes.stop("manager", Duration::from_secs(10));
        let [webhooks, health, metrics] = free_ports()?;
        let mut command = Command::new(program);
        command
            .env(env::KUBECONFIG, instance.kubeconfig())
            .env(env::WEBHOOK_HOST, "127.0.0.1")
            .env(env::WEBHOOK_PORT, webhooks.to_string())
            .env(env::WEBHOOK_CERT_DIR, instance.folder().join("webhook-certs"))
            .args([
                format!("--protection-log-path={}", instance.folder().join("logs").display()),
                format!("--health-probe-addr=127.0.0.1:{health}"),
                format!("--metrics-addr=127.0.0.1:{metrics}"),
                "--enable-pprof=false".to_owned(),
            ]);
        let manager = processes.start("manager", &mut command)?;
        // Until it answers, the API server refuses to create Pods.
        let ready = format!("http://127.0.0.1:{health}/readyz");
        let seen = wait_until(Duration::from_mins(2), || !manager.is_alive() || get(&ready).is_some());
        if !seen || !manager.is_alive() {
            bail!(
                "the manager is not ready; its last words:\n{}",
                processes.last_words("manager")
            );
        }
        Ok(())
    })
}

/// A program of the workspace, built with the same profile as xtask.
fn beside_xtask(program: &str, package: &str) -> Result<PathBuf> {
    shell::run(product::cargo().args(["build", "--locked", "-p", package, "--bin", program]))?;
    let own = std::env::current_exe()?;
    Ok(own.parent().context("no folder")?.join(program))
}

fn existing(args: &Args, progress: &Progress) -> Result<()> {
    let Some(repository) = args.image.as_deref() else {
        bail!("--existing needs --image")
    };
    let Some(kubectl) = shell::find("kubectl") else {
        bail!("--existing needs kubectl on the PATH")
    };
    let image = product::build("release", progress)?;
    let tag = product::tag(&image);
    progress.step(&format!("Pushing {repository}:{tag}"), |_| {
        registry::push(&image, &format!("{repository}:{tag}"))
    })?;
    let mut values = vec![
        format!("manager.image.repository={repository}"),
        format!("manager.image.tag={tag}"),
    ];
    values.extend(args.set.iter().cloned());
    install::chart(None, &kubectl, &values, progress)?;
    println!("kruise is installed in the current cluster; `helm uninstall kruise -n default` removes it");
    Ok(())
}
