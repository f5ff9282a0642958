//! **planning**: how long the planner of CloneSet thinks about 5,000 Pods, as its own example tells.

use anyhow::{Context, Result};
use kruise_testkit::shell;

use super::score::Chapter;
use crate::product;

pub(super) fn run(chapter: &mut Chapter) -> Result<()> {
    time("plan_time", 5000, chapter)
}

/// Notes what an example says about a set of this size.
pub(super) fn time(example: &str, pods: usize, chapter: &mut Chapter) -> Result<()> {
    let mut command = product::static_cargo("run", "release")?;
    command.args(["--quiet", "-p", "kruise-core", "--example", example, "--"]);
    let text = shell::run(command.arg(pods.to_string()))?;
    for line in text.lines() {
        let (situation, time) = line.split_once(": ").with_context(|| format!("no figure in: {line}"))?;
        let time: f64 = time.trim_end_matches(" ms").parse()?;
        chapter.at_most(situation, time, "ms", 10.0);
    }
    Ok(())
}
