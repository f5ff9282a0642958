//! `cargo xtask bench`: what the product costs, measured on this machine.
//!
//! Each scenario prints a table. `--report` keeps the figures and writes them as a page, too. Figures belong here and never into
//! a test, which would fail on a slow machine; what a test can hold are ratios within one run: `--check`.

mod admission;
mod arena;
mod bare;
mod budget;
mod card;
mod churn;
mod daemon;
mod daemonset;
mod failover;
mod idle;
mod injection;
mod jobs;
mod load;
mod look;
mod machine;
mod manager;
mod many_nodes;
mod page;
mod planning;
mod platform;
mod probes;
mod program;
mod protection;
mod reviews;
mod rollout;
mod scale;
mod score;
mod sidecarset;
mod start;
mod statefulset;
mod topology;
mod workload;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use kruise_api::names::group;
use kruise_testkit::progress::Progress;
use kruise_testkit::shell;
use kube::core::{ApiResource, GroupVersionKind};

use crate::product;
use budget::Budget;
use score::{Chapter, Machine, Score};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// From the start of the process to its first work, and its memory, in clusters of growing size.
    Start,
    /// One CloneSet from nothing to many Pods and back, and many small ones.
    Scale,
    /// A new image, in place and by new Pods.
    Rollout,
    /// Many Pods and sets, and nothing happens.
    Idle,
    /// Pods whose status changes all the time.
    Churn,
    /// Questions about Pods straight at the webhook, also with SidecarSets.
    Admission,
    /// The leader goes in the middle of a rollout.
    Failover,
    /// Deletions and evictions of Pods among many budgets, and of a namespace with many Pods.
    Protection,
    /// A Pod on each of many nodes, and many schedules for the same minute.
    Jobs,
    /// The node daemon on real nodes (needs root): pulls, restarts, idling; and a pull job over a thousand simulated nodes.
    Daemon,
    /// How long the planner of CloneSet thinks.
    Planning,
    /// The manager by itself: sizes, start, idle, memory for cached Pods, admission, fail-over.
    Platform,
    /// What concerns CloneSet: start, scale, rollout, idle and planning, beside a bare client.
    Cloneset,
    /// One StatefulSet from nothing to many Pods, updated in place, and back, beside a bare client; and its planner.
    Statefulset,
    /// One DaemonSet over many nodes, and updated in place, beside a bare client; and what the heartbeats of nodes cost.
    Daemonset,
    /// One SidecarSet whose sidecar gets another image in many Pods, beside a bare client; memory of many sets and Pods; and its planner.
    Sidecarset,
    /// A Pod under a WorkloadSpread, a UnitedDeployment of ten subsets, and one Secret for many namespaces, beside a bare client.
    Topology,
    /// 50 readers of the live page while Pods change, and scrapes of the state metrics.
    Look,
    /// Reading every kind, and a Pod as the cache keeps it.
    Decode,
    /// Measure nothing: write what a score file tells as report.html and report.md.
    Report,
}

/// The score card.
const CARD: [Scenario; 9] = [
    Scenario::Start,
    Scenario::Scale,
    Scenario::Rollout,
    Scenario::Idle,
    Scenario::Churn,
    Scenario::Admission,
    Scenario::Failover,
    Scenario::Jobs,
    Scenario::Daemon,
];

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Args {
    /// What to measure; the whole score card if nothing is named.
    scenarios: Vec<Scenario>,
    /// Another manager that serves the same API: it does the same work in the same run.
    #[arg(long, value_name = "PROGRAM")]
    peer: Option<PathBuf>,
    /// Measure the peer once more with the client limits that it has by itself.
    #[arg(long, requires = "peer")]
    peer_by_default: bool,
    /// A client that makes the same writes and decides nothing takes part: the limit that the API server sets.
    #[arg(long)]
    bare: bool,
    /// How often each takes its turn; the median is told.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Small numbers and short times: to see whether all works, not what it costs.
    #[arg(long)]
    quick: bool,
    /// Hold what a quick run of all scenarios with budgets finds against bench/budgets.json, as a run in full size always is; an exceeded budget is an error.
    #[arg(long, conflicts_with = "scenarios")]
    check: bool,
    /// How many Pods the large set has.
    #[arg(long)]
    pods: Option<usize>,
    /// Write the figures to this file, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the figures in bench/score.json, in the place of what the same scenarios found before, and write the report anew.
    #[arg(long, conflicts_with_all = ["quick", "check"])]
    report: bool,
    /// The score that `report` reads [default: bench/score.json of this repository]
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// The folder that `report` writes to [default: bench of this repository]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Measure with the programs as they are built for tests; nothing is optimised.
    #[arg(long, hide = true)]
    unoptimised: bool,
}

/// How much work a scenario makes.
#[derive(Debug)]
struct Size {
    quick: bool,
    /// Pods of the one large set.
    pods: usize,
    /// Many small sets.
    sets: usize,
    replicas: usize,
    /// How many of them are idle.
    idle_sets: usize,
    idle: Duration,
    /// How long after some work a manager counts as at rest.
    settle: Duration,
    /// Pods whose status changes, and for how long.
    churned: usize,
    churn: Duration,
    /// How many Pods are in the cluster when a manager starts.
    populations: &'static [usize],
    /// How long each load of questions lasts.
    admission: Duration,
    failover_pods: usize,
    /// Nodes of a BroadcastJob.
    job_nodes: usize,
    /// AdvancedCronJobs that are due in the same minute, and how long nothing happens before.
    schedules: usize,
    between: Duration,
    /// Pods of the StatefulSet, and nodes of the DaemonSet.
    workload_pods: usize,
    /// PodUnavailableBudgets, evictions against one of them, and Pods of a namespace that is deleted.
    budgets: usize,
    evictions: usize,
    namespace_pods: usize,
    /// SidecarSets that are for other Pods.
    other_sets: usize,
    /// Pods whose sidecar gets another image.
    sidecar_pods: usize,
    /// SidecarSets and Pods that take memory.
    injecting_sets: usize,
    injected_pods: usize,
    /// Nodes that only say that they are alive, and for how long.
    beating_nodes: usize,
    beating: Duration,
    /// How often the webhook is asked about a Pod that is spread.
    admission_pods: usize,
    /// Pods of each of ten subsets.
    subset_pods: usize,
    /// Namespaces that one Secret is for.
    namespaces: usize,
    /// How long nothing may be written.
    rest: Duration,
}

impl Size {
    fn of(args: &Args) -> Self {
        let quick = args.quick || args.check;
        let mut size = if quick { Self::QUICK } else { Self::FULL };
        size.pods = args.pods.unwrap_or(size.pods);
        size.workload_pods = args.pods.unwrap_or(size.workload_pods);
        size.sidecar_pods = args.pods.unwrap_or(size.sidecar_pods);
        size
    }

    /// Pods of the largest cluster.
    fn largest_population(&self) -> usize {
        self.populations.iter().max().copied().unwrap_or_default()
    }

    const FULL: Self = Self {
        quick: false,
        pods: 2000,
        sets: 100,
        replicas: 50,
        idle_sets: 200,
        idle: Duration::from_mins(10),
        settle: Duration::from_secs(20),
        churned: 1000,
        churn: Duration::from_mins(5),
        populations: &[0, 1000, 5000, 10_000, 50_000],
        admission: Duration::from_secs(2),
        failover_pods: 1000,
        job_nodes: 1000,
        schedules: 1000,
        between: Duration::from_mins(2),
        workload_pods: 1000,
        budgets: 500,
        evictions: 500,
        namespace_pods: 10_000,
        other_sets: 1000,
        sidecar_pods: 2000,
        injecting_sets: 200,
        injected_pods: 10_000,
        beating_nodes: 5000,
        beating: Duration::from_mins(5),
        admission_pods: 2000,
        subset_pods: 200,
        namespaces: 1000,
        rest: Duration::from_mins(1),
    };

    const QUICK: Self = Self {
        quick: true,
        pods: 400,
        sets: 5,
        replicas: 10,
        idle_sets: 10,
        idle: Duration::from_secs(15),
        settle: Duration::from_secs(5),
        churned: 100,
        churn: Duration::from_secs(20),
        populations: &[0, 2000],
        admission: Duration::from_millis(300),
        failover_pods: 60,
        job_nodes: 40,
        schedules: 40,
        between: Duration::from_secs(10),
        workload_pods: 60,
        budgets: 20,
        evictions: 40,
        namespace_pods: 300,
        other_sets: 50,
        sidecar_pods: 60,
        injecting_sets: 20,
        injected_pods: 200,
        beating_nodes: 100,
        beating: Duration::from_secs(20),
        admission_pods: 200,
        subset_pods: 4,
        namespaces: 40,
        rest: Duration::from_secs(10),
    };
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.scenarios == [Scenario::Decode] {
        return decode();
    }
    if args.scenarios == [Scenario::Report] {
        let folder = crate::root().join("bench");
        let from = args.from.clone().unwrap_or_else(|| folder.join("score.json"));
        return page::write(&from, args.out.as_deref().unwrap_or(&folder));
    }
    if cfg!(debug_assertions) && !args.unoptimised {
        eprintln!("The benchmark itself is compiled with optimisation …");
        return follow(optimised()?.args(std::env::args_os().skip(1)));
    }
    let progress = Progress::shown();
    let mut score = Score {
        machine: machine::describe(),
        chapters: Vec::new(),
    };
    let budgets = budget::read(&crate::root().join("bench/budgets.json"))?;
    for scenario in wanted(args, &budgets) {
        let chapter = card::run(scenario, args, &progress)
            .with_context(|| format!("the scenario {} gave no figures", name(scenario)))?;
        chapter.print();
        println!();
        if args.report {
            keep(&score.machine, &chapter)?;
        }
        score.chapters.push(chapter);
    }
    if let Some(path) = &args.json {
        score.write(path)?;
    }
    if args.check || !args.quick {
        budget::check(&budgets, &score.chapters, args.check)?;
    }
    Ok(())
}

/// Keeps what a scenario found beside what others have found on this machine, and writes the report.
fn keep(machine: &Machine, chapter: &Chapter) -> Result<()> {
    let folder = crate::root().join("bench");
    let file = folder.join("score.json");
    let mut score = if file.exists() {
        Score::read(&file)?
    } else {
        Score::default()
    };
    if score.machine != *machine {
        score = Score {
            machine: machine.clone(),
            ..Score::default()
        };
    }
    score.chapters.retain(|old| old.scenario != chapter.scenario);
    score.chapters.push(chapter.clone());
    let place = |chapter: &Chapter| CARD.iter().position(|scenario| name(*scenario) == chapter.scenario);
    score
        .chapters
        .sort_by_key(|chapter| place(chapter).unwrap_or(CARD.len()));
    score.write(&file)?;
    page::write(&file, &folder)
}

/// The scenarios that are asked for, each once.
fn wanted(args: &Args, budgets: &[Budget]) -> Vec<Scenario> {
    let mut all = Vec::new();
    if args.check {
        all.extend(
            CARD.into_iter()
                .filter(|scenario| budget::has(budgets, &name(*scenario), args.peer.is_some())),
        );
    } else if args.scenarios.is_empty() {
        all.extend(CARD);
    }
    for scenario in &args.scenarios {
        match scenario {
            Scenario::Cloneset => all.extend([
                Scenario::Start,
                Scenario::Scale,
                Scenario::Rollout,
                Scenario::Idle,
                Scenario::Planning,
            ]),
            other => all.push(*other),
        }
    }
    let mut once = Vec::new();
    for scenario in all {
        if !once.contains(&scenario) {
            once.push(scenario);
        }
    }
    once
}

fn name(scenario: Scenario) -> String {
    scenario
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

/// `cargo xtask bench --check` as a part of the tests: what it says is told only if a budget is exceeded.
pub(crate) fn check() -> Result<()> {
    shell::run(optimised()?.args(["bench", "--check"])).map(drop)
}

/// This program without what it only has to share its crates with the tests: this way it shares some with the product.
const PLAIN: [&str; 3] = ["-p", "xtask", "--no-default-features"];

/// What has to be built before [`check`] can begin to measure, apart from the programs.
pub(crate) fn build_command() -> Result<Command> {
    let mut command = product::static_cargo("build", product::LOCAL)?;
    command.args(PLAIN);
    Ok(command)
}

/// This program, compiled with optimisation: simulated nodes and load shall take as little as possible of the machine that is measured.
fn optimised() -> Result<Command> {
    let mut command = product::static_cargo("run", product::LOCAL)?;
    command.args(PLAIN).args(["--quiet", "--"]);
    Ok(command)
}

fn decode() -> Result<()> {
    follow(product::cargo().args(["bench", "--locked", "-p", "kruise-api", "--bench", "decode"]))
}

fn follow(command: &mut Command) -> Result<()> {
    let status = command.status().context("cannot start cargo")?;
    if !status.success() {
        bail!("the benchmark ended with {status}");
    }
    Ok(())
}

/// A kind of ours.
fn kind(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group::APPS, "v1beta1", kind), plural)
}

#[expect(clippy::cast_precision_loss, reason = "nobody measures 2^52 Pods")]
fn as_number(count: usize) -> f64 {
    count as f64
}
