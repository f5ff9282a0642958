//! One probe of one container, for as long as it is asked for.
//!
//! A check is made every period, and the next one never before the last one has ended. Right after a start of the daemon the first one waits for a random
//! part of the period, so that not all of them come at once. Each check:
//!
//! 1. The newest container of the name is looked for; without one there is nothing to say. The runtime is not asked again who it is as long as commands in it
//!    pass: nothing passes in a container that has ended.
//! 2. A container that has not run for the initial delay, a second at least, is left alone. One that has not started yet, too.
//! 3. The check is made. Before a failure counts, the container is looked at again: one that was restarted meanwhile has not failed.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::Probe;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kruise_api::nodepodprobe::ContainerProbeState;
use kruise_api::shared::probing::ProbeState;
use kruise_cri::wire::{ContainerState, ContainerStatus};
use kruise_cri::{Error, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::course::{Check, Course};
use super::handler;
use super::report::ProbeKey;
use crate::containers;

/// What is found is told again after this, even if it is the same.
const REFRESH: Duration = Duration::from_mins(10);

/// What is to be probed, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Asked {
    pub(super) container: String,
    /// The Pod's; empty when it is not known.
    pub(super) address: String,
    pub(super) probe: Probe,
}

impl Asked {
    fn period(&self) -> Duration {
        seconds(self.probe.period_seconds)
    }

    /// Whether what was found for this one says nothing about the other.
    fn is_another(&self, other: &Self) -> bool {
        let handler = |asked: &Self| {
            let probe = asked.probe.clone();
            (probe.exec, probe.http_get, probe.tcp_socket, probe.grpc)
        };
        self.container != other.container || self.address != other.address || handler(self) != handler(other)
    }
}

/// Seconds, one at least.
fn seconds(given: Option<i32>) -> Duration {
    Duration::from_secs(u64::try_from(given.unwrap_or_default()).unwrap_or(0).max(1))
}

/// What a worker found.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    /// Which worker.
    pub(super) worker: u64,
    pub(super) state: ProbeState,
    pub(super) message: String,
}

pub(super) struct Worker {
    pub(super) key: ProbeKey,
    pub(super) number: u64,
    pub(super) runtime: Runtime,
    pub(super) asked: watch::Receiver<Asked>,
    pub(super) findings: mpsc::UnboundedSender<(ProbeKey, Finding)>,
    pub(super) daemon_started: Instant,
}

/// A running container.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    id: String,
    started_at: Timestamp,
}

/// What a worker knows.
struct Memory {
    course: Course,
    /// The container that was running when the runtime was asked last.
    seen: Option<Seen>,
    /// What was told last, and when.
    reported: Option<(ProbeState, String, Instant)>,
}

impl Worker {
    /// Works until nobody asks any more. `reported` is what an earlier daemon found.
    pub(super) async fn run(mut self, reported: Option<ContainerProbeState>) {
        let mut asked = self.asked.borrow_and_update().clone();
        let mut memory = Memory {
            course: reported.as_ref().map(Course::restored).unwrap_or_default(),
            seen: None,
            reported: reported.map(|reported| (reported.state, reported.message, Instant::now())),
        };
        let mut next = Instant::now();
        if self.daemon_started.elapsed() < asked.period() {
            next += asked.period().mul_f64(fastrand::f64());
        }
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                changed = self.asked.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let new = self.asked.borrow_and_update().clone();
                    if new.is_another(&asked) {
                        memory.course.begin_anew();
                        memory.seen = None;
                        self.report(&mut memory);
                        next = Instant::now();
                    } else {
                        next = next.min(Instant::now() + new.period());
                    }
                    asked = new;
                    continue;
                }
            }
            let begun = Instant::now();
            // Not even a mistake of ours ends the other probes.
            let round = AssertUnwindSafe(self.round(&asked, &mut memory)).catch_unwind();
            match round.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::debug!(
                        pod = self.key.pod,
                        probe = self.key.probe,
                        "cannot look at containers: {error}"
                    );
                }
                Err(_) => tracing::error!(
                    pod = self.key.pod,
                    probe = self.key.probe,
                    "a check failed within the daemon"
                ),
            }
            if memory.seen.is_some() || memory.reported.is_some() || memory.course.state() != ProbeState::Unknown {
                self.report(&mut memory);
            }
            next = (begun + asked.period()).max(Instant::now());
        }
    }

    async fn round(&self, asked: &Asked, memory: &mut Memory) -> Result<(), Error> {
        let Some(seen) = self.container(asked, memory).await? else {
            return Ok(());
        };
        let runs_for = Timestamp::now().duration_since(seen.started_at);
        let delay = seconds(asked.probe.initial_delay_seconds);
        if runs_for < SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX) {
            return Ok(());
        }
        let check = handler::check(&self.runtime, &seen.id, &asked.address, &asked.probe).await;
        if !matches!(check, Check::Passed(_)) && self.look(asked, memory).await?.as_ref() != Some(&seen) {
            return Ok(());
        }
        if let Check::Impossible(why) = &check {
            tracing::warn!(
                pod = self.key.pod,
                probe = self.key.probe,
                "no check is possible: {why}"
            );
        }
        memory.course.push(check, &asked.probe);
        Ok(())
    }

    /// The container to check, if it runs.
    async fn container(&self, asked: &Asked, memory: &mut Memory) -> Result<Option<Seen>, Error> {
        if let Some(seen) = &memory.seen {
            if asked.probe.exec.is_some() {
                return Ok(Some(seen.clone()));
            }
            let still = self.runtime.container(&seen.id).await;
            if still.is_ok_and(|still| still.state() == ContainerState::ContainerRunning) {
                return Ok(Some(seen.clone()));
            }
        }
        self.look(asked, memory).await
    }

    /// Asks the runtime which container it is, and notes what that means.
    async fn look(&self, asked: &Asked, memory: &mut Memory) -> Result<Option<Seen>, Error> {
        let mut newest = containers::newest_of(&self.runtime, &self.key.pod).await?;
        memory.seen = None;
        let Some(status) = newest.remove(&asked.container) else {
            return Ok(None);
        };
        let seen = Seen {
            started_at: containers::started_at(&status),
            id: status.id.clone(),
        };
        memory.course.sees(&seen.id, begins(&status));
        match status.state() {
            ContainerState::ContainerRunning => {
                memory.seen = Some(seen.clone());
                return Ok(Some(seen));
            }
            ContainerState::ContainerExited | ContainerState::ContainerUnknown => {
                memory.course.does_not_run(&asked.container);
            }
            ContainerState::ContainerCreated => {}
        }
        Ok(None)
    }

    /// Tells what is known, if it is new or was told long ago.
    fn report(&self, memory: &mut Memory) {
        let (state, message) = (memory.course.state(), memory.course.message());
        let is_reported = memory
            .reported
            .as_ref()
            .is_some_and(|(was, text, when)| *was == state && text == message && when.elapsed() < REFRESH);
        if is_reported {
            return;
        }
        let finding = Finding {
            worker: self.number,
            state: state.clone(),
            message: message.to_owned(),
        };
        // Without a receiver the daemon is ending.
        let _ = self.findings.send((self.key.clone(), finding));
        memory.reported = Some((state, message.to_owned(), Instant::now()));
    }
}

/// When a container began: to run, or to be.
fn begins(status: &ContainerStatus) -> Timestamp {
    let nanoseconds = status.started_at.max(status.created_at);
    Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}
