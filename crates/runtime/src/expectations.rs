//! Waiting until the cache shows what we ourselves have done.
//!
//! A controller that decides again before its own writes are visible would do them twice. So each write is remembered, and the
//! controller holds back until the cache has come that far. Nothing waits for a certain event, only for a *position*:
//!
//! - A create or change is visible when the cache has seen its resourceVersion or a later one, or when a list that was begun after
//!   the write is complete.
//! - A deletion is visible when the object is gone, is being deleted, or is another one of the same name.
//! - A write whose answer was lost may have happened or not. It is waited for as well, but only for a few seconds.
//!
//! The change that makes a write visible need not be one that wakes the controller: a claim that was handed to its Pod is no longer its
//! business. So whoever waits asks again after a second at the latest.
//!
//! As the cache always moves on (a broken watch is resumed or becomes a new list), nothing can wait for ever. If it takes longer than
//! `--expectation-timeout` all the same, that is reported once and the expectation is dropped: a decision on an old view is kept
//! harmless by the preconditions of each write.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kruise_api::meta::Uid;
use parking_lot::Mutex;
use prometheus::{IntCounterVec, Opts, Registry};
use tokio::time::Instant;

use crate::cache::{Position, Store, Version};
use crate::resource::ObjectKey;
use crate::writer::Written;

/// Where writes become visible: any [`Store`].
pub trait View: Send + Sync {
    /// How far it has come.
    fn position(&self) -> Position;
    /// What it knows of an object.
    fn seen(&self, namespace: &str, name: &str) -> Option<Version>;
}

impl<K: Send + Sync + 'static> View for Store<K> {
    fn position(&self) -> Position {
        Store::position(self)
    }

    fn seen(&self, namespace: &str, name: &str) -> Option<Version> {
        self.get(namespace, name).map(|object| self.version(&object))
    }
}

/// The answer to "may I decide?".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visible {
    /// Yes: the cache shows everything that was written.
    All,
    /// Not yet.
    NotYet {
        /// One of the objects that are not visible.
        object: ObjectKey,
        /// How many there are.
        count: usize,
        /// How long the oldest of them has been waited for.
        age: Duration,
        /// When to ask again, should no change come first.
        ask_after: Duration,
    },
}

/// The writes of one controller that are not visible yet, by the key that it reconciles.
pub struct Expectations {
    controller: String,
    timeout: Duration,
    pending: Mutex<HashMap<ObjectKey, Vec<Pending>>>,
    overdue: IntCounterVec,
    leaks: Option<IntCounterVec>,
}

struct Pending {
    view: Arc<dyn View>,
    object: ObjectKey,
    write: Write,
    /// The last list that was begun when the write was done: it may not contain it.
    list_begun: u32,
    since: Instant,
}

enum Write {
    Created { uid: Uid, version: u64 },
    Changed { uid: Uid, version: u64 },
    Deleted { uid: Uid },
    MaybeCreated,
    MaybeDeleted { uid: Uid },
}

/// When to ask again, should no change come first.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How long a write is waited for of which nobody knows whether it happened.
const UNSURE: Duration = Duration::from_secs(5);

/// The counter of all expectations of a process.
#[derive(Clone, Debug)]
pub struct ExpectationMetrics(IntCounterVec);

impl ExpectationMetrics {
    /// Registers the counter.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let overdue = IntCounterVec::new(
            Opts::new(
                "kruise_expectations_overdue_total",
                "Writes that the cache did not show within the expectation timeout.",
            ),
            &["controller"],
        )?;
        registry.register(Box::new(overdue.clone()))?;
        Ok(Self(overdue))
    }
}

impl Expectations {
    /// No expectations yet.
    pub fn new(controller: &str, timeout: Duration, metrics: &ExpectationMetrics) -> Self {
        Self {
            controller: controller.to_owned(),
            timeout,
            pending: Mutex::default(),
            overdue: metrics.0.clone(),
            leaks: None,
        }
    }

    /// Counts creations and deletions that do not become visible in time here as well, by the key they were for: its labels are
    /// `namespace` and `name`.
    #[must_use]
    pub fn telling_leaks(mut self, leaks: &IntCounterVec) -> Self {
        self.leaks = Some(leaks.clone());
        self
    }

    /// Remembers that an object was created on behalf of `key`.
    pub fn created<V: View + Clone + 'static>(&self, key: &ObjectKey, view: &V, namespace: &str, written: &Written) {
        let write = Write::Created {
            uid: written.uid.as_str().into(),
            version: written.resource_version.parse().unwrap_or(0),
        };
        self.remember(key, view, ObjectKey::new(namespace, &written.name), write);
    }

    /// Remembers that an object was changed on behalf of `key`.
    pub fn changed<V: View + Clone + 'static>(&self, key: &ObjectKey, view: &V, namespace: &str, written: &Written) {
        let write = Write::Changed {
            uid: written.uid.as_str().into(),
            version: written.resource_version.parse().unwrap_or(0),
        };
        self.remember(key, view, ObjectKey::new(namespace, &written.name), write);
    }

    /// Remembers that an object was deleted on behalf of `key`.
    pub fn deleted<V: View + Clone + 'static>(&self, key: &ObjectKey, view: &V, object: &ObjectKey, uid: &str) {
        let write = Write::Deleted { uid: uid.into() };
        self.remember(key, view, object.clone(), write);
    }

    /// Remembers that an object may have been created on behalf of `key`: the answer was lost.
    pub fn maybe_created<V: View + Clone + 'static>(&self, key: &ObjectKey, view: &V, object: &ObjectKey) {
        self.remember(key, view, object.clone(), Write::MaybeCreated);
    }

    /// Remembers that an object may have been deleted on behalf of `key`: the answer was lost.
    pub fn maybe_deleted<V: View + Clone + 'static>(&self, key: &ObjectKey, view: &V, object: &ObjectKey, uid: &str) {
        let write = Write::MaybeDeleted { uid: uid.into() };
        self.remember(key, view, object.clone(), write);
    }

    fn remember<V: View + Clone + 'static>(&self, key: &ObjectKey, view: &V, object: ObjectKey, write: Write) {
        let pending = Pending {
            list_begun: view.position().list_begun,
            view: Arc::new(view.clone()),
            object,
            write,
            since: Instant::now(),
        };
        if !pending.visible() {
            self.pending.lock().entry(key.clone()).or_default().push(pending);
        }
    }

    /// Whether everything that was written on behalf of `key` is visible. Ask before looking at the cache.
    pub fn check(&self, key: &ObjectKey) -> Visible {
        let mut all = self.pending.lock();
        let Some(pending) = all.get_mut(key) else {
            return Visible::All;
        };
        pending.retain(|each| !each.visible() && !self.is_overdue(key, each));
        let Some(oldest) = pending.iter().min_by_key(|each| each.since) else {
            all.remove(key);
            return Visible::All;
        };
        Visible::NotYet {
            object: oldest.object.clone(),
            count: pending.len(),
            age: oldest.since.elapsed(),
            ask_after: pending
                .iter()
                .map(|each| each.patience(self.timeout))
                .fold(ASK_AGAIN, Duration::min),
        }
    }

    /// Forgets what was written on behalf of `key`, because it is no more.
    pub fn forget(&self, key: &ObjectKey) {
        self.pending.lock().remove(key);
    }

    fn is_overdue(&self, key: &ObjectKey, pending: &Pending) -> bool {
        let age = pending.since.elapsed();
        if !pending.patience(self.timeout).is_zero() {
            return false;
        }
        if pending.write.is_unsure() {
            return true;
        }
        self.overdue.with_label_values(&[&self.controller]).inc();
        if let Some(leaks) = self
            .leaks
            .as_ref()
            .filter(|_| !matches!(pending.write, Write::Changed { .. }))
        {
            leaks.with_label_values(&[&key.namespace, &key.name]).inc();
        }
        tracing::warn!(controller = self.controller, %key, object = %pending.object, ?age,
                       "the cache does not show a write of ours; going on without");
        true
    }
}

impl Write {
    fn is_unsure(&self) -> bool {
        matches!(self, Self::MaybeCreated | Self::MaybeDeleted { .. })
    }
}

impl Pending {
    /// How much longer it is waited for.
    fn patience(&self, timeout: Duration) -> Duration {
        let whole = if self.write.is_unsure() {
            timeout.min(UNSURE)
        } else {
            timeout
        };
        whole.saturating_sub(self.since.elapsed())
    }

    fn visible(&self) -> bool {
        let position = self.view.position();
        if position.list_done > self.list_begun {
            return true;
        }
        let seen = self.view.seen(&self.object.namespace, &self.object.name);
        match &self.write {
            // The position covers objects that came and went in between.
            Write::Created { version, .. } | Write::Changed { version, .. }
                if *version != 0 && position.version >= *version =>
            {
                true
            }
            Write::Created { uid, version } | Write::Changed { uid, version } => seen.is_some_and(|seen| {
                let later = seen.resource_version >= *version;
                later && (*version != 0 || seen.uid == *uid)
            }),
            Write::MaybeCreated => seen.is_some(),
            Write::Deleted { uid } | Write::MaybeDeleted { uid } => {
                seen.is_none_or(|seen| seen.deleting || seen.uid != *uid)
            }
        }
    }
}

impl fmt::Debug for Expectations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: HashMap<_, _> = self
            .pending
            .lock()
            .iter()
            .map(|(key, each)| (key.clone(), each.len()))
            .collect();
        f.debug_struct("Expectations")
            .field("pending", &counts)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
