//! What the benchmark does when it cannot measure: it says so, fails, and tells no figure. And what it does with a peer that works.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use kruise_testkit::paths;
use kruise_testkit::process::{Processes, wait_until};
use rustix::process::Signal;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_mins(3);

/// A run of the benchmark with few Pods, of programs as they are built for tests.
struct Run {
    process: Child,
    folder: TempDir,
}

impl Run {
    fn start(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(folder.path().join(name)).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["bench", "--quick", "--unoptimised", "--pods", "20"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .unwrap();
        Self { process, folder }
    }

    fn text(&self) -> String {
        ["out", "err"]
            .map(|name| fs::read_to_string(self.folder.path().join(name)).unwrap())
            .join("\n")
    }

    /// Sends a signal to the API server that it has started last, once there is one and all is installed there.
    fn signal_api_server(&self, signal: Signal) -> bool {
        if !self.text().contains("✓ Installing") {
            return false;
        }
        let number = self
            .text()
            .matches("Starting a control plane")
            .count()
            .saturating_sub(1);
        let folder = paths::state().unwrap().join("tests");
        let folder = folder.join(format!("{}-{number}", self.process.id()));
        let Some(server) = Processes::below(&folder).unwrap().running("apiserver") else {
            return false;
        };
        server.signal(signal);
        true
    }

    fn ends(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until(PATIENCE, || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap_or_else(|| panic!("still runs:\n{}", self.text()))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn given_a_peer_that_does_not_start_then_the_run_says_so() {
    let mut run = Run::start(&["idle", "--peer", "/bin/false"]);
    assert_eq!(run.ends().code(), Some(1));
    let text = run.text();
    assert!(text.contains("peer does not start"), "{text}");
    assert!(!text.contains("% of a core"), "no figures of half a comparison: {text}");
}

#[test]
fn given_no_peer_at_all_then_nothing_is_started() {
    let mut run = Run::start(&["idle", "--peer", "/nowhere/manager"]);
    assert_eq!(run.ends().code(), Some(1));
    assert!(
        run.text().contains("there is no program /nowhere/manager"),
        "{}",
        run.text()
    );
}

#[test]
fn given_an_api_server_that_dies_then_the_run_says_so() {
    given_an_api_server_that_gets(Signal::KILL);
}

#[test]
fn given_an_api_server_that_does_not_answer_then_the_run_says_so() {
    given_an_api_server_that_gets(Signal::STOP);
}

fn given_an_api_server_that_gets(signal: Signal) {
    let mut run = Run::start(&["idle"]);
    let sent = wait_until(PATIENCE, || run.signal_api_server(signal));
    assert!(sent, "{}", run.text());
    assert_eq!(run.ends().code(), Some(1));
    let text = run.text();
    assert!(text.contains("the scenario idle gave no figures"), "{text}");
    assert!(!text.contains("% of a core"), "{text}");
}

#[test]
fn given_a_peer_then_both_do_the_same_work_and_are_compared() {
    let manager = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("kruise-manager");
    let mut run = Run::start(&["scale", "--peer", manager.to_str().unwrap(), "--bare"]);
    run.ends();
    let text = run.text();
    let line = text
        .lines()
        .find(|line| line.starts_with("one set: writes per Pod, out"));
    // Value and ratio of the peer, which is ours here.
    let figures: Vec<f64> = line
        .unwrap_or_else(|| panic!("{text}"))
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [ours, peer, ratio, ..] = figures[..] else {
        panic!("{text}")
    };
    assert!((peer / ours - ratio).abs() < 0.01, "{text}");
    assert!(
        (0.4..2.5).contains(&ratio),
        "the same program makes about as many writes: {text}"
    );
}
