//! `cargo xtask bench`: what the product costs, measured on this machine.
//!
//! Each scenario prints a table. `--report` keeps the figures and writes them as a page, too. Figures belong here and never into
//! a test, which would fail on a slow machine; what a test can hold are ratios within one run: `--check`.

mod bare;
mod cloneset;
mod daemon;
mod load;
mod manager;
mod many_nodes;
mod page;
mod platform;
mod program;
mod reviews;
mod score;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use kruise_testkit::progress::Progress;

use crate::product;
use score::{Chapter, Score};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Reading every kind, and a Pod as the cache keeps it.
    Decode,
    /// The manager by itself: start, idle, memory for cached Pods, admission, fail-over.
    Platform,
    /// One large CloneSet on simulated nodes: scale out, update in place, scale in; beside a bare client.
    Cloneset,
    /// The node daemon on real nodes (needs root): pulls, restarts, idling; and a pull job over a thousand simulated nodes.
    Daemon,
    /// Measure nothing: write what a score file tells as report.html and report.md.
    Report,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure.
    scenario: Scenario,
    /// How many Pods the CloneSet has.
    #[arg(long, default_value_t = 2000)]
    pods: usize,
    /// Write the figures to this file, too.
    #[arg(long)]
    json: Option<PathBuf>,
    /// The score that `report` reads [default: bench/score.json of this repository]
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// The folder that `report` writes to [default: bench of this repository]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if cfg!(debug_assertions) && !matches!(args.scenario, Scenario::Decode | Scenario::Report) {
        return optimised();
    }
    let progress = Progress::shown();
    let chapter: Chapter = match args.scenario {
        Scenario::Decode => {
            if args.json.is_some() {
                bail!("`decode` prints a table only");
            }
            return decode();
        }
        Scenario::Report => {
            let folder = crate::root().join("bench");
            let from = args.from.clone().unwrap_or_else(|| folder.join("score.json"));
            return page::write(&from, args.out.as_deref().unwrap_or(&folder));
        }
        Scenario::Platform => platform::run(&progress)?,
        Scenario::Cloneset => cloneset::run(args.pods, &progress)?,
        Scenario::Daemon => daemon::run(&progress)?,
    };
    chapter.print();
    if let Some(path) = &args.json {
        let score = Score {
            chapters: vec![chapter],
            ..Score::default()
        };
        fs::write(path, format!("{}\n", serde_json::to_string_pretty(&score)?))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The same command in an optimised program: simulated nodes and load shall take as little as possible of the machine that is measured.
fn optimised() -> Result<()> {
    eprintln!("The benchmark itself is compiled with optimisation …");
    follow(
        product::static_cargo("run", "local")?
            .args(["--quiet", "-p", "xtask", "--"])
            .args(std::env::args_os().skip(1)),
    )
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
