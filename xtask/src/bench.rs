//! `cargo xtask bench`: what the product costs, measured on this machine.
//!
//! Each scenario prints a table; `--json` writes the same figures to a file. Figures belong here and never into a test, which
//! would fail on a slow machine.

mod load;
mod manager;
mod platform;

use std::fs;
use std::path::PathBuf;

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
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure.
    scenario: Scenario,
    /// Write the figures to this file, too.
    #[arg(long)]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let progress = Progress::shown();
    let report = match args.scenario {
        Scenario::Decode => {
            if args.json.is_some() {
                bail!("`decode` prints a table only");
            }
            return decode();
        }
        Scenario::Platform => platform::run(&progress)?,
    };
    report.print();
    if let Some(path) = &args.json {
        fs::write(path, format!("{:#}\n", report.json()))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn decode() -> Result<()> {
    let status = product::cargo()
        .args(["bench", "--locked", "-p", "kruise-api", "--bench", "decode"])
        .status()
        .context("cannot start cargo")?;
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
    goal: Option<f64>,
}

impl Report {
    fn add(&mut self, measure: impl Into<String>, value: f64, unit: &'static str) {
        self.row(measure.into(), value, unit, None);
    }

    /// A figure that has to stay below its goal.
    fn at_most(&mut self, measure: impl Into<String>, value: f64, unit: &'static str, goal: f64) {
        self.row(measure.into(), value, unit, Some(goal));
    }

    fn row(&mut self, measure: String, value: f64, unit: &'static str, goal: Option<f64>) {
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
            let goal = row.goal.map_or_else(String::new, |goal| {
                let met = if row.value <= goal { "" } else { "  missed" };
                format!("≤ {goal}{met}")
            });
            println!("{:<56}{:>12.3} {:<12}{:>10}", row.measure, row.value, row.unit, goal);
        }
    }

    fn json(&self) -> Value {
        self.rows
            .iter()
            .map(|row| json!({"measure": row.measure, "value": row.value, "unit": row.unit, "goal": row.goal}))
            .collect()
    }
}
