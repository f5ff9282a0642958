//! The report: what the benchmark found as a page for browsers and as Markdown.
//!
//! The page is one file. It loads nothing and runs nothing, follows the reader's choice of light or dark, and is as readable on a
//! phone as on a desk. The same score always gives the same bytes. Whether a goal is met is said in words and not by colour alone.

mod axis;
mod chart;
mod figure;
mod html;
mod markdown;
mod text;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::score::{Chapter, Goal, Machine, Row, Score, Subject};

pub(super) use html::html;
pub(super) use markdown::markdown;

const TITLE: &str = "kruise-rs benchmark";
const HOW_TO_READ: &str =
    "Of several rounds the median is told. A factor such as 4.1× compares a figure with ours. A dash: not measured.";

/// Reads a score and writes it as `report.html` and `report.md` into a folder.
pub(super) fn write(from: &Path, out: &Path) -> Result<()> {
    let score = Score::read(from)?;
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    for (name, content) in [("report.html", html(&score)?), ("report.md", markdown(&score))] {
        let file = out.join(name);
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
        println!("{}", file.display());
    }
    Ok(())
}

/// What a scenario measures, in a sentence.
fn sentence(scenario: &str) -> Option<&'static str> {
    Some(match scenario {
        "start" => "From the start of the process to its first work, and its memory, in clusters of growing size.",
        "statefulset" => {
            "One StatefulSet from nothing to many Pods, updated in place, and back; and how long its planner thinks."
        }
        "daemonset" => {
            "One DaemonSet over many nodes, updated in place; and what nodes cost that only say that they are alive."
        }
        "planning" => "How long the planner of CloneSet thinks about many Pods.",
        "scale" => {
            "One CloneSet from nothing to many Pods and back, and many small ones at once: how soon, and at what cost."
        }
        "rollout" => {
            "A new image for many Pods, in place and by new Pods: how soon, with how many requests, at what cost."
        }
        "idle" => "Many Pods and sets, and nothing happens: memory, CPU and requests.",
        "churn" => "Pods whose status changes all the time: whether the manager keeps up, and at what cost.",
        "look" => "People who look: 50 readers of the live page while Pods change, and scrapes of the state metrics.",
        "admission" => {
            "Questions about Pods straight at the webhook, on more and more connections: how soon and how many are answered."
        }
        "failover" => "The leader goes in the middle of a rollout: how long until the other manager does its work.",
        "jobs" => "A Pod on each of many nodes, and many schedules for the same minute: how soon, and at what cost.",
        "protection" => {
            "Deletions and evictions of Pods among many budgets, and of a namespace with many Pods: how many a second, and at what cost."
        }
        "daemon" => {
            "The node daemon: images beside direct pulls, how soon containers are stopped, an idle daemon, a pull job over many nodes."
        }
        "platform" => {
            "The manager by itself: sizes of the programs, memory per cached Pod, start, idling, webhooks, fail-over."
        }
        "cloneset" => {
            "One large CloneSet is scaled out, updated in place and scaled in, beside a bare client that makes the same writes."
        }
        _ => return None,
    })
}

fn explanation(subject: Subject) -> &'static str {
    match subject {
        Subject::Ours => "the manager of this repository",
        Subject::Peer => "another manager that serves the same API, with its client limits raised",
        Subject::PeerByDefault => "the same other manager with the client limits that it has by itself",
        Subject::Bare => "a client that makes the same writes and decides nothing",
    }
}

/// How a figure of ours stands against its goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Met,
    Missed,
    Unmeasured,
}

impl Verdict {
    /// `None` where there is no goal.
    fn of(row: &Row) -> Option<Self> {
        row.goal?;
        Some(match row.met() {
            Some(true) => Self::Met,
            Some(false) => Self::Missed,
            None => Self::Unmeasured,
        })
    }

    fn words(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::Unmeasured => "not measured",
        }
    }
}

/// How many goals stand how.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    met: usize,
    missed: usize,
    unmeasured: usize,
}

impl Tally {
    fn of(chapters: &[Chapter]) -> Self {
        let mut tally = Self::default();
        for verdict in chapters
            .iter()
            .flat_map(|chapter| &chapter.rows)
            .filter_map(Verdict::of)
        {
            match verdict {
                Verdict::Met => tally.met += 1,
                Verdict::Missed => tally.missed += 1,
                Verdict::Unmeasured => tally.unmeasured += 1,
            }
        }
        tally
    }

    fn words(self) -> String {
        let all = self.met + self.missed + self.unmeasured;
        if all == 0 {
            return "No goals are set.".to_owned();
        }
        let mut words = format!("{} of {all} goals met, {} missed", self.met, self.missed);
        if self.unmeasured > 0 {
            words.push_str(&format!(", {} not measured", self.unmeasured));
        }
        words.push('.');
        words
    }
}

/// How the goals stand, and that some are open where there is nobody to compare with.
fn summary(score: &Score) -> String {
    let mut words = Tally::of(&score.chapters).words();
    if !score.chapters.is_empty() && !subjects(score).contains(&Subject::Peer) {
        words.push_str(" No other manager took part: the goals that compare ours with one are open.");
    }
    words
}

/// `≤ 20`.
fn goal_text(goal: Goal) -> String {
    match goal {
        Goal::AtMost(goal) => format!("≤ {}", text::number(goal)),
        Goal::AtLeast(goal) => format!("≥ {}", text::number(goal)),
    }
}

/// What is known of the machine, by name.
fn facts(machine: &Machine) -> Vec<(&'static str, String)> {
    let cores = match machine.cores {
        0 => String::new(),
        cores => cores.to_string(),
    };
    let mut facts = vec![
        ("processor", machine.processor.clone()),
        ("cores", cores),
        ("memory", machine.memory.clone()),
        ("system", machine.system.clone()),
        ("Kubernetes", machine.kubernetes.clone()),
        ("etcd", machine.etcd.clone()),
    ];
    facts.retain(|(_, fact)| !fact.trim().is_empty());
    facts
}

/// Everybody who was measured anywhere, in tables or curves.
fn subjects(score: &Score) -> Vec<Subject> {
    let curves = score.chapters.iter().flat_map(|chapter| &chapter.curves);
    let mut all: Vec<Subject> = score.chapters.iter().flat_map(Chapter::subjects).collect();
    all.extend(curves.map(|curve| curve.subject));
    all.sort_unstable();
    all.dedup();
    all
}

/// Those of a chapter that ours is compared with.
fn others(chapter: &Chapter) -> Vec<Subject> {
    let mut others = chapter.subjects();
    others.retain(|subject| *subject != Subject::Ours);
    others
}

/// A commit is known by its first digits; what follows them, such as `-dirty`, stays.
fn short_commit(commit: &str) -> String {
    match commit.split_at_checked(40) {
        Some((hash, rest)) if hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => format!("{}{rest}", &hash[..12]),
        _ => commit.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::score::{Curve, Plot};

    fn score() -> Score {
        let mut chapter = Chapter::new("scale");
        chapter.commit = "0123456789abcdef0123456789abcdef01234567".to_owned();
        chapter.begun = "2026-01-02 03:04 UTC".to_owned();
        chapter.at_most("time <&> \"more\" | much", 4.0, "s", 3.0);
        chapter.note(Subject::Peer, "time <&> \"more\" | much", 16.4, "s", None);
        chapter.at_least("share", 0.9, "", 0.8);
        chapter.note(
            Subject::Peer,
            "only theirs",
            12345.6,
            "MB",
            Some(Goal::AtMost(20_000.0)),
        );
        chapter.curves = vec![Curve {
            plot: Plot::Memory,
            subject: Subject::Ours,
            label: "a<b".to_owned(),
            points: vec![(0.0, 16.0), (10_000.0, 25.0)],
        }];
        Score {
            machine: Machine {
                processor: "Some <Processor>".to_owned(),
                cores: 2,
                ..Machine::default()
            },
            chapters: vec![chapter],
        }
    }

    #[test]
    fn the_page_tells_figures_ratios_goals_and_verdicts_and_holds_no_foreign_markup() {
        let page = html(&score()).unwrap();
        for wanted in [
            "1 of 3 goals met, 1 missed, 1 not measured.",
            "time &lt;&amp;&gt; &quot;more&quot; | much",
            "Some &lt;Processor&gt;",
            "16.4",
            "4.10×",
            "≤ 3",
            "missed",
            "0123456789ab<",
            "2026-01-02 03:04 UTC",
            sentence("scale").unwrap(),
            "a&lt;b",
        ] {
            assert!(page.contains(wanted), "{wanted} is not in\n{page}");
        }
        for unwanted in ["<&>", "a<b", "<Processor>", "<script", "http://", "https://", "etcd"] {
            assert!(!page.contains(unwanted), "{unwanted} is in\n{page}");
        }
        assert_eq!(html(&score()).unwrap(), page, "the same score gives the same page");
    }

    #[test]
    fn markdown_tells_the_same() {
        let text = markdown(&score());
        for wanted in [
            "1 of 3 goals met, 1 missed, 1 not measured.",
            "| time &lt;&amp;&gt; \"more\" \\| much | s | 4 | 16.4 (4.10×) | ≤ 3 | **missed** |",
            "| share |  | 0.9 | – | ≥ 0.8 | met |",
            "| only theirs | MB | – | 12,346 | ≤ 20,000 | not measured |",
            "| 10,000 | 25 |",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
    }

    #[test]
    fn goals_that_need_another_manager_are_open_without_one() {
        let open = "goals that compare ours with one are open";
        assert!(!summary(&score()).contains(open), "a peer took part");
        let mut alone = Chapter::new("idle");
        alone.add("CPU", 0.1, "% of a core");
        let alone = Score {
            chapters: vec![alone],
            ..Score::default()
        };
        assert!(summary(&alone).contains(open), "{}", summary(&alone));
    }

    #[test]
    fn an_empty_score_gives_a_page_too() {
        let page = html(&Score::default()).unwrap();
        assert!(page.contains("No goals are set.") && !page.contains("<svg"), "{page}");
        assert!(markdown(&Score::default()).contains("No goals are set."));
    }

    #[test]
    fn a_missing_or_broken_score_is_named_with_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("score.json");
        let error = |from: &Path| format!("{:#}", write(from, folder.path()).unwrap_err());
        assert!(error(&from).contains("cannot read the score"), "{}", error(&from));
        fs::write(&from, "{\"machine\":").unwrap();
        assert!(error(&from).contains("is no score"), "{}", error(&from));
        assert!(!folder.path().join("report.html").exists());
    }
}
