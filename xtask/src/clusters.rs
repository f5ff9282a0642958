//! Looking at local clusters and ending them.

use std::io::{Read, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kruise_testkit::instance::Instance;
use kruise_testkit::process::wait_until;
use kruise_testkit::progress::Progress;

/// Which cluster is meant.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Named {
    /// The cluster's name.
    #[arg(long, default_value = "dev", env = "KRUISE_CLUSTER")]
    pub name: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DownArgs {
    #[command(flatten)]
    named: Named,
    /// Remove the cluster's data too.
    #[arg(long)]
    purge: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    named: Named,
    /// The part, such as apiserver or node1-kubelet.
    part: Option<String>,
}

pub(crate) fn down(args: &DownArgs) -> Result<()> {
    let instance = Instance::open(&args.named.name)?;
    if instance.shape().is_none() {
        // What a broken first start may have left is cleared all the same.
        instance.down(true)?;
        println!("there is no cluster {}", instance.name());
        return Ok(());
    }
    Progress::shown().step(&format!("Ending the cluster {}", instance.name()), |_| {
        instance.down(args.purge)
    })?;
    let kept = if args.purge {
        "its data is gone"
    } else {
        "its data is kept: `cargo xtask up` brings it back"
    };
    println!("the cluster {} is down, {kept}", instance.name());
    Ok(())
}

pub(crate) fn status() -> Result<()> {
    let names = Instance::names()?;
    if names.is_empty() {
        println!("no local clusters; `cargo xtask up` makes one");
    }
    for name in names {
        let Ok(instance) = Instance::open(&name) else {
            println!("{name}: another command is working on it");
            continue;
        };
        let parts = instance.status();
        let running = parts.values().filter(|running| **running).count();
        let version = instance.shape().map(|shape| shape.kubernetes).unwrap_or_default();
        println!("{name}: Kubernetes {version}, {running} of {} parts run", parts.len());
        for (part, runs) in parts {
            println!("  {} {part}", if runs { "running" } else { "stopped" });
        }
    }
    Ok(())
}

pub(crate) fn logs(args: &LogsArgs) -> Result<()> {
    let instance = existing(&args.named)?;
    let Some(part) = &args.part else {
        println!("{}", instance.processes().parts().join("\n"));
        return Ok(());
    };
    let file = instance.processes().log(part);
    let text = std::fs::read(&file).with_context(|| {
        format!(
            "the cluster {} has no part {part}; it has {}",
            instance.name(),
            instance.processes().parts().join(", ")
        )
    })?;
    Ok(std::io::stdout().write_all(&text)?)
}

pub(crate) fn kubeconfig(named: &Named) -> Result<()> {
    println!("{}", existing(named)?.kubeconfig().display());
    Ok(())
}

/// Prints what a shell has to take over to use the cluster.
pub(crate) fn env(named: &Named) -> Result<()> {
    let instance = existing(named)?;
    println!("export KUBECONFIG='{}'", instance.kubeconfig().display());
    println!("export PATH='{}':\"$PATH\"", instance.programs().display());
    Ok(())
}

/// Waits until the pipe that the test run holds closes, then removes the cluster.
pub(crate) fn guard(named: &Named) -> Result<()> {
    std::io::stdin().read_to_end(&mut Vec::new())?;
    // The run that has just ended may not have let go of the cluster yet.
    wait_until(Duration::from_secs(10), || Instance::open(&named.name).is_ok());
    Instance::open(&named.name)?.down(true)
}

fn existing(named: &Named) -> Result<Instance> {
    let instance = Instance::open(&named.name)?;
    if instance.shape().is_none() {
        bail!(
            "there is no cluster {}: `cargo xtask up --name {}` makes it",
            named.name,
            named.name
        );
    }
    Ok(instance)
}
