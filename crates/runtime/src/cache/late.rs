//! Watches that begin and end while the cache runs: of kinds that only the cluster's configuration names.
//!
//! Nobody waits for them. What is missing or forbidden is asked for again and again, as with any kind, but makes the process neither unready nor unhealthy: an
//! administrator can name a kind that is not there.

use futures::future::BoxFuture;
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::contact::LastHeard;
use super::metrics::CacheMetrics;
use super::reflect::Reflector;
use super::{CacheOptions, Kind, Store};

/// Begins watches while the cache runs. Clones are the same.
#[derive(Clone)]
pub struct LateWatches {
    client: Client,
    options: CacheOptions,
    metrics: CacheMetrics,
    send: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
    stop: CancellationToken,
}

/// A watch that lasts as long as this is kept.
#[derive(Debug)]
pub struct LateWatch {
    _stop: DropGuard,
}

impl LateWatches {
    pub(super) fn new(
        client: Client,
        options: CacheOptions,
        metrics: CacheMetrics,
        send: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            client,
            options,
            metrics,
            send,
            stop,
        }
    }

    /// Watches a kind from now on, or from when the cache runs. Not for a kind that is watched already.
    pub fn watch<K>(&self, kind: Kind<K>) -> (Store<K>, LateWatch)
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        let metrics = self.metrics.of(&kind.resource().to_string());
        let store = Store::counting(kind, metrics.handler_panics.clone());
        let (client, options) = (self.client.clone(), self.options.clone());
        let reflector = Reflector::new(client, store.clone(), options, metrics.clone(), LastHeard::now());
        let stop = self.stop.child_token();
        let watch = LateWatch {
            _stop: stop.clone().drop_guard(),
        };
        // Without a receiver the cache has ended, and so has the process.
        let _ = self.send.send(Box::pin(async move {
            reflector.run(stop).await;
            metrics.end();
        }));
        (store, watch)
    }
}

impl std::fmt::Debug for LateWatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LateWatches").finish_non_exhaustive()
    }
}
