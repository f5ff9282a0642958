//! Waiting until the cache shows what we ourselves have done.
//!
//! A controller that decides again before its own writes are visible would do them twice. So each write is remembered, and the
//! controller holds back until the cache has come that far. Nothing waits for a certain event, only for a *position*:
//!
//! - A create or change is visible when the cache has seen its resourceVersion or a later one, or when a list that was begun after
//!   the write is complete.
//! - A deletion is visible when the object is gone, is being deleted, or is another one of the same name.
//! - A write whose answer was lost may have happened or not. It is waited for as well, but only for a few seconds. For a create the server is asked whether
//!   there is such an object, see [`look_up`]: a cache that stands still cannot say that there is nothing. Where the server cannot be asked, it is waited for
//!   until the cache has heard of the server since.
//!
//! The change that makes a write visible need not be one that wakes the controller: a claim that was handed to its Pod is no longer its
//! business. So whoever waits asks again after a second at the latest.
//!
//! As the cache moves on sooner or later (a broken watch is resumed or becomes a new list, and a process whose cache stands still for minutes is started
//! anew), nothing can wait for ever. If it takes longer than `--expectation-timeout` all the same, that is reported once. It is waited for nevertheless:
//! whoever creates again what was only not seen has it twice. With the gate `ForceDeleteTimeoutExpectationGate` a CloneSet goes on without.

mod look_up;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kruise_api::meta::Uid;
use kruise_api::resource::Resource;
use kube::Client;
use parking_lot::Mutex;
use prometheus::{IntCounterVec, Opts, Registry};
use tokio::time::Instant;

use crate::cache::{Position, Store, Version};
use crate::resource::ObjectKey;
use crate::shrink::shrink_if_empty;
use crate::writer::Written;

/// Where writes become visible: any [`Store`].
pub trait View: Send + Sync {
    /// The kind that it shows.
    fn resource(&self) -> &'static Resource;
    /// How far it has come.
    fn position(&self) -> Position;
    /// What it knows of an object.
    fn seen(&self, namespace: &str, name: &str) -> Option<Version>;
}

impl<K: Send + Sync + 'static> View for Store<K> {
    fn resource(&self) -> &'static Resource {
        Store::resource(self)
    }

    fn position(&self) -> Position {
        Store::position(self)
    }

    fn seen(&self, namespace: &str, name: &str) -> Option<Version> {
        match self.unreadable(namespace, name) {
            Some(partial) => Some((&partial.metadata).into()),
            None => self.get(namespace, name).map(|object| self.version(&object)),
        }
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
    forces: bool,
    client: Option<Client>,
}

struct Pending {
    view: Arc<dyn View>,
    object: ObjectKey,
    write: Write,
    /// How far the view had come when the write was done. The last list that was begun then may not contain it.
    from: Position,
    since: Instant,
    /// When it was first noticed that the view had moved.
    moved: Option<Instant>,
    /// When the server was last asked for the object.
    asked: Option<Instant>,
    is_reported: bool,
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

/// What happened before a watch was opened is told within this time.
const A_MOMENT: Duration = Duration::from_millis(500);

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
            forces: false,
            client: None,
        }
    }

    /// Asks the server with this client for objects whose creation was not answered.
    #[must_use]
    pub fn asking(mut self, client: Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Goes on without what does not become visible in time, instead of waiting for it.
    #[must_use]
    pub fn forcing(mut self, forces: bool) -> Self {
        self.forces = forces;
        self
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
            from: view.position(),
            view: Arc::new(view.clone()),
            object,
            write,
            since: Instant::now(),
            moved: None,
            asked: None,
            is_reported: false,
        };
        if !pending.visible() {
            self.pending.lock().entry(key.clone()).or_default().push(pending);
        }
    }

    /// Returns whether everything that was written on behalf of `key` is visible. Ask before looking at the cache.
    pub fn check(&self, key: &ObjectKey) -> Visible {
        let mut all = self.pending.lock();
        let Some(pending) = all.get_mut(key) else {
            return Visible::All;
        };
        pending.retain_mut(|each| {
            each.note_moves();
            !each.visible() && !self.gives_up(key, each)
        });
        let Some(oldest) = pending.iter().min_by_key(|each| each.since) else {
            all.remove(key);
            shrink_if_empty(&mut all);
            return Visible::All;
        };
        Visible::NotYet {
            object: oldest.object.clone(),
            count: pending.len(),
            age: oldest.since.elapsed(),
            ask_after: pending
                .iter()
                .map(|each| each.patience(self.timeout))
                .filter(|patience| !patience.is_zero())
                .fold(ASK_AGAIN, Duration::min),
        }
    }

    /// Forgets what was written on behalf of `key`, because it is no more.
    pub fn forget(&self, key: &ObjectKey) {
        self.pending.lock().remove(key);
    }

    /// Whether a write is not waited for any more. One that takes too long is reported.
    fn gives_up(&self, key: &ObjectKey, pending: &mut Pending) -> bool {
        if !pending.patience(self.timeout).is_zero() {
            return false;
        }
        if !pending.write.is_unsure() && !std::mem::replace(&mut pending.is_reported, true) {
            self.report(key, pending);
        }
        match pending.write {
            Write::MaybeDeleted { .. } => true,
            Write::MaybeCreated | Write::Deleted { .. } => self.forces || pending.has_moved(),
            // Without a version only the object itself can tell, and it may have gone again.
            Write::Created { version, .. } | Write::Changed { version, .. } => {
                self.forces || (version == 0 && pending.has_moved())
            }
        }
    }

    fn report(&self, key: &ObjectKey, pending: &Pending) {
        self.overdue.with_label_values(&[&self.controller]).inc();
        if let Some(leaks) = self
            .leaks
            .as_ref()
            .filter(|_| !matches!(pending.write, Write::Changed { .. }))
        {
            leaks.with_label_values(&[&key.namespace, &key.name]).inc();
        }
        let (age, what) = (
            pending.since.elapsed(),
            if self.forces {
                "going on without"
            } else {
                "waiting for it"
            },
        );
        tracing::warn!(controller = self.controller, %key, object = %pending.object, ?age,
                       "the cache does not show a write of ours; {what}");
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

    /// Notes that the server was heard of since the write. That a list was begun does not mean that it is answered.
    fn note_moves(&mut self) {
        let position = self.view.position();
        let heard = |position: &Position| (position.version, position.list_done, position.reached);
        if self.moved.is_none() && heard(&position) != heard(&self.from) {
            self.moved = Some(Instant::now());
        }
    }

    /// Whether the server was heard of, and has had a moment to tell of what happened before.
    fn has_moved(&self) -> bool {
        self.moved.is_some_and(|moved| moved.elapsed() >= A_MOMENT)
    }

    fn visible(&self) -> bool {
        let position = self.view.position();
        if position.list_done > self.from.list_begun {
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
