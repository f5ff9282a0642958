//! The manager by itself: what it costs when nothing happens, and how fast it answers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kruise_api::names::object;
use kruise_testkit::cluster::TestControlPlane;
use kruise_testkit::process::wait_until;
use kruise_testkit::progress::Progress;
use kruise_testkit::{kubernetes, shell};
use serde_json::{Value, json};

use super::load::{self, Target};
use super::manager::{Manager, Webhooks};
use super::reviews::{self, Work};
use super::score::Chapter;
use crate::product;

const SYSTEM: &str = "kruise-system";
pub(super) const MEGABYTE: f64 = 1024.0 * 1024.0;

pub(super) fn run(report: &mut Chapter, progress: &Progress) -> Result<()> {
    let programs = progress.step("Building the release programs", |step| {
        product::compile("release", step)
    })?;
    for program in &programs {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        report.add(format!("size of {name}"), size(program)? / MEGABYTE, "MB");
    }
    let manager = programs.first().context("no manager was built")?;
    let control_plane = TestControlPlane::start(progress)?;
    let kubeconfig = control_plane.kubeconfig();
    progress.step("Installing CRDs and webhook configurations", |_| install(&kubeconfig))?;
    start_idle_admission(manager, &kubeconfig, report, progress)?;
    for (what, polite, goal) in [("kill -9", false, 17.0), ("SIGTERM", true, 2.0)] {
        let time = progress.step(&format!("Fail-over after {what}"), |_| {
            fail_over(manager, &kubeconfig, polite)
        })?;
        report.at_most(format!("fail-over after {what}"), time.as_secs_f64(), "s", goal);
    }
    for pods in [10_000, 100_000] {
        let line = progress.step(&format!("Reading {pods} Pods into a cache"), |_| cached_pods(pods))?;
        report.at_most(format!("memory per cached Pod, {pods} Pods"), line, "bytes", 1536.0);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a file of 2^52 bytes does not exist")]
fn size(path: &Path) -> Result<f64> {
    Ok(fs::metadata(path)?.len() as f64)
}

/// Resident bytes per Pod, as the cache's own example tells.
fn cached_pods(pods: u32) -> Result<f64> {
    let text = shell::run(
        product::static_cargo("run", "release")?
            .args(["--quiet", "-p", "kruise-runtime", "--example", "cache_memory", "--"])
            .arg(pods.to_string()),
    )?;
    text.lines()
        .find_map(|line| {
            line.strip_prefix("listed: ")?
                .split_once("resident, ")?
                .1
                .split_once(' ')?
                .0
                .parse()
                .ok()
        })
        .with_context(|| format!("no figure in:\n{text}"))
}

/// What the chart installs, without its Pods.
pub(super) fn install(kubeconfig: &Path) -> Result<()> {
    let helm = kubernetes::helm(&Progress::quiet())?;
    let rendered = shell::run(
        Command::new(helm)
            .args(["template", "kruise", "--set=manager.image.tag=none"])
            .arg(crate::root().join("charts/kruise")),
    )?;
    let wanted: Vec<&str> = rendered
        .split("\n---")
        .filter(|document| {
            [
                "CustomResourceDefinition",
                "Namespace",
                "Secret",
                "Service",
                "MutatingWebhookConfiguration",
                "ValidatingWebhookConfiguration",
            ]
            .iter()
            .any(|kind| document.contains(&format!("\nkind: {kind}\n")))
        })
        .collect();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("installation.yaml");
    fs::write(&file, wanted.join("\n---"))?;
    let mut namespace = kubectl(kubeconfig);
    let _ = shell::run(namespace.args(["create", "namespace", SYSTEM]));
    shell::run(
        kubectl(kubeconfig)
            .args(["apply", "--server-side", "--force-conflicts", "-f"])
            .arg(file),
    )
    .map(drop)
}

fn kubectl(kubeconfig: &Path) -> Command {
    let mut command = Command::new(shell::find("kubectl").unwrap_or_else(|| PathBuf::from("kubectl")));
    command.arg("--kubeconfig").arg(kubeconfig);
    command
}

fn start_idle_admission(program: &Path, kubeconfig: &Path, report: &mut Chapter, progress: &Progress) -> Result<()> {
    let first = progress.step("First start", |_| {
        let mut manager = Manager::start(program, kubeconfig, Webhooks::Address, &[])?;
        served(&mut manager)
    })?;
    report.add(
        "first start to the first answer (makes certificates)",
        first.as_secs_f64(),
        "s",
    );
    let mut manager = Manager::start(program, kubeconfig, Webhooks::Address, &[])?;
    let again = progress.step("Start", |_| served(&mut manager))?;
    report.at_most("start to the first answer", again.as_secs_f64(), "s", 1.0);
    manager.ready()?;
    progress.step("Becoming the leader", |_| {
        wait_until(Duration::from_mins(1), || holder(kubeconfig).is_some())
            .then_some(())
            .context("no leader")
    })?;

    let time = Duration::from_mins(1);
    let (writes, cpu) = progress.step("Doing nothing for a minute", |_| -> Result<_> {
        wait(Duration::from_secs(20));
        let before = (manager.writes()?, manager.cpu()?);
        wait(time);
        Ok((manager.writes()? - before.0, manager.cpu()?.saturating_sub(before.1)))
    })?;
    report.at_most("idle: resident", manager.memory()? / MEGABYTE, "MB", 24.0);
    report.at_most(
        "idle: CPU",
        cpu.as_secs_f64() / time.as_secs_f64() * 100.0,
        "% of a core",
        0.1,
    );
    report.add("idle: writes (the lease is renewed every 2 s)", writes, "per minute");

    let target = target(&manager)?;
    progress.step("Warming up", |_| load::one_by_one(&target, 2000).map(drop))?;
    let before = manager.cpu()?;
    let alone = progress.step("Admission on one connection", |_| load::one_by_one(&target, 20_000))?;
    let cpu = manager.cpu()?.saturating_sub(before);
    report.at_most(
        "admission, one connection: p50",
        milliseconds(alone.per_mille(500)),
        "ms",
        0.15,
    );
    report.add(
        "admission, one connection: p99",
        milliseconds(alone.per_mille(990)),
        "ms",
    );
    let requests = u32::try_from(alone.count())?;
    report.at_most(
        "admission: CPU of the manager per request",
        milliseconds(cpu / requests),
        "ms",
        0.03,
    );
    let steady = progress.step("Admission, 5,000 requests/s on eight connections", |_| {
        load::steady(&target, 8, 5000, Duration::from_secs(10))
    })?;
    report.add("admission, 5,000/s: p50", milliseconds(steady.per_mille(500)), "ms");
    report.at_most(
        "admission, 5,000/s: p99",
        milliseconds(steady.per_mille(990)),
        "ms",
        2.0,
    );
    report.add("admission, 5,000/s: p999", milliseconds(steady.per_mille(999)), "ms");
    let unseen = progress.step("Templates that were never seen before", |_| {
        load::in_order((0..500).map(|number| target.asking(reviews::CLONE_SET_PATH, &reviews::clone_set(number))))
    })?;
    report.at_most(
        "admission of a CloneSet, unseen template: p50",
        milliseconds(unseen.per_mille(500)),
        "ms",
        5.0,
    );
    report.add("after admission: resident", manager.memory()? / MEGABYTE, "MB");
    Ok(())
}

pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// A benchmark's time passes; nothing is waited for.
pub(super) fn wait(time: Duration) {
    std::thread::sleep(time);
}

/// How long after its start a manager answers its first request.
fn served(manager: &mut Manager) -> Result<Duration> {
    let (port, authority, started) = (manager.webhook_port, manager.authority(), manager.started);
    manager.until("serving", || {
        Target::new(port, &authority, reviews::POD_PATH, &reviews::pod(2, Work::Gate))
            .and_then(|target| target.connect()?.ask())
            .is_ok()
    })?;
    Ok(started.elapsed())
}

fn target(manager: &Manager) -> Result<Target> {
    Target::new(
        manager.webhook_port,
        &manager.authority(),
        reviews::POD_PATH,
        &reviews::pod(2, Work::Gate),
    )
}

/// Who leads.
pub(super) fn holder(kubeconfig: &Path) -> Option<String> {
    let holder = shell::run(kubectl(kubeconfig).args([
        "-n",
        SYSTEM,
        "get",
        "lease",
        "kruise-manager",
        "-o",
        "jsonpath={.spec.holderIdentity}",
    ]))
    .ok()?;
    (!holder.is_empty()).then_some(holder)
}

/// Nobody has to wait until the last leader's time is up.
pub(super) fn free_lease(kubeconfig: &Path) {
    // At the first start there is none.
    let _ = shell::run(kubectl(kubeconfig).args(["-n", SYSTEM, "delete", "lease", "kruise-manager"]));
}

/// Narrows the webhooks to namespaces that do not exist.
pub(super) fn nobody_asks_webhooks(kubeconfig: &Path) -> Result<()> {
    for (kind, name) in [
        ("mutatingwebhookconfigurations", object::MUTATING_WEBHOOKS),
        ("validatingwebhookconfigurations", object::VALIDATING_WEBHOOKS),
    ] {
        let webhooks = shell::run(kubectl(kubeconfig).args(["get", kind, name, "-o", "jsonpath={.webhooks[*].name}"]))?;
        let narrow: Vec<Value> = (0..webhooks.split(' ').count())
            .map(|place| {
                json!({
                    "op": "add", "path": format!("/webhooks/{place}/namespaceSelector"),
                    "value": {"matchLabels": {"kubernetes.io/metadata.name": "nowhere"}},
                })
            })
            .collect();
        let narrow = Value::from(narrow).to_string();
        shell::run(kubectl(kubeconfig).args(["patch", kind, name, "--type=json", "-p", &narrow]))?;
    }
    Ok(())
}

/// How long nobody leads when the leader goes.
fn fail_over(program: &Path, kubeconfig: &Path, polite: bool) -> Result<Duration> {
    free_lease(kubeconfig);
    let mut leader = Manager::start(program, kubeconfig, Webhooks::Service, &[])?;
    leader.ready()?;
    let mut first = None;
    leader.until("leading", || {
        first = holder(kubeconfig);
        first.is_some()
    })?;
    let mut standby = Manager::start(program, kubeconfig, Webhooks::Service, &[])?;
    standby.ready()?;
    let begin = Instant::now();
    if polite {
        leader.terminate()?;
    } else {
        leader.kill()?;
    }
    standby.until("leading", || {
        let now = holder(kubeconfig);
        now.is_some() && now != first
    })?;
    if holder(kubeconfig) == first {
        bail!("the lease went back");
    }
    Ok(begin.elapsed())
}
