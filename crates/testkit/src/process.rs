//! Processes that outlive the command that started them, and how they are found again.
//!
//! A record names the process by its id, its start time and the boot it belongs to. After a restart of the machine, or
//! when the id was given to somebody else, the record no longer matches and nothing is ended: only what we started.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// One process, told apart from any other that ever had its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub pid: u32,
    started: u64,
    boot: String,
}

impl Identity {
    /// Who has this process id right now.
    pub fn of(pid: u32) -> Option<Self> {
        let (state, started) = stat(pid)?;
        let ended = matches!(state, 'Z' | 'X') && !has_threads(pid);
        (!ended).then(|| Self {
            pid,
            started,
            boot: boot_id(),
        })
    }

    /// When the process started, in the kernel's ticks since boot.
    pub fn started(&self) -> u64 {
        self.started
    }

    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Asks the process to end, and ends it when it has not done so in time.
    pub fn stop(&self, patience: Duration) {
        self.signal(Signal::TERM);
        if !self.ends_within(patience) {
            self.signal(Signal::KILL);
            self.ends_within(Duration::from_secs(5));
        }
    }

    pub fn signal(&self, signal: Signal) {
        if self.is_alive()
            && let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw)
        {
            // A process that ended between the look and the signal is what we wanted anyway.
            let _ = kill_process(pid, signal);
        }
    }

    pub fn ends_within(&self, patience: Duration) -> bool {
        wait_until(patience, || !self.is_alive())
    }
}

/// A process that was killed can be a zombie while threads of it are still on their way out and hold its ports.
fn has_threads(pid: u32) -> bool {
    fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() > 1)
}

/// The processes of one cluster: a record and a log per part, in two folders.
#[derive(Debug, Clone)]
pub struct Processes {
    records: PathBuf,
    logs: PathBuf,
}

impl Processes {
    pub fn below(folder: &Path) -> Result<Self> {
        let (records, logs) = (folder.join("processes"), folder.join("logs"));
        for each in [&records, &logs] {
            fs::create_dir_all(each).with_context(|| format!("cannot create {}", each.display()))?;
        }
        Ok(Self { records, logs })
    }

    /// Starts a part in the background, unless it runs already.
    pub fn start(&self, part: &str, command: &mut Command) -> Result<Identity> {
        if let Some(running) = self.running(part) {
            return Ok(running);
        }
        let log = self.log(part);
        if log.exists() {
            fs::rename(&log, log.with_extension("previous.log"))?;
        }
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {part}: `{}`", crate::shell::line(command)))?;
        let Some(identity) = Identity::of(child.id()) else {
            bail!("{part} ended at once:\n{}", self.last_words(part));
        };
        fs::write(self.record(part), serde_json::to_vec(&identity)?)?;
        // The part outlives us; but when it ends before us, nothing of it shall be left.
        std::thread::spawn(move || child.wait());
        Ok(identity)
    }

    /// The process of a part, when it is alive.
    pub fn running(&self, part: &str) -> Option<Identity> {
        let identity: Identity = serde_json::from_slice(&fs::read(self.record(part)).ok()?).ok()?;
        identity.is_alive().then_some(identity)
    }

    /// Every part that was ever started and not forgotten, in name order.
    pub fn parts(&self) -> Vec<String> {
        let mut parts: Vec<String> = fs::read_dir(&self.records)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned()))
            .collect();
        parts.sort();
        parts
    }

    pub fn stop(&self, part: &str, patience: Duration) {
        if let Some(identity) = self.running(part) {
            identity.stop(patience);
        }
        let _ = fs::remove_file(self.record(part));
    }

    pub fn log(&self, part: &str) -> PathBuf {
        self.logs.join(format!("{part}.log"))
    }

    /// The end of a part's log, for an error message.
    pub fn last_words(&self, part: &str) -> String {
        let text = fs::read(self.log(part)).unwrap_or_default();
        crate::shell::tail(&String::from_utf8_lossy(&text), 15)
    }

    fn record(&self, part: &str) -> PathBuf {
        self.records.join(format!("{part}.json"))
    }
}

/// Looks again until the condition holds or patience ends; says which.
pub fn wait_until(patience: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// State letter and start time; the name in between may hold blanks and brackets.
fn stat(pid: u32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "exec sleep 60"]);
        command
    }

    #[test]
    fn given_a_started_part_when_stopped_then_it_is_gone_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let processes = Processes::below(folder.path()).unwrap();
        let first = processes.start("a", &mut sleeper()).unwrap();
        assert_eq!(
            processes.start("a", &mut sleeper()).unwrap(),
            first,
            "a running part is not started twice"
        );
        assert_eq!(processes.parts(), ["a"]);
        processes.stop("a", Duration::from_secs(5));
        assert!(!first.is_alive());
        assert!(processes.parts().is_empty());
    }

    #[test]
    fn given_a_record_of_another_boot_or_start_then_the_process_with_that_id_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let processes = Processes::below(folder.path()).unwrap();
        let mine = processes.start("a", &mut sleeper()).unwrap();
        for stale in [
            Identity {
                boot: "another".into(),
                ..mine.clone()
            },
            Identity {
                started: 1,
                ..mine.clone()
            },
        ] {
            fs::write(processes.record("a"), serde_json::to_vec(&stale).unwrap()).unwrap();
            assert_eq!(processes.running("a"), None);
            processes.stop("a", Duration::from_secs(1));
            assert!(mine.is_alive(), "a process we have no true record of must live on");
        }
        mine.stop(Duration::from_secs(5));
    }

    #[test]
    fn given_a_broken_record_then_the_part_counts_as_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let processes = Processes::below(folder.path()).unwrap();
        fs::write(processes.record("a"), b"{not json").unwrap();
        assert_eq!(processes.running("a"), None);
        processes.stop("a", Duration::from_secs(1));
        assert!(processes.parts().is_empty());
    }
}
