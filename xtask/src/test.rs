//! `cargo xtask test`: every check and every test, at three levels, with one line of totals.
//!
//! | level | needs | what |
//! |---|---|---|
//! | unit | nothing | formatting, clippy, dependencies, generated files, the chart's rendering, unit, property and doc tests |
//! | cluster | etcd, Chromium | test targets named `cluster` or `scenarios`, against a control plane shared by the run; `browser`: pages in a real browser; the budgets of the benchmark |
//! | node | root | test targets named `node`, against three real nodes with the product installed |

mod binaries;
mod deny;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use kruise_testkit::cluster::{self, TestControlPlane};
use kruise_testkit::control_plane;
use kruise_testkit::progress::{Progress, seconds};
use kruise_testkit::{features, kubernetes, node, shell};

use crate::clusters::Named;
use crate::{bench, product, up};
use binaries::Binary;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Level {
    Unit,
    Cluster,
    Node,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run one level only.
    #[arg(long)]
    level: Option<Level>,
    /// Run the cluster level (or the node level) on another Kubernetes version, such as 1.28.
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<String>,
    /// Run only the tests whose name contains this; skips the checks.
    filter: Option<String>,
}

/// What has been run so far.
#[derive(Debug, Default)]
struct Totals {
    passed: usize,
    failed: usize,
    failures: Vec<Failure>,
}

/// The Kubernetes that the tests run on.
struct Server {
    version: String,
    /// Where tests write down what they leave out, because the version lacks it.
    left_out: tempfile::NamedTempFile,
}

impl Server {
    fn environment(&self) -> [(&str, &str); 2] {
        let file = self.left_out.path().to_str().unwrap_or_default();
        [(features::KUBERNETES, &self.version), (features::LEFT_OUT, file)]
    }

    fn tell_what_was_left_out(&self) -> Result<()> {
        let lines = std::fs::read_to_string(self.left_out.path())?;
        for line in lines.lines().collect::<BTreeSet<_>>() {
            println!("left out on Kubernetes {}: {line}", self.version);
        }
        Ok(())
    }
}

/// What failed, to be said once more at the very end: there it is found, and logs are often cut to their end.
#[derive(Debug)]
struct Failure {
    name: String,
    words: String,
}

impl Totals {
    fn check(&mut self, name: &str, progress: &Progress, work: impl FnOnce() -> Result<()>) {
        match progress.step(name, |_| work()) {
            Ok(()) => self.passed += 1,
            Err(error) => self.fail(name, &format!("{error:#}")),
        }
    }

    fn fail(&mut self, name: &str, why: &str) {
        eprintln!("{why}");
        self.failed += 1;
        self.failures.push(Failure {
            name: name.to_owned(),
            words: shell::tail(why, 24),
        });
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let started = Instant::now();
    let progress = Progress::shown();
    let mut totals = Totals::default();
    let version = args.kubernetes.as_deref().map(kubernetes::full_version).transpose()?;
    let levels: BTreeSet<Level> = match args.level {
        Some(Level::Unit) if version.is_some() => bail!("the unit level needs no Kubernetes"),
        Some(level) => [level].into(),
        None if version.is_some() => [Level::Cluster].into(),
        None => [Level::Unit, Level::Cluster, Level::Node].into(),
    };
    if levels.contains(&Level::Unit) && args.filter.is_none() {
        checks(&mut totals, &progress)?;
    }
    let binaries = progress.step("Building the tests", binaries::build)?;
    let server = Server {
        left_out: tempfile::NamedTempFile::new()?,
        version: version.unwrap_or_else(|| kubernetes::DEFAULT_VERSION.to_owned()),
    };
    for level in levels {
        let wanted: Vec<&Binary> = binaries.iter().filter(|binary| binary.level == level).collect();
        match level {
            Level::Unit => unit_level(&wanted, args, &mut totals, &progress),
            Level::Cluster => cluster_level(&wanted, args, &server, &mut totals, &progress)?,
            Level::Node => node_level(&wanted, args, &server, &mut totals, &progress)?,
        }
    }
    if totals.passed + totals.failed == 0 {
        bail!("no test matches {:?}", args.filter.as_deref().unwrap_or_default());
    }
    for failure in &totals.failures {
        println!("failed: {}\n{}", failure.name, failure.words);
    }
    server.tell_what_was_left_out()?;
    println!("all done in {}", seconds(started.elapsed()));
    println!("{} passed, {} failed", totals.passed, totals.failed);
    if totals.failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

fn checks(totals: &mut Totals, progress: &Progress) -> Result<()> {
    let cargo = |args: &[&str]| {
        let mut command = product::cargo();
        shell::run(command.args(args)).map(drop)
    };
    totals.check("cargo fmt", progress, || cargo(&["fmt", "--all", "--check"]));
    totals.check("cargo clippy", progress, || {
        cargo(&[
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "-D",
            "warnings",
        ])
    });
    deny::check(totals, progress)?;
    totals.check("generated files", progress, crate::manifests::check_all);
    let helm = kubernetes::helm(progress)?;
    totals.check("helm lint", progress, || {
        shell::run(
            Command::new(helm)
                .args(["lint", "--strict"])
                .arg(crate::root().join("charts/kruise")),
        )
        .map(drop)
    });
    Ok(())
}

fn unit_level(wanted: &[&Binary], args: &Args, totals: &mut Totals, progress: &Progress) {
    run_all(wanted, args, &[], totals, progress);
    if args.filter.is_none() {
        totals.check("doc tests", progress, || {
            let all = ["test", "--locked", "--workspace", "--all-features", "--doc"];
            shell::run(product::cargo().args(all)).map(drop)
        });
    }
}

fn cluster_level(
    wanted: &[&Binary],
    args: &Args,
    server: &Server,
    totals: &mut Totals,
    progress: &Progress,
) -> Result<()> {
    {
        let control_plane = TestControlPlane::of_version(&server.version, progress)?;
        let kubeconfig = control_plane.kubeconfig().display().to_string();
        let before = totals.failed;
        let environment = [&server.environment()[..], &[(cluster::KUBECONFIG, &kubeconfig)]].concat();
        run_all(wanted, args, &environment, totals, progress);
        if totals.failed > before {
            for part in control_plane::PARTS {
                if let Ok(log) = log_of(part, &control_plane.last_words(part)) {
                    println!("last words of {part} are in {}", log.display());
                }
            }
        }
    }
    // The budgets are those of the default version.
    if args.filter.is_none() && args.kubernetes.is_none() {
        totals.check("cargo xtask bench --check", progress, bench::check);
    }
    Ok(())
}

fn node_level(
    wanted: &[&Binary],
    args: &Args,
    server: &Server,
    totals: &mut Totals,
    progress: &Progress,
) -> Result<()> {
    if let Err(why) = node::possible() {
        println!("node level: not run, because {why}");
        if std::env::var_os("CI").is_some_and(|value| value == "true") {
            totals.fail("node level", "in CI no level may be left out");
        }
        return Ok(());
    }
    let name = format!("test-{}", std::process::id());
    let mut guard = guard(&name)?;
    let brought = up::bring_up(&up::Args::for_test(&name, &server.version), progress);
    if let Ok(instance) = &brought {
        let kubeconfig = instance.kubeconfig().display().to_string();
        // These tests mostly wait for kubelets, so more of them run at once than there are cores.
        let own = [(cluster::NODES_KUBECONFIG, &*kubeconfig), ("RUST_TEST_THREADS", "24")];
        run_all(
            wanted,
            args,
            &[&server.environment()[..], &own].concat(),
            totals,
            progress,
        );
    }
    // The guard takes the cluster down; it needs the lock that `brought` holds.
    let result = brought.map(drop);
    progress.step("Ending the cluster of the node tests", |_| {
        drop(guard.stdin.take());
        guard.wait()
    })?;
    result
}

/// Clears up when this process ends, however it ends.
fn guard(name: &str) -> Result<Child> {
    use std::os::unix::process::CommandExt;
    // Building the tests may have replaced the file that this process was started from; this link still leads to it.
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["guard", "--name", name])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    command.spawn().context("cannot start the guard of the test cluster")
}

fn run_all(wanted: &[&Binary], args: &Args, environment: &[(&str, &str)], totals: &mut Totals, progress: &Progress) {
    for binary in wanted {
        let name = binary.to_string();
        let outcome = progress.step(&name, |_| {
            let outcome = binary.run(args.filter.as_deref(), environment);
            if outcome.failed > 0 { Err(outcome) } else { Ok(outcome) }
        });
        let outcome = outcome.unwrap_or_else(|failed| {
            failed.failed_tests().for_each(|test| println!("{test}"));
            match log_of(&name, &failed.output) {
                Ok(log) => println!("all it said is in {}", log.display()),
                Err(error) => println!("{}\nthis could not be kept: {error:#}", failed.output),
            }
            totals.failures.push(Failure {
                name,
                words: failed.failures(),
            });
            failed
        });
        totals.passed += outcome.passed;
        totals.failed += outcome.failed;
    }
}

/// Keeps what a test binary said.
fn log_of(binary: &str, output: &str) -> Result<PathBuf> {
    let folder = crate::root().join("target/test-logs");
    std::fs::create_dir_all(&folder)?;
    let log = folder.join(format!("{}.log", binary.replace(' ', "-")));
    std::fs::write(&log, output)?;
    Ok(log)
}

impl Level {
    /// How long one test binary may take before it counts as hung.
    fn deadline(self) -> Duration {
        Duration::from_mins(match self {
            Level::Unit => 8,
            Level::Cluster => 15,
            Level::Node => 20,
        })
    }
}

impl up::Args {
    fn for_test(name: &str, version: &str) -> Self {
        Self {
            named: Named { name: name.to_owned() },
            nodes: Some(3),
            sim: 0,
            kubernetes: Some(version.to_owned()),
            no_install: false,
            existing: false,
            image: None,
            // Turns on ImagePullJobGate, too.
            set: vec!["featureGates=PreDownloadImageForInPlaceUpdate=true".to_owned()],
        }
    }
}
