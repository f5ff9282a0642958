//! **planning**: how long the planner of CloneSet thinks about 5,000 Pods, as its own example tells.

use anyhow::{Context, Result};
use kruise_testkit::shell;

use super::score::Chapter;
use crate::product;

pub(super) fn run(chapter: &mut Chapter) -> Result<()> {
    let mut example = product::static_cargo("run", "release")?;
    let text = shell::run(example.args(["--quiet", "-p", "kruise-core", "--example", "plan_time", "--", "5000"]))?;
    for line in text.lines() {
        let (situation, time) = line.split_once(": ").with_context(|| format!("no figure in: {line}"))?;
        let time: f64 = time.trim_end_matches(" ms").parse()?;
        chapter.at_most(situation, time, "ms", 10.0);
    }
    Ok(())
}
