//! What the cluster looks like now, as far as the API server has told us.
//!
//! - Each kind that somebody uses is listed and watched once. Its objects stand in a [`Store`]; readers get the same
//!   immutable `Arc` that everybody else reads, never a copy.
//! - Objects are found by namespace and name, and through the [`Index`]es that the kind declares.
//! - Big kinds are kept as *projections*: types that declare only the fields our decisions read. The parser skips the rest.
//! - No call waits without end: an answer that does not come in time is a failure, and is asked for again. [`Cache::contact`] tells how long ago the
//!   API server was heard of.
//! - A list is read object by object while it arrives, so that big objects do not need memory all at once.
//! - A watch that breaks is resumed; a watch that fell behind (410) becomes a new list. A list replaces object by object and
//!   at its end removes what it did not contain, so deletions are seen even when they happened while nobody watched.
//! - A kind that the server does not serve (its CRD is missing) is asked for again and again, and appears when its CRD comes.
//! - An object that cannot be read is counted, named once in the log, and left out. When an older version of it is known, that
//!   one stays until the object can be read again or is gone. Unreadable must not look like absent: its metadata is kept, and
//!   [`Store::unreadable_in`] tells who has to reckon with such objects.
//! - [`Store::subscribe`] hands every change as a pair (old, new) to a function that turns it into work.
//! - [`Store::position`] says how far the store has come; [`crate::expectations`] are built on it.
//! - Kinds that only the cluster's configuration names are watched while the cache runs, for as long as they are named: [`LateWatches`].
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::{ConfigMap, Pod};
//! use kruise_runtime::cache::{Cache, CacheOptions, Index, Kind};
//! # use kruise_runtime::shutdown::CancellationToken;
//!
//! const BY_NODE: Index<Pod> = Index::new("node", |pod, key| {
//!     if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) {
//!         key(node);
//!     }
//! });
//!
//! # async fn example(client: kube::Client, stop: CancellationToken) -> Result<(), Box<dyn std::error::Error>> {
//! let mut cache = Cache::new(client, CacheOptions::default(), &prometheus::Registry::new())?;
//! let pods = cache.watch(Kind::<Pod>::of().index(&BY_NODE));
//! let config = cache.watch(Kind::<ConfigMap>::of());
//! let synced = cache.syncing();
//! tokio::spawn(cache.run(stop));
//! synced.within(std::time::Duration::from_secs(120)).await?;
//! for pod in pods.by(&BY_NODE, "node-1") {
//!     println!("{:?} {:?}", pod.metadata.name, config.get("kube-system", "coredns").is_some());
//! }
//! # Ok(())
//! # }
//! ```

mod contact;
mod decode;
mod events;
mod index;
mod kind;
mod late;
mod list_watch;
mod metrics;
mod page;
mod reflect;
mod store;
mod stores;
mod sync;
mod table;
mod unreadable;

use std::time::Duration;

use futures::future::BoxFuture;
use kube::Client;
use prometheus::Registry;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use contact::Contact;
pub use index::{Index, Keys, uid_key};
pub use kind::{Kind, Named, Version};
pub use late::{LateWatch, LateWatches};
pub(crate) use list_watch::{ListWatchEvent, Selection, list_watch};
pub use store::{Change, Event, Origin, Position, Store};
pub use stores::Stores;
pub use sync::{NotSynced, SyncState, Syncing};

use crate::back_off::BackOff;
use contact::LastHeard;
use metrics::CacheMetrics;
pub use metrics::{KindTraffic, Traffic};

/// How the cache works; the defaults are right for the manager.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Only objects of this namespace, and those outside of all namespaces; empty for everything.
    pub namespace: String,
    /// How often every object is handed out again although nothing changed; never when `None`.
    pub resync: Option<Duration>,
    /// Pauses after a failed list or watch.
    pub back_off: BackOff,
    /// How long the API server may take to answer, and then to go on with its answer.
    pub deadline: Duration,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            namespace: String::new(),
            resync: Some(Duration::from_hours(10)),
            back_off: BackOff::new(Duration::from_millis(200), Duration::from_secs(10)),
            deadline: Duration::from_secs(30),
        }
    }
}

/// The set of watched kinds. Declare them with [`Cache::watch`], then [`Cache::run`] it.
pub struct Cache {
    client: Client,
    options: CacheOptions,
    metrics: CacheMetrics,
    syncing: Syncing,
    contact: Contact,
    traffic: Traffic,
    reflectors: Vec<(String, BoxFuture<'static, ()>)>,
    late: LateWatches,
    latecomers: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>,
    stop: CancellationToken,
}

impl Cache {
    /// An empty cache; its counters are registered once.
    pub fn new(client: Client, options: CacheOptions, registry: &Registry) -> prometheus::Result<Self> {
        let (metrics, stop) = (CacheMetrics::new(registry)?, CancellationToken::new());
        let (send, latecomers) = mpsc::unbounded_channel();
        Ok(Self {
            late: LateWatches::new(client.clone(), options.clone(), metrics.clone(), send, stop.clone()),
            client,
            options,
            metrics,
            syncing: Syncing::default(),
            contact: Contact::default(),
            traffic: Traffic::default(),
            reflectors: Vec::new(),
            latecomers,
            stop,
        })
    }

    /// Declares that a kind is used. Declare each kind once and share its store.
    pub fn watch<K>(&mut self, kind: Kind<K>) -> Store<K>
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        let resource = kind.resource();
        let name = resource.to_string();
        let metrics = self.metrics.of(&name);
        self.traffic.add(resource, metrics.clone());
        let store = Store::counting(kind, metrics.handler_panics.clone());
        let heard = LastHeard::now();
        self.syncing.add(name.clone(), store.states());
        self.contact.add(name.clone(), heard.clone());
        let reflector =
            reflect::Reflector::new(self.client.clone(), store.clone(), self.options.clone(), metrics, heard);
        let stop = self.stop.clone();
        self.reflectors.push((name, Box::pin(reflector.run(stop))));
        store
    }

    /// Returns what watches further kinds while the cache runs.
    pub fn late_watches(&self) -> LateWatches {
        self.late.clone()
    }

    /// Returns what knows when the first lists are complete.
    pub fn syncing(&self) -> Syncing {
        self.syncing.clone()
    }

    /// Returns what knows how long ago the API server was heard of.
    pub fn contact(&self) -> Contact {
        self.contact.clone()
    }

    /// Returns what knows how often the kinds that are watched so far were listed and watched.
    pub fn traffic(&self) -> Traffic {
        self.traffic.clone()
    }

    /// Watches until `stop`.
    ///
    /// # Errors
    ///
    /// Fails when a watch ends before that: a cache that stands still must not be read.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), CacheStopped> {
        let mut running = JoinSet::new();
        for (name, reflector) in self.reflectors {
            running.spawn(async move {
                reflector.await;
                Some(name)
            });
        }
        let ended = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break Ok(()),
                Some(ended) = running.join_next() => match ended {
                    // One that came late ends when nobody needs it any more.
                    Ok(None) => {}
                    Ok(Some(name)) => break Err(format!("the watch of {name} has ended")),
                    Err(panic) => break Err(format!("a watch has failed: {panic}")),
                },
                Some(latecomer) = self.latecomers.recv() => drop(running.spawn(async move {
                    latecomer.await;
                    None
                })),
            }
        };
        self.stop.cancel();
        ended.map_err(CacheStopped)?;
        while running.join_next().await.is_some() {}
        Ok(())
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.reflectors.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

/// A part of the cache ended although nobody asked it to.
#[derive(Debug, thiserror::Error)]
#[error("{0}; the process has to be started again")]
pub struct CacheStopped(String);
