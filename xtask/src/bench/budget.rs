//! What must not get worse: ratios within one run, counts and memory. Never a time, which says more about the machine.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::score::{Chapter, Goal, Subject};

/// One promise.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Budget {
    scenario: String,
    measure: String,
    of: Quantity,
    #[serde(flatten)]
    goal: Goal,
    /// Only a run in full size can tell.
    #[serde(default)]
    full: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Quantity {
    /// The figure itself.
    Value,
    /// How many times ours the bare client's figure is. Of a time: the share of the bare client's speed.
    RatioToBare,
    /// How many times ours the peer's figure is.
    RatioToPeer,
}

pub(super) fn read(path: &Path) -> Result<Vec<Budget>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a list of budgets", path.display()))
}

/// Whether anything was promised of a scenario that a quick run without or with a peer can tell.
pub(super) fn has(budgets: &[Budget], scenario: &str, peer: bool) -> bool {
    budgets
        .iter()
        .any(|budget| budget.scenario == scenario && !budget.full && (peer || budget.of != Quantity::RatioToPeer))
}

/// Says how each budget was kept. A budget whose scenario was run and whose figure is not there is exceeded: nobody knows. Those that
/// compare with a peer or with the bare client count only if it was there, and those for a run in full size only in one.
pub(super) fn check(budgets: &[Budget], chapters: &[Chapter], quick: bool) -> Result<()> {
    let mut exceeded = Vec::new();
    for budget in budgets {
        let Some(chapter) = chapters.iter().find(|chapter| chapter.scenario == budget.scenario) else {
            continue;
        };
        let other = match budget.of {
            Quantity::Value => Subject::Ours,
            Quantity::RatioToBare => Subject::Bare,
            Quantity::RatioToPeer => Subject::Peer,
        };
        if budget.full && quick || !chapter.subjects().contains(&other) {
            continue;
        }
        let found = budget.found(chapter);
        let kept = found.is_some_and(|found| budget.goal.is_met_by(found));
        let text = format!(
            "{}: {}{} is {} ({})",
            budget.scenario,
            budget.measure,
            match budget.of {
                Quantity::Value => "",
                Quantity::RatioToBare => ", bare client to ours,",
                Quantity::RatioToPeer => ", peer to ours,",
            },
            found.map_or_else(|| "not measured".to_owned(), |found| format!("{found:.3}")),
            budget.goal.text(),
        );
        if kept {
            println!("kept: {text}");
        } else {
            exceeded.push(text);
        }
    }
    if !exceeded.is_empty() {
        bail!("exceeded budgets:\n{}", exceeded.join("\n"));
    }
    Ok(())
}

impl Budget {
    fn found(&self, chapter: &Chapter) -> Option<f64> {
        let row = chapter.rows.iter().find(|row| row.measure == self.measure)?;
        match self.of {
            Quantity::Value => row.value(Subject::Ours),
            Quantity::RatioToBare => row.ratio(Subject::Bare),
            Quantity::RatioToPeer => row.ratio(Subject::Peer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budgets(text: &str) -> Vec<Budget> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_is_worse_or_not_measured_is_exceeded() {
        let mut chapter = Chapter::new("scale");
        chapter.add("ready", 10.0, "s");
        chapter.note(Subject::Bare, "ready", 8.0, "s", None);
        let chapters = [chapter];
        let ratio = |goal: &str| {
            let text = format!(r#"[{{"scenario": "scale", "measure": "ready", "of": "ratioToBare", {goal}}}]"#);
            check(&budgets(&text), &chapters, true)
        };
        assert!(ratio(r#""atLeast": 0.7"#).is_ok());
        assert!(ratio(r#""atLeast": 0.9"#).is_err());
        assert!(ratio(r#""atMost": 0.7"#).is_err());
        let other = |scenario: &str, measure: &str, of: &str| {
            let text = format!(r#"[{{"scenario": "{scenario}", "measure": "{measure}", "of": "{of}", "atMost": 99}}]"#);
            check(&budgets(&text), &chapters, true)
        };
        assert!(other("scale", "ready", "value").is_ok());
        assert!(other("scale", "gone", "value").is_err(), "not measured");
        assert!(other("idle", "CPU", "value").is_ok(), "that scenario was not run");
        assert!(other("scale", "ready", "ratioToPeer").is_ok(), "no peer took part");
        let full = budgets(r#"[{"scenario": "scale", "measure": "gone", "of": "value", "atMost": 1, "full": true}]"#);
        assert!(check(&full, &chapters, true).is_ok(), "a quick run cannot tell");
        assert!(check(&full, &chapters, false).is_err());
    }

    #[test]
    fn the_committed_budgets_can_be_read() {
        assert!(!read(&crate::root().join("bench/budgets.json")).unwrap().is_empty());
    }
}
