//! How the process ends.
//!
//! - SIGTERM or SIGINT asks every task to end; the process waits for them, at most the grace it was given, and exits with 0.
//! - A second signal exits at once with 1: whoever sends it has waited long enough.
//! - A task that ends on its own, fails or panics takes the others down in the same orderly way, and the process exits with 1:
//!   a restart by the kubelet is better than half a process.

use futures::{Stream, StreamExt as _, stream};
use std::{collections::HashMap, fmt::Display, future::Future, io, pin::pin, time::Duration};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::{Id, JoinError, JoinSet},
    time::timeout,
};
use tracing::{debug, error, info, warn};

pub use tokio_util::sync::CancellationToken;

/// Cancels the returned token on the first signal and ends the process on the second.
/// Must be called inside the runtime.
pub fn on_signals() -> io::Result<CancellationToken> {
    let signals = stream::select(
        each(signal(SignalKind::terminate())?, "SIGTERM"),
        each(signal(SignalKind::interrupt())?, "SIGINT"),
    );
    let stop = CancellationToken::new();
    tokio::spawn(obey(signals, stop.clone(), || std::process::exit(1)));
    Ok(stop)
}

fn each(signal: Signal, name: &'static str) -> impl Stream<Item = &'static str> {
    stream::unfold(signal, move |mut signal| async move {
        signal.recv().await.map(|()| (name, signal))
    })
}

async fn obey(signals: impl Stream<Item = &'static str>, stop: CancellationToken, exit: impl FnOnce()) {
    let mut signals = pin!(signals);
    if let Some(name) = signals.next().await {
        info!("{name} received, stopping");
        stop.cancel();
    }
    if let Some(name) = signals.next().await {
        warn!("{name} received while stopping, exiting at once");
        exit();
    }
}

/// Why a set of tasks did not end well.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    #[error("{task} failed: {reason}")]
    Failed { task: &'static str, reason: String },
    #[error("{task} ended although nobody asked it to")]
    Ended { task: &'static str },
    #[error("{tasks} did not stop within {grace:?}")]
    Stuck { tasks: String, grace: Duration },
}

/// The tasks of a process: each has a name, and none ends unseen.
#[derive(Debug)]
pub struct Tasks {
    stop: CancellationToken,
    running: JoinSet<Result<(), String>>,
    names: HashMap<Id, &'static str>,
}

impl Tasks {
    /// Tasks that are to end when `stop` is cancelled. They have to watch the token themselves.
    pub fn new(stop: CancellationToken) -> Self {
        Self {
            stop,
            running: JoinSet::new(),
            names: HashMap::new(),
        }
    }

    /// Returns the token that says when to end.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Starts a task.
    pub fn spawn<E: Display>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let handle = self
            .running
            .spawn(async move { task.await.map_err(|error| error.to_string()) });
        self.names.insert(handle.id(), name);
    }

    /// Waits until a stop is asked for or a task ends on its own; then stops the others and waits for them up to `grace`.
    /// The first thing that went wrong is the result.
    pub async fn run(mut self, grace: Duration) -> Result<(), TaskError> {
        let mut wrong = None;
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            Some(end) = self.running.join_next_with_id() => {
                wrong = match self.named(end) {
                    // The stop came between the two looks.
                    (_, Ok(())) if self.stop.is_cancelled() => None,
                    (task, Ok(())) => Some(TaskError::Ended { task }),
                    (task, Err(reason)) => Some(TaskError::Failed { task, reason }),
                };
                self.stop.cancel();
            }
        }
        if let Some(wrong) = &wrong {
            error!("{wrong}; stopping the others");
        }
        let drained = timeout(grace, self.drain()).await;
        let late = match drained {
            Ok(failure) => failure,
            Err(_) => Some(self.stuck(grace)),
        };
        wrong.or(late).map_or(Ok(()), Err)
    }

    async fn drain(&mut self) -> Option<TaskError> {
        let mut first = None;
        while let Some(end) = self.running.join_next_with_id().await {
            match self.named(end) {
                (task, Ok(())) => debug!("{task} stopped"),
                (task, Err(reason)) => {
                    let failure = TaskError::Failed { task, reason };
                    error!("{failure}");
                    first.get_or_insert(failure);
                }
            }
        }
        first
    }

    fn named(&mut self, end: Result<(Id, Result<(), String>), JoinError>) -> (&'static str, Result<(), String>) {
        let (id, result) = match end {
            Ok((id, result)) => (id, result),
            Err(panic) => (panic.id(), Err(panic.to_string())),
        };
        (self.names.remove(&id).unwrap_or("a task"), result)
    }

    fn stuck(&self, grace: Duration) -> TaskError {
        let mut tasks: Vec<_> = self.names.values().copied().collect();
        tasks.sort_unstable();
        TaskError::Stuck {
            tasks: tasks.join(", "),
            grace,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{convert::Infallible, future::pending};
    use tokio::sync::{mpsc, oneshot};

    const LONG: Duration = Duration::from_secs(30);

    async fn until(stop: CancellationToken) -> Result<(), Infallible> {
        stop.cancelled().await;
        Ok(())
    }

    #[tokio::test]
    async fn given_one_signal_then_the_token_is_cancelled_and_given_two_then_the_process_is_to_exit() {
        let (send, receive) = mpsc::unbounded_channel();
        let signals = stream::unfold(receive, |mut receive| async move {
            receive.recv().await.map(|name| (name, receive))
        });
        let stop = CancellationToken::new();
        let (exit, mut exited) = oneshot::channel();
        let obeying = tokio::spawn(obey(signals, stop.clone(), move || {
            let _ = exit.send(());
        }));
        send.send("SIGTERM").expect("receiver is there");
        timeout(LONG, stop.cancelled()).await.expect("first signal stops");
        assert!(exited.try_recv().is_err(), "one signal must not end the process");
        send.send("SIGINT").expect("receiver is there");
        timeout(LONG, exited).await.expect("second signal exits").expect("sent");
        obeying.await.expect("no panic");
    }

    #[tokio::test]
    async fn given_tasks_that_watch_the_token_when_stopped_then_all_is_well() {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        tasks.spawn("a", until(stop.clone()));
        tasks.spawn("b", until(stop.clone()));
        stop.cancel();
        assert_eq!(tasks.run(LONG).await, Ok(()));
    }

    #[tokio::test]
    async fn given_tasks_that_have_stopped_before_anyone_looks_then_all_is_well() {
        for _ in 0..100 {
            let stop = CancellationToken::new();
            let mut tasks = Tasks::new(stop.clone());
            let (ended, wait) = oneshot::channel();
            let token = stop.clone();
            tasks.spawn("a", async move {
                let result = until(token).await;
                let _ = ended.send(());
                result
            });
            stop.cancel();
            wait.await.expect("it stops");
            assert_eq!(tasks.run(LONG).await, Ok(()));
        }
    }

    #[tokio::test]
    async fn given_a_task_that_ends_fails_or_panics_then_the_others_stop_and_it_is_named() {
        let ended = {
            let mut tasks = Tasks::new(CancellationToken::new());
            tasks.spawn("other", until(tasks.stop().clone()));
            tasks.spawn("short", async { Ok::<_, Infallible>(()) });
            tasks.run(LONG).await
        };
        assert_eq!(ended, Err(TaskError::Ended { task: "short" }));
        let failed = {
            let mut tasks = Tasks::new(CancellationToken::new());
            tasks.spawn("other", until(tasks.stop().clone()));
            tasks.spawn("bad", async { Err("no luck") });
            tasks.run(LONG).await.expect_err("failed")
        };
        assert_eq!(failed.to_string(), "bad failed: no luck");
        let panicked = {
            let mut tasks = Tasks::new(CancellationToken::new());
            tasks.spawn("other", until(tasks.stop().clone()));
            tasks.spawn::<Infallible>("wild", async { panic!("on purpose") });
            tasks.run(LONG).await.expect_err("panicked")
        };
        assert!(panicked.to_string().starts_with("wild failed: "), "{panicked}");
    }

    #[tokio::test(start_paused = true)]
    async fn given_a_task_that_ignores_the_token_then_the_grace_ends_the_wait() {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        tasks.spawn("deaf", pending::<Result<(), Infallible>>());
        tasks.spawn("good", until(stop.clone()));
        stop.cancel();
        let result = tasks.run(Duration::from_secs(8)).await.expect_err("stuck");
        assert_eq!(result.to_string(), "deaf did not stop within 8s");
    }
}
