//! Keeping a store in step with the API server.
//!
//! [`super::list_watch`] does the talking: list in pages, watch, resume after a cut, list again after a 410. This adds what it leaves
//! open: pauses between attempts, a new list where resuming would fail for ever, missing kinds, unreadable objects, resync.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::Client;
use kube::core::ObjectMeta;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::CacheOptions;
use super::contact::LastHeard;
use super::decode::RawObject;
use super::kind::Named;
use super::list_watch::{ListWatchError, ListWatchEvent, list_watch};
use super::metrics::KindMetrics;
use super::store::{Change, Store};
use super::sync::SyncState;
use crate::error::with_causes;
use crate::resource::ObjectKey;

pub(super) struct Reflector<K> {
    client: Client,
    store: Store<K>,
    options: CacheOptions,
    metrics: KindMetrics,
    heard: LastHeard,
    failures: u32,
    last_failure: Instant,
}

/// Failures that are further apart have nothing to do with each other.
const CALM: Duration = Duration::from_mins(3);

/// Attempts to resume a watch after which listing anew is the better idea.
const MOST_RESUMES: u32 = 8;

impl<K: DeserializeOwned + Send + Sync + 'static> Reflector<K> {
    pub(super) fn new(
        client: Client,
        store: Store<K>,
        options: CacheOptions,
        metrics: KindMetrics,
        heard: LastHeard,
    ) -> Self {
        Self {
            client,
            store,
            options,
            metrics,
            heard,
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
                        self.handle_event(event);
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

    fn stream(&self) -> BoxStream<'static, Result<ListWatchEvent, ListWatchError>> {
        let kind = self.store.kind();
        let namespace = kind.only_in().unwrap_or(&self.options.namespace);
        list_watch(self.client.clone(), kind.selection(namespace, self.options.deadline)).boxed()
    }

    fn handle_event(&mut self, event: ListWatchEvent) {
        // That a list begins is our own decision.
        if !matches!(event, ListWatchEvent::ListBegins) {
            self.heard.again();
        }
        match event {
            ListWatchEvent::ListBegins => self.store.feed(Change::ListBegins),
            ListWatchEvent::Listed(object) => self.put(&object, true),
            ListWatchEvent::Applied(object) => {
                self.metrics.events.inc();
                self.failures = 0;
                self.put(&object, false);
            }
            ListWatchEvent::Deleted(object) => {
                self.metrics.events.inc();
                self.failures = 0;
                let name = name(&object.meta);
                let version = object.meta.resource_version.as_deref().unwrap_or_default();
                self.store.feed(Change::Deleted(name, version.parse().unwrap_or(0)));
            }
            ListWatchEvent::Opened(version) => {
                self.metrics.watches.inc();
                self.store.feed(Change::Reached(version));
            }
            ListWatchEvent::Reached(version) => self.store.feed(Change::Reached(version)),
            ListWatchEvent::ListEnds => {
                self.failures = 0;
                self.store.feed(Change::ListEnds);
                self.metrics.lists.inc();
                self.metrics.missing.set(0);
            }
        }
        self.metrics.objects.set(self.store.len() as i64);
        self.metrics.unreadable.set(self.store.unreadable_len() as i64);
    }

    fn put(&self, raw: &RawObject, listed: bool) {
        let name = name(&raw.meta);
        let reason = match raw.read() {
            Ok(object) => {
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
        if self.store.unreadable(name.namespace, name.name).is_none() {
            let (kind, key) = (self.store.resource(), ObjectKey::new(name.namespace, name.name));
            tracing::error!(%kind, object = %key, reason = without_values(&reason), "this object cannot be read and is left out");
            tracing::trace!(%kind, object = %key, %reason, "what exactly cannot be read");
        }
        let partial = raw.partial();
        self.store.feed(if listed {
            Change::ListedUnreadable(partial)
        } else {
            Change::AppliedUnreadable(partial)
        });
    }

    /// Counts and logs a failure; true when only a new list can help.
    fn note(&mut self, error: &ListWatchError) -> bool {
        if self.last_failure.elapsed() > CALM {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        self.last_failure = Instant::now();
        let code = error.code();
        if code.is_some() {
            self.heard.again();
        }
        let (at, list_anew) = match error {
            ListWatchError::List(_) => ("list", false),
            // Resuming at the same version could go on for ever: the server has forgotten it, or has not come that far again after
            // a restore.
            ListWatchError::Open(_) => ("watch-start", code == Some(410) || self.failures > MOST_RESUMES),
            // What was behind an unreadable event is lost to this watch.
            ListWatchError::Watch(kube::Error::SerdeError(_)) => ("watch", true),
            // The normal way to be told to list again.
            ListWatchError::Watch(_) if code == Some(410) => ("watch-expired", false),
            ListWatchError::Watch(_) | ListWatchError::Short => ("watch", false),
            ListWatchError::NoVersion => ("no-version", true),
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
            tracing::warn!(%kind, failures = self.failures, "cannot {}", with_causes(error));
        }
        list_anew
    }

    fn pause(&self) -> Duration {
        let pause = self.options.back_off.after(self.failures);
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

/// Why something cannot be read, without what stands there: that is the users' own.
fn without_values(reason: &serde_json::Error) -> String {
    let text = reason.to_string();
    match text.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}"),
        None if text.starts_with("missing field") => text,
        None => format!(
            "not as it should be at line {} column {}",
            reason.line(),
            reason.column()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_what_cannot_be_read_then_the_reason_does_not_show_it() {
        let reason = |json: &str| without_values(&serde_json::from_str::<Vec<u8>>(json).expect_err("unreadable"));
        assert_eq!(reason(r#"["s3cret, expected x"]"#), "expected u8 at line 1 column 21");
        assert_eq!(reason("[1, s3cret]"), "not as it should be at line 1 column 5");
    }
}
