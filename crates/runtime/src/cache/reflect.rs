//! Keeping a store in step with the API server.
//!
//! kube's watcher does the talking: list in pages, watch, resume after a cut, list again after a 410. This adds what it leaves
//! open: pauses between attempts, a new list where resuming would fail for ever, missing kinds, unreadable objects, resync.

use std::collections::HashMap;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::core::ObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::CacheOptions;
use super::decode::Unread;
use super::kind::Named;
use super::metrics::KindMetrics;
use super::store::{Change, Store};
use super::sync::SyncState;
use crate::error::with_causes;
use crate::resource::{ObjectKey, Scope};

pub(super) struct Reflector<K> {
    client: Client,
    store: Store<K>,
    options: CacheOptions,
    metrics: KindMetrics,
    /// Objects that cannot be read, with the list in which they were seen last.
    unreadable: HashMap<ObjectKey, u32>,
    failures: u32,
    last_failure: Instant,
}

/// Failures that are further apart have nothing to do with each other.
const CALM: Duration = Duration::from_mins(3);

/// Attempts to resume a watch after which listing anew is the better idea.
const MOST_RESUMES: u32 = 8;

impl<K: DeserializeOwned + Send + Sync + 'static> Reflector<K> {
    pub(super) fn new(client: Client, store: Store<K>, options: CacheOptions, metrics: KindMetrics) -> Self {
        Self {
            client,
            store,
            options,
            metrics,
            unreadable: HashMap::new(),
            failures: 0,
            last_failure: Instant::now(),
        }
    }

    /// Runs until `stop`.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut resync = self.next_resync();
        while !stop.is_cancelled() {
            let mut stream = self.stream();
            loop {
                let item = tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep_until(resync) => {
                        self.store.resync();
                        resync = self.next_resync();
                        continue;
                    }
                    item = stream.next() => item,
                };
                let error = match item {
                    Some(Ok(event)) => {
                        self.take_in(event);
                        continue;
                    }
                    Some(Err(error)) => error,
                    None => break,
                };
                let list_anew = self.note(&error);
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(self.pause()) => {}
                }
                if list_anew {
                    break;
                }
            }
        }
    }

    fn stream(&self) -> BoxStream<'static, watcher::Result<Event<Unread>>> {
        let resource = self.store.resource().clone();
        let namespace = self.store.kind().only_in().unwrap_or(&self.options.namespace);
        let api: Api<Unread> = if namespace.is_empty() || resource.scope == Scope::Cluster {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        };
        watcher(api, self.store.kind().watch_config()).boxed()
    }

    fn take_in(&mut self, event: Event<Unread>) {
        match event {
            Event::Init => self.store.feed(Change::ListBegins),
            Event::InitApply(object) => self.put(&object, true),
            Event::Apply(object) => {
                self.metrics.events.inc();
                self.failures = 0;
                self.put(&object, false);
            }
            Event::Delete(object) => {
                self.metrics.events.inc();
                self.failures = 0;
                let name = name(&object.meta);
                let version = object.meta.resource_version.as_deref().unwrap_or_default();
                self.store.feed(Change::Deleted(name, version.parse().unwrap_or(0)));
                self.readable_again(name);
            }
            Event::InitDone => {
                self.failures = 0;
                self.store.feed(Change::ListEnds);
                self.metrics.lists.inc();
                self.metrics.missing.set(0);
                let list = self.store.position().list_done;
                self.unreadable.retain(|_, seen| *seen == list);
                self.metrics.unreadable.set(self.unreadable.len() as i64);
            }
        }
        self.metrics.objects.set(self.store.len() as i64);
    }

    fn put(&mut self, unread: &Unread, listed: bool) {
        let name = name(&unread.meta);
        let reason = match unread.read() {
            Ok(object) => {
                self.readable_again(name);
                let change = if listed {
                    Change::Listed(object)
                } else {
                    Change::Applied(object)
                };
                self.store.feed(change);
                return;
            }
            Err(reason) => reason,
        };
        if listed {
            self.store.feed(Change::ListedUnreadable(name));
        }
        let key = ObjectKey::new(name.namespace, name.name);
        let list = self.store.position().list_begun;
        if self.unreadable.insert(key.clone(), list).is_none() {
            self.metrics.unreadable.set(self.unreadable.len() as i64);
            tracing::error!(kind = %self.store.resource(), object = %key, %reason, "this object cannot be read and is left out");
        }
    }

    fn readable_again(&mut self, name: Named<'_>) {
        if !self.unreadable.is_empty()
            && self
                .unreadable
                .remove(&ObjectKey::new(name.namespace, name.name))
                .is_some()
        {
            self.metrics.unreadable.set(self.unreadable.len() as i64);
        }
    }

    /// Counts and logs a failure; true when only a new list can help.
    fn note(&mut self, error: &watcher::Error) -> bool {
        if self.last_failure.elapsed() > CALM {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        self.last_failure = Instant::now();
        let code = code(error);
        let (at, list_anew) = match error {
            watcher::Error::InitialListFailed(_) => ("list", false),
            // kube would resume at the same version for ever: the server has forgotten it, or has not come that far again after
            // a restore.
            watcher::Error::WatchStartFailed(_) => ("watch-start", code == Some(410) || self.failures > MOST_RESUMES),
            // What was behind an unreadable event is lost to this watch.
            watcher::Error::WatchFailed(kube::Error::SerdeError(_)) => ("watch", true),
            watcher::Error::WatchFailed(_) => ("watch", false),
            // 410 is the normal way to be told to list again; kube does that by itself.
            watcher::Error::WatchError(_) => (if code == Some(410) { "watch-expired" } else { "watch" }, false),
            watcher::Error::NoResourceVersion => ("no-version", true),
        };
        self.metrics.failed(at);
        let kind = self.store.resource();
        if code == Some(404) {
            self.metrics.missing.set(1);
            if self.store.state() == SyncState::Pending {
                tracing::warn!(%kind, "the API server does not serve this kind; it is used as soon as its CRD comes");
            }
            self.store.set_state(SyncState::Missing);
        } else if code == Some(410) {
            tracing::info!(%kind, "the watch fell behind, listing again");
        } else if self.failures.is_power_of_two() {
            tracing::warn!(%kind, failures = self.failures, "cannot {at}: {}", with_causes(error));
        }
        list_anew
    }

    fn pause(&self) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(16);
        let pause = self
            .options
            .first_pause
            .saturating_mul(1 << doublings)
            .min(self.options.longest_pause);
        // Some of it by chance, so that many kinds do not come back at the same moment.
        pause.mul_f64(0.75 + 0.25 * fastrand::f64())
    }

    fn next_resync(&self) -> Instant {
        const NEVER: Duration = Duration::from_hours(10 * 365 * 24);
        Instant::now()
            + self
                .options
                .resync
                .unwrap_or(NEVER)
                .mul_f64(0.9 + 0.1 * fastrand::f64())
    }
}

fn name(meta: &ObjectMeta) -> Named<'_> {
    Named {
        namespace: meta.namespace.as_deref().unwrap_or_default(),
        name: meta.name.as_deref().unwrap_or_default(),
    }
}

fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}
