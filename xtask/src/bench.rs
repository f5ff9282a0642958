//! `cargo xtask bench`: what the product costs, measured on this machine.
//!
//! Each scenario prints a table; `--json` writes the same figures to a file. Figures belong here and never into a test, which
//! would fail on a slow machine.

mod bare;
mod cloneset;
mod daemon;
mod load;
mod manager;
mod many_nodes;
mod platform;
mod program;
mod reviews;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use kruise_testkit::progress::Progress;
use serde_json::{Value, json};

use crate::product;

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
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if cfg!(debug_assertions) && args.scenario != Scenario::Decode {
        return optimised();
    }
    let progress = Progress::shown();
    let report = match args.scenario {
        Scenario::Decode => {
            if args.json.is_some() {
                bail!("`decode` prints a table only");
            }
            return decode();
        }
        Scenario::Platform => platform::run(&progress)?,
        Scenario::Cloneset => cloneset::run(args.pods, &progress)?,
        Scenario::Daemon => daemon::run(&progress)?,
    };
    report.print();
    if let Some(path) = &args.json {
        fs::write(path, format!("{:#}\n", report.json()))
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

/// Figures with the goals they are held against.
#[derive(Debug, Default)]
struct Report {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    measure: String,
    value: f64,
    unit: &'static str,
    goal: Option<Goal>,
}

#[derive(Debug, Clone, Copy)]
enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Report {
    fn add(&mut self, measure: impl Into<String>, value: f64, unit: &'static str) {
        self.row(measure.into(), value, unit, None);
    }

    /// A figure that has to stay below its goal.
    fn at_most(&mut self, measure: impl Into<String>, value: f64, unit: &'static str, goal: f64) {
        self.row(measure.into(), value, unit, Some(Goal::AtMost(goal)));
    }

    /// A figure that has to reach its goal.
    fn at_least(&mut self, measure: impl Into<String>, value: f64, unit: &'static str, goal: f64) {
        self.row(measure.into(), value, unit, Some(Goal::AtLeast(goal)));
    }

    fn row(&mut self, measure: String, value: f64, unit: &'static str, goal: Option<Goal>) {
        self.rows.push(Row {
            measure,
            value,
            unit,
            goal,
        });
    }

    fn print(&self) {
        println!("{:<56}{:>12} {:<12}{:>10}", "measure", "value", "unit", "goal");
        for row in &self.rows {
            let goal = match row.goal {
                None => String::new(),
                Some(Goal::AtMost(goal)) => format!("≤ {goal}{}", if row.value <= goal { "" } else { "  missed" }),
                Some(Goal::AtLeast(goal)) => format!("≥ {goal}{}", if row.value >= goal { "" } else { "  missed" }),
            };
            println!("{:<56}{:>12.3} {:<12}{:>10}", row.measure, row.value, row.unit, goal);
        }
    }

    fn json(&self) -> Value {
        self.rows
            .iter()
            .map(|row| {
                let (at_most, at_least) = match row.goal {
                    Some(Goal::AtMost(goal)) => (Some(goal), None),
                    Some(Goal::AtLeast(goal)) => (None, Some(goal)),
                    None => (None, None),
                };
                json!({
                    "measure": row.measure, "value": row.value, "unit": row.unit, "atMost": at_most, "atLeast": at_least,
                })
            })
            .collect()
    }
}
