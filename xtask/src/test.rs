//! `cargo xtask test`: every check and every test, at three levels, with one line of totals.
//!
//! | level | needs | what |
//! |---|---|---|
//! | unit | nothing | formatting, clippy, dependencies, generated files, the docs as a site, the chart's rendering, unit, property and doc tests |
//! | cluster | etcd, Chromium | test targets named `cluster`, `faults` or `scenarios_…`, against a control plane; `browser`: pages in a real browser; the budgets of the benchmark |
//! | node | root | test targets named `node`, against three real nodes with the product installed |
//! | torture | etcd | only on demand: test targets named `faults` once more, with every case of which the cluster level takes a sample |
//!
//! Test binaries run side by side, see [`lanes`]; the ten slowest tests are told at the end.

mod ahead;
mod binaries;
mod checks;
mod deny;
mod lanes;
mod site;
mod times;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use kruise_testkit::cluster::{self, TestControlPlane};
use kruise_testkit::control_plane;
use kruise_testkit::progress::{Progress, seconds};
use kruise_testkit::{features, kubernetes, node, shell, torture};

use crate::clusters::Named;
use crate::{bench, product, up};
use ahead::Ahead;
use binaries::{Binary, Outcome};
use lanes::Lane;
use times::Times;

/// Control planes beside each other: with so many, two cores are busy, and nothing waits for them for long.
const CONTROL_PLANES: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Level {
    Unit,
    Cluster,
    Node,
    Torture,
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
    times: Times,
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

    fn print_left_out(&self) -> Result<()> {
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

    /// Takes in what a binary did.
    fn add(&mut self, binary: &Binary, outcome: Outcome, whole: bool) {
        let name = binary.to_string();
        self.passed += outcome.passed;
        self.failed += outcome.failed;
        if whole {
            self.times.add_binary(name.clone(), outcome.took);
        }
        if outcome.failed > 0 {
            outcome.failed_tests().for_each(|test| println!("{test}"));
            match log_of(&name, &outcome.output) {
                Ok(log) => println!("all it said is in {}", log.display()),
                Err(error) => println!("{}\nthis could not be kept: {error:#}", outcome.output),
            }
            self.failures.push(Failure {
                name: name.clone(),
                words: outcome.failures(),
            });
        }
        for (test, time) in outcome.times {
            self.times.add_test(format!("{name} {test}"), time);
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let started = Instant::now();
    let progress = Progress::shown();
    let mut totals = Totals {
        times: Times::read(),
        ..Totals::default()
    };
    let version = args.kubernetes.as_deref().map(kubernetes::full_version).transpose()?;
    let levels: BTreeSet<Level> = match args.level {
        Some(Level::Unit) if version.is_some() => bail!("the unit level needs no Kubernetes"),
        Some(level) => [level].into(),
        None if version.is_some() => [Level::Cluster].into(),
        None => [Level::Unit, Level::Cluster, Level::Node].into(),
    };
    if levels.contains(&Level::Unit) && args.filter.is_none() {
        checks::run(&mut totals, &progress)?;
    }
    let binaries = progress.step("Building the tests", binaries::build)?;
    let server = Server {
        left_out: tempfile::NamedTempFile::new()?,
        version: version.unwrap_or_else(|| kubernetes::DEFAULT_VERSION.to_owned()),
    };
    // The budgets are those of the default version.
    let measures = levels.contains(&Level::Cluster) && args.filter.is_none() && args.kubernetes.is_none();
    let mut ahead = if measures { Ahead::begin() } else { Ahead::nothing() };
    for level in levels {
        let mut wanted: Vec<&Binary> = binaries.iter().filter(|binary| binary.is_of(level)).collect();
        wanted.sort_by_key(|binary| std::cmp::Reverse(totals.times.expected(&binary.to_string())));
        match level {
            Level::Unit => unit_level(wanted, args, &mut totals, &progress),
            Level::Cluster | Level::Torture => cluster_level(level, wanted, args, &server, &mut totals, &progress)?,
            Level::Node => node_level(wanted, args, &server, &mut totals, &progress)?,
        }
        if level == Level::Cluster && measures {
            ahead.end(&mut totals, &progress);
            totals.check("cargo xtask bench --check", &progress, bench::check);
        }
    }
    if totals.passed + totals.failed == 0 {
        bail!("no test matches {:?}", args.filter.as_deref().unwrap_or_default());
    }
    for failure in &totals.failures {
        println!("failed: {}\n{}", failure.name, failure.words);
    }
    server.print_left_out()?;
    totals.times.write()?;
    println!("the slowest tests:");
    totals.times.slowest().for_each(|line| println!("{line}"));
    println!("all done in {}", seconds(started.elapsed()));
    println!("{} passed, {} failed", totals.passed, totals.failed);
    if totals.failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

fn unit_level(wanted: Vec<&Binary>, args: &Args, totals: &mut Totals, progress: &Progress) {
    let lanes = [Lane::with(&[]), Lane::with(&[])];
    run_all("Unit tests", wanted, args, &lanes, totals, progress);
    if args.filter.is_none() {
        totals.check("doc tests", progress, || {
            let all = ["test", "--locked", "--workspace", "--all-features", "--doc"];
            shell::run(product::cargo().args(all)).map(drop)
        });
    }
}

/// Each lane has a control plane of its own: CRDs and webhook configurations belong to a whole cluster.
fn cluster_level(
    level: Level,
    wanted: Vec<&Binary>,
    args: &Args,
    server: &Server,
    totals: &mut Totals,
    progress: &Progress,
) -> Result<()> {
    let count = CONTROL_PLANES.min(wanted.len());
    let control_planes: Vec<TestControlPlane> = (0..count)
        .map(|_| TestControlPlane::of_version(&server.version, progress))
        .collect::<Result<_>>()?;
    let lane = |control_plane: &TestControlPlane| {
        let kubeconfig = control_plane.kubeconfig().display().to_string();
        let own: &[(&str, &str)] = if level == Level::Torture {
            &[(cluster::KUBECONFIG, &kubeconfig), (torture::TORTURE, "true")]
        } else {
            &[(cluster::KUBECONFIG, &kubeconfig)]
        };
        Lane::with(&[&server.environment()[..], own].concat())
    };
    let lanes: Vec<Lane> = control_planes.iter().map(lane).collect();
    let before = totals.failed;
    let title = if level == Level::Torture {
        "Torture"
    } else {
        "Cluster tests"
    };
    run_all(title, wanted, args, &lanes, totals, progress);
    if totals.failed > before {
        for (number, control_plane) in control_planes.iter().enumerate() {
            for part in control_plane::PARTS {
                if let Ok(log) = log_of(&format!("{part} {number}"), &control_plane.last_words(part)) {
                    println!("last words of {part} are in {}", log.display());
                }
            }
        }
    }
    Ok(())
}

/// The tests of xtask have clusters of their own. All others share three nodes, on which some end daemons and kubelets: those go one after the other.
fn node_level(
    wanted: Vec<&Binary>,
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
        let own = [(cluster::NODES_KUBECONFIG, &*kubeconfig)];
        let lane = || Lane::with(&[&server.environment()[..], &own].concat());
        let lanes = [
            lane().only(Binary::has_clusters_of_its_own),
            lane().only(|binary| !binary.has_clusters_of_its_own()),
        ];
        run_all("Node tests", wanted, args, &lanes, totals, progress);
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

fn run_all(title: &str, wanted: Vec<&Binary>, args: &Args, lanes: &[Lane], totals: &mut Totals, progress: &Progress) {
    let filter = args.filter.as_deref();
    lanes::run(title, wanted, filter, lanes, progress, |binary, outcome| {
        totals.add(binary, outcome, filter.is_none());
    });
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
            Level::Torture => 120,
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
            // The first turns on ImagePullJobGate, too.
            set: vec![
                r"featureGates=PreDownloadImageForInPlaceUpdate=true\,SidecarTerminator=true\,StatefulSetAutoResizePVCGate=true".to_owned(),
            ],
        }
    }
}
