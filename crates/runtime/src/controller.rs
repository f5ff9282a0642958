//! The loop of a controller: take a key, reconcile it, see how it went.
//!
//! - A key is not reconciled before the cache shows what was written on its behalf, see [`crate::expectations`].
//! - Each key in flight has a task of its own; at most as many as the controller has workers.
//! - A reconcile has a deadline. One that panics is counted, logged and tried again later; the others do not notice.
//! - Success forgets earlier failures, and the reconcile may ask to be woken after a while.
//! - After a failure the class of the error says what happens, see [`crate::error`]. A reconcile that failed in part keeps its timers: whatever is first
//!   wakes it. How long what waits is said in `controller/retry.rs`.
//! - When the process stops, nothing new is begun and what is in flight is waited for.
//!
//! ```no_run
//! use std::sync::Arc;
//! use kruise_runtime::cache::{Kind, Store};
//! use kruise_runtime::controller::{Controller, ControllerMetrics, Outcome, for_objects};
//! use kruise_runtime::queue::{Limits, Queue, QueueMetrics};
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use kruise_runtime::shutdown::CancellationToken;
//! # async fn example(maps: Store<ConfigMap>, registry: &prometheus::Registry, stop: CancellationToken) -> prometheus::Result<()> {
//! let queue = Queue::new("example", Limits::default(), &QueueMetrics::new(registry)?);
//! for_objects(&maps, &queue);
//! let controller = Controller::new("example", queue, 3, &ControllerMetrics::new(registry)?);
//! controller
//!     .run(stop, move |key| {
//!         let maps = maps.clone();
//!         async move {
//!             // observe, plan, apply
//!             let _object = maps.get(&key.namespace, &key.name);
//!             Ok(Outcome::done())
//!         }
//!     })
//!     .await;
//! # Ok(())
//! # }
//! ```

mod metrics;
mod retry;

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use metrics::ControllerMetrics;

use crate::cache::{Event, Origin, Store};
use crate::error::{Class, Error};
use crate::expectations::{Expectations, Visible};
use crate::queue::{Priority, Queue, Taken};
use crate::resource::ObjectKey;
use metrics::Meter;
use retry::{AT_ONCE_AFTER_FAILURE, Retry};

/// What a reconcile asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    wake_after: Option<Duration>,
    error: Option<Error>,
}

impl Outcome {
    /// Nothing more to do until something changes.
    pub fn done() -> Self {
        Self::default()
    }

    /// Look again after this time, even if nothing changes.
    pub fn wake_after(delay: Duration) -> Self {
        Self {
            wake_after: Some(delay),
            error: None,
        }
    }

    /// Some of it failed. If there is a time to look again, it counts as well; but "at once" is not before a second has passed.
    pub fn failed(error: Error, wake_after: Option<Duration>) -> Self {
        Self {
            wake_after: wake_after.map(|delay| delay.max(AT_ONCE_AFTER_FAILURE)),
            error: Some(error),
        }
    }

    /// What to ask for after any number of failures: the one that passes first decides.
    pub fn after(errors: impl IntoIterator<Item = Error>, wake_after: Option<Duration>) -> Self {
        match retry::deciding(errors) {
            Some(error) => Self::failed(error, wake_after),
            None => Self {
                wake_after,
                error: None,
            },
        }
    }
}

/// A controller, ready to run.
pub struct Controller {
    name: String,
    queue: Queue<ObjectKey>,
    workers: usize,
    deadline: Duration,
    writes: Option<Arc<Expectations>>,
    meter: Meter,
}

/// Longest time for one reconcile. Far more than any should need: it is there for the one that hangs.
const DEADLINE: Duration = Duration::from_mins(10);

impl Controller {
    /// A controller with this many workers, at least one.
    pub fn new(name: &str, queue: Queue<ObjectKey>, workers: usize, metrics: &ControllerMetrics) -> Self {
        let workers = workers.max(1);
        Self {
            name: name.to_owned(),
            queue,
            workers,
            deadline: DEADLINE,
            writes: None,
            meter: metrics.meter(name, workers),
        }
    }

    /// Holds a key back until what was written on its behalf is visible.
    #[must_use]
    pub fn after_own_writes(mut self, writes: Arc<Expectations>) -> Self {
        self.writes = Some(writes);
        self
    }

    /// Sets the longest time for one reconcile.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Reconciles until `stop`, then waits for what is in flight.
    pub async fn run<F, Fut>(self, stop: CancellationToken, reconcile: F)
    where
        F: Fn(ObjectKey) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, Error>> + Send + 'static,
    {
        let this = Arc::new(self);
        let reconcile = Arc::new(reconcile);
        let free = Arc::new(Semaphore::new(this.workers));
        let mut in_flight = JoinSet::new();
        loop {
            // Tasks that have ended are let go of, so that the set stays as small as the number of workers.
            while in_flight.try_join_next().is_some() {}
            let worker = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                worker = free.clone().acquire_owned() => worker,
            };
            let taken = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                taken = this.queue.next() => taken,
            };
            let (Ok(worker), Some(taken)) = (worker, taken) else {
                break;
            };
            let (this, reconcile) = (this.clone(), reconcile.clone());
            in_flight.spawn(async move {
                this.work(taken, &*reconcile).await;
                drop(worker);
            });
        }
        this.queue.shut_down();
        while in_flight.join_next().await.is_some() {}
    }

    async fn work<F, Fut>(&self, taken: Taken<ObjectKey>, reconcile: &F)
    where
        F: Fn(ObjectKey) -> Fut,
        Fut: Future<Output = Result<Outcome, Error>>,
    {
        self.meter.active.inc();
        let began = Instant::now();
        let key = taken.key().clone();
        let visible = match &self.writes {
            Some(writes) => writes.check_with_server(&key).await,
            None => Visible::All,
        };
        if let Visible::NotYet { ask_after, .. } = visible {
            let end = self.finish(&taken, Ok(Outcome::wake_after(ask_after)));
            self.meter.ended(end.label(), began.elapsed());
            self.meter.active.dec();
            return;
        }
        let attempt = AssertUnwindSafe(async { tokio::time::timeout(self.deadline, reconcile(key)).await });
        let end = match attempt.catch_unwind().await {
            Ok(Ok(result)) => self.finish(&taken, result),
            Ok(Err(_)) => {
                self.meter.timeouts.inc();
                let slow = Error::new(Class::Transient, format!("not done within {:?}", self.deadline));
                self.finish(&taken, Err(slow))
            }
            Err(panic) => {
                self.meter.panics.inc();
                let pause = self.queue.add_limited(taken.key().clone(), taken.priority());
                tracing::error!(controller = self.name, key = %taken.key(), ?pause, "a reconcile panicked: {}", text(&*panic));
                self.meter.errors.inc();
                End::Error
            }
        };
        self.meter.ended(end.label(), began.elapsed());
        self.meter.active.dec();
    }

    /// Decides what comes next for a key.
    fn finish(&self, taken: &Taken<ObjectKey>, result: Result<Outcome, Error>) -> End {
        let (key, priority) = (taken.key(), taken.priority());
        let Outcome { wake_after, error } = result.unwrap_or_else(|error| Outcome::failed(error, None));
        if let Some(delay) = wake_after {
            self.queue.add_after(key.clone(), Priority::Change, delay);
        }
        let Some(error) = error else {
            self.queue.forget(key);
            return if wake_after.is_some() {
                End::RequeueAfter
            } else {
                End::Success
            };
        };
        let class = error.class();
        let pause = match Retry::after(class) {
            Retry::LookAgain => {
                let pause = self.queue.add_limited(key.clone(), priority);
                tracing::debug!(controller = self.name, %key, ?pause, class = class.as_str(), "{error}");
                return End::Requeue;
            }
            Retry::BackOff => self.queue.add_limited(key.clone(), priority),
            Retry::BackOffWithin(longest) => self.queue.add_limited_within(key.clone(), priority, longest),
            Retry::Late(pause) => {
                self.queue.forget(key);
                self.queue.add_after(key.clone(), Priority::Background, pause);
                tracing::error!(controller = self.name, %key, class = class.as_str(), "{error}; waiting for a change");
                self.meter.errors.inc();
                self.meter.terminal_errors.inc();
                return End::Error;
            }
        };
        tracing::warn!(controller = self.name, %key, ?pause, class = class.as_str(), "{error}");
        self.meter.errors.inc();
        End::Error
    }
}

/// How a reconcile ended, as the metrics call it.
#[derive(Clone, Copy)]
enum End {
    Success,
    Error,
    Requeue,
    RequeueAfter,
}

impl End {
    fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Requeue => "requeue",
            Self::RequeueAfter => "requeue_after",
        }
    }
}

fn text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no message)")
}

/// Returns how urgent an event is: what just happened comes before what was there all along.
pub fn priority<K>(event: &Event<'_, K>) -> Priority {
    match event.origin {
        Origin::Watch => Priority::Change,
        Origin::List | Origin::Resync => Priority::Background,
    }
}

/// Puts the key of every object of a store into the queue, now and whenever it changes.
pub fn for_objects<K: Send + Sync + 'static>(store: &Store<K>, queue: &Queue<ObjectKey>) {
    let (names, queue) = (store.clone(), queue.clone());
    store.subscribe(move |event| {
        if let Some(object) = event.latest() {
            let name = names.name(object);
            queue.add(ObjectKey::new(name.namespace, name.name), priority(event));
        }
    });
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Controller({})", self.name)
    }
}

#[cfg(test)]
mod tests;
