//! Installing the product with its own Helm chart.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use kruise_api::names;
use kruise_testkit::{kubernetes, progress::Progress, shell};

/// The namespace of the release record; the objects go where the chart's values say.
const RELEASE_NAMESPACE: &str = "default";
pub(crate) const NAMESPACE: &str = names::object::SYSTEM_NAMESPACE;
/// What the chart makes.
const OURS: [&str; 2] = [NAMESPACE, names::object::DAEMON_CONFIG_NAMESPACE];

/// Installs or upgrades the chart and waits until every replica of it is ready.
pub(crate) fn chart(kubeconfig: Option<&Path>, kubectl: &Path, values: &[String], progress: &Progress) -> Result<()> {
    let helm = kubernetes::helm(progress)?;
    progress.step("Installing the chart", |_| {
        until_what_was_removed_is_gone(kubeconfig, kubectl)?;
        let mut command = Command::new(&helm);
        command
            .args(["upgrade", "--install", "kruise"])
            .arg(crate::root().join("charts/kruise"));
        command.args(["--namespace", RELEASE_NAMESPACE, "--timeout", "3m"]);
        for value in values {
            command.args(["--set", value]);
        }
        shell::run(with(&mut command, kubeconfig)).context("helm could not install the chart")
    })?;
    progress.step("Waiting until manager and daemons are ready", |_| {
        for workload in ["deployment/kruise-controller-manager", "daemonset/kruise-daemon"] {
            let mut command = Command::new(kubectl);
            command.args(["-n", NAMESPACE, "rollout", "status", workload, "--timeout=180s"]);
            if let Err(error) = shell::run(with(&mut command, kubeconfig)) {
                let mut pods = Command::new(kubectl);
                pods.args(["-n", NAMESPACE, "get", "pods", "-o"]);
                pods.arg(
                    "custom-columns=NAME:.metadata.name,NODE:.spec.nodeName,PHASE:.status.phase,REASON:.status.reason,\
                     MESSAGE:.status.message,CONDITIONS:.status.conditions[*].message",
                );
                let pods = shell::run(with(&mut pods, kubeconfig)).unwrap_or_default();
                return Err(error.context(format!("{workload} is not ready:\n{pods}")));
            }
        }
        Ok(())
    })
}

/// An uninstall leaves namespaces behind that are still on their way out, and into which nothing can be put.
fn until_what_was_removed_is_gone(kubeconfig: Option<&Path>, kubectl: &Path) -> Result<()> {
    let mut leaving = Command::new(kubectl);
    leaving.args(["get", "namespaces", "-o"]);
    leaving.arg("jsonpath={range .items[?(@.metadata.deletionTimestamp)]}{.metadata.name}{\"\\n\"}{end}");
    let leaving = shell::run(with(&mut leaving, kubeconfig))?;
    for namespace in leaving.lines().filter(|name| OURS.contains(name)) {
        let mut wait = Command::new(kubectl);
        wait.args(["wait", "--for=delete", "namespace", namespace, "--timeout=180s"]);
        shell::run(with(&mut wait, kubeconfig)).with_context(|| format!("{namespace} is being deleted and stays"))?;
    }
    Ok(())
}

fn with<'a>(command: &'a mut Command, kubeconfig: Option<&Path>) -> &'a mut Command {
    match kubeconfig {
        Some(file) => command.env("KUBECONFIG", file),
        None => command,
    }
}
