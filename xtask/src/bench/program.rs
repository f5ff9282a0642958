//! A program of ours as a process of this machine, watched from outside.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kruise_testkit::process::wait_until;
use tempfile::TempDir;

use crate::loopback::get;

const REQUESTS: &str = "rest_client_requests_total";

/// A running program; it ends with this value.
pub(super) struct Program {
    process: Child,
    folder: TempDir,
    metrics_port: u16,
    pub(super) started: Instant,
}

impl Program {
    /// Starts a program that serves its metrics on `metrics_port`. It may write into `folder`, where its log is, too.
    pub(super) fn start(command: &mut Command, folder: TempDir, metrics_port: u16) -> Result<Self> {
        let log = fs::File::create(folder.path().join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let started = Instant::now();
        let process = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self {
            process,
            folder,
            metrics_port,
            started,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits for something it does, as long as it lives.
    pub(super) fn until(&mut self, what: &str, mut condition: impl FnMut() -> bool) -> Result<()> {
        let mut ended = None;
        let process = &mut self.process;
        let seen = wait_until(Duration::from_mins(1), || {
            ended = process.try_wait().ok().flatten();
            ended.is_some() || condition()
        });
        if !seen || ended.is_some() {
            bail!("the program is not {what} (ended: {ended:?}):\n{}", self.last_words());
        }
        Ok(())
    }

    /// Where its metrics are.
    pub(super) fn metrics(&self) -> Metrics {
        Metrics(self.metrics_port)
    }

    /// Requests that it has made, reads apart.
    pub(super) fn writes(&self) -> Result<f64> {
        self.metrics()
            .sum(REQUESTS, |labels| !labels.contains("method=\"GET\""))
    }

    /// Requests that it has made.
    pub(super) fn requests(&self) -> Result<f64> {
        self.metrics().sum(REQUESTS, |_| true)
    }

    /// The end of its log, if it does not run any more.
    pub(super) fn last_words_if_ended(&self) -> Option<String> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        let runs = stat
            .rsplit_once(") ")
            .is_some_and(|(_, state)| !state.starts_with(['Z', 'X']));
        (!runs).then(|| self.last_words())
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        kruise_testkit::shell::tail(&log, 30)
    }

    /// Resident memory, in bytes.
    pub(super) fn memory(&self) -> Result<f64> {
        self.status("VmRSS:")
    }

    /// The most it ever had.
    pub(super) fn peak_memory(&self) -> Result<f64> {
        self.status("VmHWM:")
    }

    fn status(&self, field: &str) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let kilobytes: f64 = status
            .lines()
            .find_map(|line| line.strip_prefix(field)?.trim().strip_suffix(" kB"))
            .with_context(|| format!("no {field}"))?
            .parse()?;
        Ok(kilobytes * 1024.0)
    }

    /// CPU time it has taken so far.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let mut nanoseconds = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let text = fs::read_to_string(thread?.path().join("schedstat"))?;
            nanoseconds += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Asks it to stop, as a kubelet does.
    pub(super) fn terminate(&self) -> Result<()> {
        kruise_testkit::shell::run(Command::new("kill").arg(self.pid().to_string())).map(drop)
    }
}

/// What a program counts about itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Metrics(u16);

impl Metrics {
    /// The sum of a metric over its labels that satisfy a condition. Metrics that cannot be read are not zero.
    pub(super) fn sum(self, name: &str, labels: impl Fn(&str) -> bool) -> Result<f64> {
        let all =
            get(&format!("http://127.0.0.1:{}/metrics", self.0)).context("the program's metrics cannot be read")?;
        Ok(all
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '))
            .filter(|(rest, _)| (rest.is_empty() || rest.starts_with('{')) && labels(rest))
            .filter_map(|(_, value)| value.parse::<f64>().ok())
            .sum())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
