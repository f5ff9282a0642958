//! The test binaries of the workspace: built together, each run with a deadline.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kruise_testkit::process::wait_until;
use kruise_testkit::progress::Step;
use kruise_testkit::{shell, torture};
use serde_json::Value;

use super::Level;
use super::times::Ends;
use crate::product;

/// Test targets with matrices of faults.
const FAULTS: &str = "faults";
/// What the names of test targets begin with whose tests share a manager.
const SCENARIOS: &str = "scenarios";

/// One test binary.
#[derive(Debug)]
pub(super) struct Binary {
    level: Level,
    package: String,
    target: String,
    program: PathBuf,
    folder: PathBuf,
}

/// What a binary said.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) output: String,
    pub(super) took: Duration,
    /// What each test took.
    pub(super) times: Vec<(String, Duration)>,
}

impl Outcome {
    /// The names of tests that failed.
    pub(super) fn failed_tests(&self) -> impl Iterator<Item = &str> {
        self.output.lines().filter(|line| line.ends_with(" ... FAILED"))
    }

    /// What each test that failed said, in short.
    pub(super) fn failures(&self) -> String {
        let text = self.output.split_once("\nfailures:\n").map_or("", |(_, text)| text);
        let text = text.split("\nfailures:\n").next().unwrap_or_default();
        let mut short = String::new();
        for test in text.split("\n---- ").skip(1) {
            let lines: Vec<&str> = test.lines().collect();
            let (start, end) = lines.split_at(lines.len().min(25));
            let end = &end[end.len().saturating_sub(25)..];
            short.push_str("---- ");
            for line in start.iter().chain(end) {
                // Objects in messages can be long.
                short.extend(line.chars().take(600));
                short.push('\n');
            }
        }
        if short.is_empty() {
            shell::tail(&self.output, 24)
        } else {
            short
        }
    }
}

impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.package, self.target)
    }
}

/// Builds all test binaries.
pub(super) fn build(step: &Step) -> Result<Vec<Binary>> {
    let mut child = product::cargo()
        .args([
            "test",
            "--locked",
            "--workspace",
            "--all-features",
            "--no-run",
            "--message-format=json-render-diagnostics",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let mut binaries = Vec::new();
    for (count, line) in BufReader::new(child.stdout.take().context("no standard output")?)
        .lines()
        .enumerate()
    {
        let message: Value = serde_json::from_str(&line?).unwrap_or_default();
        step.at(count as u64, 0, message["target"]["name"].as_str().unwrap_or_default());
        binaries.extend(Binary::of(&message));
    }
    if !child.wait()?.success() {
        bail!("the tests do not compile");
    }
    binaries.sort_by_key(|binary| (binary.level, binary.package.clone(), binary.target.clone()));
    Ok(binaries)
}

impl Binary {
    fn of(message: &Value) -> Option<Self> {
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return None;
        }
        let target = message["target"]["name"].as_str()?.to_owned();
        let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
        Some(Self {
            level: match target.as_str() {
                "browser" | "cluster" | FAULTS => Level::Cluster,
                "node" => Level::Node,
                other if other.starts_with(SCENARIOS) => Level::Cluster,
                _ => Level::Unit,
            },
            package: folder.file_name()?.to_str()?.to_owned(),
            target,
            program: message["executable"].as_str()?.into(),
            folder,
        })
    }

    /// Whether a level runs it.
    pub(super) fn is_of(&self, level: Level) -> bool {
        self.level == level || (level == Level::Torture && self.target == FAULTS)
    }

    /// Whether it uses nothing that other binaries of its level share.
    pub(super) fn has_clusters_of_its_own(&self) -> bool {
        self.level == Level::Node && self.package == "xtask"
    }

    /// How many of its tests run at the same time.
    fn threads(&self) -> usize {
        if self.target.starts_with(SCENARIOS) {
            return 12;
        }
        match self.level {
            // They mostly wait for kubelets.
            Level::Node => 24,
            // They would wait for each other, and nobody could tell how long each takes.
            _ if self.target == FAULTS => 1,
            _ => available_parallelism().map_or(2, std::num::NonZero::get),
        }
    }

    /// Runs to the end or to the deadline. A binary that hangs, dies, switches tests off or has none has failed.
    pub(super) fn run(&self, filter: Option<&str>, environment: &[(String, String)]) -> Outcome {
        let began = Instant::now();
        let mut outcome = self.try_run(filter, environment).unwrap_or_else(|error| Outcome {
            passed: 0,
            failed: 1,
            output: format!("{self}: {error:#}"),
            took: Duration::ZERO,
            times: Vec::new(),
        });
        outcome.took = began.elapsed();
        outcome
    }

    fn try_run(&self, filter: Option<&str>, environment: &[(String, String)]) -> Result<Outcome> {
        let log = tempfile::NamedTempFile::new()?;
        let out = File::create(log.path())?;
        let mut command = Command::new(&self.program);
        // Some tests call cargo.
        product::as_by_hand(&mut command);
        let deadline = self.deadline(environment);
        let began = Instant::now();
        let mut child = command
            .args(filter)
            .args(["--test-threads", &self.threads().to_string()])
            .envs(environment.iter().map(|(name, value)| (name, value)))
            // Where a test failed is in its message; a trace through the runtime only hides that.
            .env("RUST_BACKTRACE", "0")
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()?;
        let mut ends = Ends::default();
        let ended = wait_until(deadline, || {
            let ended = !matches!(child.try_wait(), Ok(None));
            ends.look(&std::fs::read(log.path()).unwrap_or_default(), began.elapsed());
            ended
        });
        if !ended {
            child.kill()?;
        }
        let status = child.wait()?;
        let output = String::from_utf8_lossy(&std::fs::read(log.path())?).into_owned();
        if !ended {
            bail!(
                "hung for {deadline:?} and was ended; its last words:\n{}",
                shell::tail(&output, 60)
            );
        }
        let (passed, failed) = judge(&output, filter)?;
        if !status.success() && failed == 0 {
            bail!("ended with {status}:\n{}", shell::tail(&output, 60));
        }
        Ok(Outcome {
            passed,
            failed,
            output,
            took: began.elapsed(),
            times: ends.times(self.threads()),
        })
    }

    /// Every case of a matrix takes longer than a sample of them.
    fn deadline(&self, environment: &[(String, String)]) -> Duration {
        let torture = environment.iter().any(|(name, _)| name == torture::TORTURE);
        if torture { Level::Torture } else { self.level }.deadline()
    }
}

/// How many tests passed and failed. None at all is right only where not all were asked for.
fn judge(output: &str, filter: Option<&str>) -> Result<(usize, usize)> {
    let (passed, failed, ignored) = totals(output);
    if ignored > 0 {
        bail!("{ignored} tests are switched off; a test is run or removed");
    }
    if passed + failed == 0 && filter.is_none() {
        bail!(
            "has no tests: write some, or say `test = false` for the target in Cargo.toml; it said:\n{}",
            shell::tail(output, 60)
        );
    }
    Ok((passed, failed))
}

/// Adds up lines such as `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn totals(output: &str) -> (usize, usize, usize) {
    let count = |word: &str| {
        output
            .lines()
            .filter_map(|line| line.strip_prefix("test result: "))
            .flat_map(|line| line.split([';', '.']))
            .filter_map(|part| part.trim().strip_suffix(word)?.trim().parse::<usize>().ok())
            .sum()
    };
    (count("passed"), count("failed"), count("ignored"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let output = "running 2 tests\ntest result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
                      test result: ok. 10 passed; 0 failed; 0 ignored; 0 measured";
        assert_eq!(totals(output), (13, 1, 2));
        assert_eq!(totals(""), (0, 0, 0));
    }

    #[test]
    fn given_a_binary_without_tests_then_it_fails_unless_not_all_were_asked_for() {
        let none = "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        let error = judge(none, None).unwrap_err().to_string();
        assert!(error.contains("has no tests"), "{error}");
        assert_eq!(judge(none, Some("some_name")).unwrap(), (0, 0));
        assert_eq!(
            judge("test result: ok. 1 passed; 0 failed; 0 ignored", None).unwrap(),
            (1, 0)
        );
        let off = judge("test result: ok. 1 passed; 0 failed; 1 ignored", None);
        assert!(off.unwrap_err().to_string().contains("switched off"));
    }

    #[test]
    fn what_failed_is_told_in_short() {
        let long: String = (0..100).map(|line| format!("line {line}\n")).collect();
        let output = format!(
            "running 3 tests\ntest b ... FAILED\n\nfailures:\n\n---- a stdout ----\n{long}\n---- b stdout ----\nno Pod\n\n\
             failures:\n    a\n    b\n\ntest result: FAILED. 1 passed; 2 failed"
        );
        let short = |output: &str| {
            Outcome {
                passed: 1,
                failed: 2,
                output: output.to_owned(),
                took: Duration::ZERO,
                times: Vec::new(),
            }
            .failures()
        };
        let shown = short(&output);
        assert!(shown.starts_with("---- a stdout ----\nline 0\n"), "{shown}");
        assert!(shown.contains("line 99\n") && !shown.contains("line 50\n"), "{shown}");
        assert!(shown.contains("---- b stdout ----\nno Pod\n"), "{shown}");
        assert_eq!(short("ended by a signal"), "ended by a signal");
    }
}
