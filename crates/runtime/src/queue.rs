//! What is to be done, in which order, and when.
//!
//! - A key is in the queue once, however often it is added. The highest priority it was added with counts.
//! - What a user changed comes before what was only listed or is looked at again; the latter still gets its turn now and then.
//! - A key that is being worked on is not handed out a second time. If it is added meanwhile, it comes back when the work is done.
//! - A key can be added for later. Of several times the earliest counts.
//! - A key whose work failed comes back later and later: 5 ms, 10 ms, … up to 1000 s, and all failures together not faster than
//!   a bucket allows (10 per second, 100 at once).
//! - After [`Queue::shut_down`] nothing is handed out any more; whoever waits is sent home.
//!
//! [`state`] has the rules without a clock; this module adds the waiting.

pub mod limit;
pub mod metrics;
pub mod state;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

pub use limit::Limits;
pub use metrics::QueueMetrics;
pub use state::Priority;

use metrics::Meter;
use state::State;

/// A queue of keys for one controller. Clones are the same queue.
pub struct Queue<T>(Arc<Inner<T>>);

struct Inner<T> {
    state: Mutex<State<T>>,
    changed: Notify,
    meter: Meter,
}

impl<T> Queue<T>
where
    T: Clone + Eq + Hash + Ord + Send + 'static,
{
    /// An empty queue; `name` is the controller's name in the metrics.
    pub fn new(name: &str, limits: Limits, metrics: &QueueMetrics) -> Self {
        let queue = Self(Arc::new(Inner {
            state: Mutex::new(State::new(limits)),
            changed: Notify::new(),
            meter: metrics.meter(name),
        }));
        let inner = Arc::downgrade(&queue.0);
        metrics.ask(name, move || {
            let inner = inner.upgrade()?;
            Some(inner.state.lock().ages(Instant::now().into_std()))
        });
        queue
    }

    /// Adds a key now.
    pub fn add(&self, key: T, priority: Priority) {
        self.change(|state, now| state.add(key, priority, now));
    }

    /// Adds a key after a while.
    pub fn add_after(&self, key: T, priority: Priority, delay: Duration) {
        self.change(|state, now| state.add_after(key, priority, delay, now));
    }

    /// Adds a key whose work failed, after a pause that grows with each failure. Returns the pause.
    pub fn add_limited(&self, key: T, priority: Priority) -> Duration {
        self.add_limited_within(key, priority, Duration::MAX)
    }

    /// Does the same with a pause that is not longer than this. The bucket for all failures counts all the same.
    pub fn add_limited_within(&self, key: T, priority: Priority, longest: Duration) -> Duration {
        self.0.meter.retries.inc();
        self.change(|state, now| state.add_limited(key, priority, longest, now))
    }

    /// Forgets the failures of a key.
    pub fn forget(&self, key: &T) {
        self.0.state.lock().forget(key);
    }

    /// Returns the next key as soon as there is one. `None` after the shut-down.
    pub async fn next(&self) -> Option<Taken<T>> {
        loop {
            let changed = self.0.changed.notified();
            let wait_until = {
                let mut state = self.0.state.lock();
                if state.is_shut_down() {
                    return None;
                }
                let taken = state.take(Instant::now().into_std());
                self.0.meter.adds.inc_by(state.added());
                if let Some((key, priority, waited)) = taken {
                    self.0.meter.depth.set(state.len() as i64);
                    self.0.meter.waited.observe(waited.as_secs_f64());
                    return Some(Taken {
                        queue: self.clone(),
                        key,
                        priority,
                    });
                }
                state.next_due()
            };
            match wait_until {
                Some(due) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(due.into()) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Hands out nothing any more and takes in nothing any more.
    pub fn shut_down(&self) {
        self.0.state.lock().shut_down();
        self.0.meter.depth.set(0);
        self.0.changed.notify_waiters();
        self.0.changed.notify_one();
    }

    /// Returns the number of keys that wait to be handed out.
    pub fn len(&self) -> usize {
        self.0.state.lock().len()
    }

    /// Whether nothing waits to be handed out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn change<R>(&self, change: impl FnOnce(&mut State<T>, std::time::Instant) -> R) -> R {
        let mut state = self.0.state.lock();
        let result = change(&mut state, Instant::now().into_std());
        self.0.meter.adds.inc_by(state.added());
        self.0.meter.depth.set(state.len() as i64);
        drop(state);
        self.0.changed.notify_one();
        result
    }
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue")
    }
}

/// A key that was handed out. Dropping it says that the work is done, however it ended.
pub struct Taken<T: Clone + Eq + Hash + Ord + Send + 'static> {
    queue: Queue<T>,
    key: T,
    priority: Priority,
}

impl<T: Clone + Eq + Hash + Ord + Send + 'static> Taken<T> {
    /// Returns what to work on.
    pub fn key(&self) -> &T {
        &self.key
    }

    /// Returns the priority under which it came.
    pub fn priority(&self) -> Priority {
        self.priority
    }
}

impl<T: Clone + Eq + Hash + Ord + Send + 'static> Drop for Taken<T> {
    fn drop(&mut self) {
        let key = &self.key;
        let worked = self.queue.change(|state, now| state.done(key, now));
        self.queue.0.meter.worked.observe(worked.as_secs_f64());
    }
}

impl<T: Clone + Eq + Hash + Ord + Send + fmt::Debug + 'static> fmt::Debug for Taken<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Taken({:?})", self.key)
    }
}

#[cfg(test)]
mod tests;
