//! What a run of the benchmark found: figures for each subject that was measured, the goals they are held against, and curves.
//!
//! A figure that was not measured is not there. Of several rounds the median is told.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Who did the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Subject {
    /// The manager of this repository.
    Ours,
    /// Another manager that serves the same API, with its client limits raised.
    Peer,
    /// The same one with the client limits that it has by itself.
    #[serde(rename = "peer by default")]
    PeerByDefault,
    /// A client that makes the same writes and decides nothing.
    Bare,
}

impl Subject {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Peer => "peer",
            Self::PeerByDefault => "peer by default",
            Self::Bare => "bare",
        }
    }
}

/// Everything the report tells.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Score {
    pub(super) machine: Machine,
    pub(super) chapters: Vec<Chapter>,
}

/// Where and of what the figures were taken.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Machine {
    pub(super) processor: String,
    pub(super) cores: usize,
    pub(super) memory: String,
    pub(super) system: String,
    pub(super) kubernetes: String,
    pub(super) etcd: String,
}

/// What one scenario found.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chapter {
    /// The scenario's name on the command line.
    pub(super) scenario: String,
    /// Of which commit it was taken.
    pub(super) commit: String,
    /// When, in UTC.
    pub(super) begun: String,
    pub(super) rows: Vec<Row>,
    pub(super) curves: Vec<Curve>,
}

/// One measure, in the order in which it was first taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) measure: String,
    pub(super) unit: String,
    /// A value for each round.
    pub(super) values: BTreeMap<Subject, Vec<f64>>,
    /// What ours is held against.
    pub(super) goal: Option<Goal>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

/// Points that belong into one plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Curve {
    pub(super) plot: Plot,
    pub(super) subject: Subject,
    /// What tells it from other curves of the same subject; empty if nothing does.
    pub(super) label: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// The plots of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Plot {
    /// Resident memory (MB) over the number of Pods in the cluster.
    Memory,
    /// Answers per second over the number of connections.
    Throughput,
    /// Time of an answer (ms) over the share of requests that were answered within it (percent).
    Latency,
}

impl Score {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read the score {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no score of `cargo xtask bench`", path.display()))
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        fs::write(path, format!("{}\n", serde_json::to_string_pretty(self)?))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Goal {
    pub(super) fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtMost(goal) => value <= goal,
            Self::AtLeast(goal) => value >= goal,
        }
    }

    /// As it stands in tables: `≤ 20`.
    pub(super) fn text(self) -> String {
        match self {
            Self::AtMost(goal) => format!("≤ {goal}"),
            Self::AtLeast(goal) => format!("≥ {goal}"),
        }
    }
}

/// What is told of several rounds.
pub(super) fn median(rounds: &[f64]) -> Option<f64> {
    let mut rounds = rounds.to_vec();
    rounds.sort_by(f64::total_cmp);
    let middle = rounds.len() / 2;
    match rounds.len() {
        0 => None,
        count if count % 2 == 1 => Some(rounds[middle]),
        _ => Some(f64::midpoint(rounds[middle - 1], rounds[middle])),
    }
}

impl Row {
    /// The median of the rounds of a subject.
    pub(super) fn value(&self, subject: Subject) -> Option<f64> {
        median(self.values.get(&subject)?)
    }

    /// How many times ours another subject's figure is.
    pub(super) fn ratio(&self, subject: Subject) -> Option<f64> {
        let ours = self.value(Subject::Ours)?;
        (ours != 0.0).then_some(self.value(subject)? / ours)
    }

    /// Whether ours is where it should be; `None` without a goal or without a figure.
    pub(super) fn met(&self) -> Option<bool> {
        Some(self.goal?.is_met_by(self.value(Subject::Ours)?))
    }
}

impl Chapter {
    pub(super) fn new(scenario: &str) -> Self {
        Self {
            scenario: scenario.to_owned(),
            ..Self::default()
        }
    }

    /// Notes a figure of ours without a goal.
    pub(super) fn add(&mut self, measure: impl Into<String>, value: f64, unit: &str) {
        self.note(Subject::Ours, measure, value, unit, None);
    }

    /// Notes a figure of ours that has to stay below its goal.
    pub(super) fn at_most(&mut self, measure: impl Into<String>, value: f64, unit: &str, goal: f64) {
        self.note(Subject::Ours, measure, value, unit, Some(Goal::AtMost(goal)));
    }

    /// Notes a figure of ours that has to reach its goal.
    pub(super) fn at_least(&mut self, measure: impl Into<String>, value: f64, unit: &str, goal: f64) {
        self.note(Subject::Ours, measure, value, unit, Some(Goal::AtLeast(goal)));
    }

    /// Notes a figure of a subject, as one more round if there is one already.
    pub(super) fn note(
        &mut self,
        subject: Subject,
        measure: impl Into<String>,
        value: f64,
        unit: &str,
        goal: Option<Goal>,
    ) {
        let measure = measure.into();
        let place = self.rows.iter().position(|row| row.measure == measure);
        let place = place.unwrap_or_else(|| {
            self.rows.push(Row {
                measure,
                unit: unit.to_owned(),
                values: BTreeMap::new(),
                goal: None,
            });
            self.rows.len() - 1
        });
        let row = &mut self.rows[place];
        row.values.entry(subject).or_default().push(value);
        row.goal = row.goal.or(goal);
    }

    /// Who was measured.
    pub(super) fn subjects(&self) -> Vec<Subject> {
        let mut all: Vec<Subject> = self.rows.iter().flat_map(|row| row.values.keys().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// A table for terminals.
    pub(super) fn print(&self) {
        let others: Vec<Subject> = self
            .subjects()
            .into_iter()
            .filter(|subject| *subject != Subject::Ours)
            .collect();
        print!("{:<56}{:>12}", self.scenario, "ours");
        for other in &others {
            print!("{:>17}{:>8}", other.name(), "ratio");
        }
        println!(" {:<12}{:>10}", "unit", "goal");
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
        for row in &self.rows {
            print!("{:<56}{:>12}", row.measure, number(row.value(Subject::Ours)));
            for other in &others {
                print!("{:>17}{:>8}", number(row.value(*other)), number(row.ratio(*other)));
            }
            let goal = row.goal.map(Goal::text).unwrap_or_default();
            let missed = if row.met() == Some(false) { "  missed" } else { "" };
            println!(" {:<12}{goal:>10}{missed}", row.unit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_give_their_median_and_ratios_compare_with_ours() {
        let mut chapter = Chapter::new("scale");
        for seconds in [4.0, 1.0, 2.0] {
            chapter.at_most("time", seconds, "s", 3.0);
        }
        for seconds in [9.0, 7.0] {
            chapter.note(Subject::Peer, "time", seconds, "s", None);
        }
        let [row] = &chapter.rows[..] else {
            panic!("one measure, {:?}", chapter.rows)
        };
        assert_eq!(row.value(Subject::Ours), Some(2.0));
        assert_eq!(row.value(Subject::Peer), Some(8.0));
        assert_eq!(row.ratio(Subject::Peer), Some(4.0));
        assert_eq!(row.met(), Some(true));
        assert_eq!(row.value(Subject::Bare), None, "nothing was measured");
        assert_eq!(row.ratio(Subject::Bare), None);
        assert_eq!(chapter.subjects(), [Subject::Ours, Subject::Peer]);
    }
}
