//! Waiting for a condition instead of sleeping.
//!
//! [`eventually`] asks until the answer is good; [`eventually_seen`] watches one object and also catches states that pass quickly;
//! [`consistently`] makes sure that something stays so; [`run_test`] gives a test its own runtime, deadline and log.
//! A condition answers `Ok(value)` or `Err(state)`; the state is what the panic shows when time is up, so put into it what a reader
//! needs to understand the failure: `Err(not_yet(&pod.status))`, `Err("two replicas".into())`, or just `?` on a client error.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use kruise_testkit::eventually::{eventually, not_yet};
//! # async fn example(pods: kube::Api<k8s_openapi::api::core::v1::Pod>) {
//! let pod = eventually(Duration::from_secs(10), "pod a is running", || async {
//!     let pod = pods.get("a").await?;
//!     let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
//!     if phase == Some("Running") { Ok(pod) } else { Err(not_yet(&pod.status)) }
//! })
//! .await;
//! # }
//! ```

mod log;
mod run;

use std::fmt::{Debug, Display};
use std::time::Duration;

use futures::StreamExt;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

pub use self::run::run_test;
use crate::watch;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The state of things while a condition does not hold, as text for a person.
#[derive(Clone, PartialEq, Eq)]
pub struct NotYet(String);

impl NotYet {
    pub fn new(state: impl Into<String>) -> Self {
        NotYet(state.into())
    }
}

impl Display for NotYet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Debug for NotYet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Shows a value (an object, its status, a list) as indented JSON.
pub fn not_yet(state: &impl Serialize) -> NotYet {
    NotYet(serde_json::to_string_pretty(state).unwrap_or_else(|error| format!("(cannot be shown: {error})")))
}

impl From<String> for NotYet {
    fn from(state: String) -> Self {
        NotYet(state)
    }
}

impl From<&str> for NotYet {
    fn from(state: &str) -> Self {
        NotYet(state.to_owned())
    }
}

impl From<kube::Error> for NotYet {
    fn from(error: kube::Error) -> Self {
        NotYet(error.to_string())
    }
}

impl From<anyhow::Error> for NotYet {
    fn from(error: anyhow::Error) -> Self {
        NotYet(format!("{error:#}"))
    }
}

impl From<serde_json::Value> for NotYet {
    fn from(state: serde_json::Value) -> Self {
        not_yet(&state)
    }
}

/// Asks `condition` again and again until it answers `Ok`, and returns that. Panics with `what`, the time and the last state when the deadline passes.
#[track_caller]
pub fn eventually<T, F, Fut>(deadline: Duration, what: &str, condition: F) -> impl Future<Output = T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, NotYet>>,
{
    let caller = std::panic::Location::caller();
    async move {
        match ask_until(Instant::now() + deadline, condition).await {
            Ok(value) => value,
            Err(last) => panic!("{caller}: not within {deadline:?}: {what}\nlast state:\n{last}"),
        }
    }
}

async fn ask_until<T, F, Fut>(end: Instant, mut condition: F) -> Result<T, NotYet>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, NotYet>>,
{
    let mut last = NotYet::new("(the condition never answered)");
    let mut pause = FIRST_PAUSE;
    loop {
        match tokio::time::timeout_at(end, condition()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(state)) => last = state,
            Err(_) => return Err(last),
        }
        if Instant::now() + pause >= end {
            // One last look at the very end, so that a condition met in the last pause counts.
            tokio::time::sleep_until(end).await;
            let grace = Duration::from_secs(2);
            return match tokio::time::timeout(grace, condition()).await {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(state)) => Err(state),
                Err(_) => Err(last),
            };
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Watches the object `name` until one of its versions satisfies `condition`; `None` means that it does not exist.
///
/// Use it where a state may pass between two questions of [`eventually`], e.g. Ready that turns False for a moment. The watch begins with the
/// object as it is when this is called: begin before causing the change.
#[track_caller]
pub fn eventually_seen<K, T>(
    api: Api<K>,
    name: &str,
    deadline: Duration,
    what: &str,
    mut condition: impl FnMut(Option<&K>) -> Result<T, NotYet>,
) -> impl Future<Output = T>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let caller = std::panic::Location::caller();
    async move {
        let mut versions = watch::versions(api, name).boxed();
        let end = Instant::now() + deadline;
        let mut last = NotYet::new("(nothing was seen)");
        loop {
            match tokio::time::timeout_at(end, versions.next()).await {
                Ok(Some(Ok(object))) => match condition(object.as_ref()) {
                    Ok(value) => return value,
                    Err(state) => last = state,
                },
                Ok(Some(Err(error))) => last = NotYet(error.to_string()),
                Ok(None) | Err(_) => panic!("{caller}: not seen within {deadline:?}: {what}\nlast state:\n{last}"),
            }
        }
    }
}

/// Asks `condition` for the whole `duration` and panics as soon as it answers `Err`. Returns the last value.
///
/// Use it only to show that something does *not* happen (no Pod is replaced, a paused workload rests), after an [`eventually`] has made sure
/// that the system has seen the change; its whole duration is spent in every test run, so keep it to a second or two.
#[track_caller]
pub fn consistently<T, F, Fut>(duration: Duration, what: &str, mut condition: F) -> impl Future<Output = T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, NotYet>>,
{
    let caller = std::panic::Location::caller();
    async move {
        let begin = Instant::now();
        loop {
            let answer = tokio::time::timeout(duration + Duration::from_secs(10), condition()).await;
            let value = match answer.unwrap_or_else(|_| Err("the condition did not answer".into())) {
                Ok(value) => value,
                Err(state) => {
                    panic!(
                        "{caller}: did not stay so (for {:?} of {duration:?}): {what}\nlast state:\n{state}",
                        begin.elapsed()
                    )
                }
            };
            if begin.elapsed() >= duration {
                return value;
            }
            tokio::time::sleep(LONGEST_PAUSE.min(duration.saturating_sub(begin.elapsed()))).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test(start_paused = true)]
    async fn eventually_returns_the_first_good_answer() {
        let asked = AtomicU32::new(0);
        let value = eventually(Duration::from_secs(5), "three questions", || async {
            match asked.fetch_add(1, Ordering::Relaxed) {
                3 => Ok("good"),
                n => Err(format!("asked {n} times").into()),
            }
        })
        .await;
        assert_eq!(value, "good");
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "not within 5s: pods are ready\nlast state:\n{\n  \"ready\": 1\n}")]
    async fn a_missed_deadline_shows_what_was_awaited_and_the_last_state() {
        let state = serde_json::json!({ "ready": 1 });
        eventually(Duration::from_secs(5), "pods are ready", || async {
            Err::<(), _>(state.clone().into())
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "the condition never answered")]
    async fn a_condition_that_hangs_does_not_hang_the_test() {
        eventually(
            Duration::from_secs(5),
            "an answer",
            std::future::pending::<Result<(), NotYet>>,
        )
        .await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "did not stay so")]
    async fn consistently_fails_on_the_first_bad_answer() {
        let begin = Instant::now();
        consistently(Duration::from_secs(5), "calm", || async {
            if begin.elapsed() < Duration::from_secs(2) {
                Ok(())
            } else {
                Err("storm".into())
            }
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn consistently_asks_for_the_whole_time() {
        let begin = Instant::now();
        let seconds = consistently(Duration::from_secs(5), "calm", || async {
            Ok(begin.elapsed().as_secs())
        })
        .await;
        assert_eq!(seconds, 5);
    }
}
