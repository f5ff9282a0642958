//! How to live in a cluster: cache, queue, writer, lease, events, metrics, admin endpoint, shutdown.
//!
//! A process is put together in this order:
//!
//! 1. [`client`] finds the API server; [`requests`] counts what is sent to it.
//! 2. [`cache`] is told which kinds are used and gives a store for each. It runs on every replica, so that a standby is warm.
//! 3. [`lease`] decides which replica works; its [`lease::Leadership`] goes into the [`writer`], the only door for writes.
//! 4. Each [`controller`] has a [`queue`], fed from stores; it observes the stores, plans, and applies the plan with the writer.
//!    [`expectations`] make it wait until the cache shows what it wrote; [`events`] tell users.
//! 5. [`shutdown`] ends it all: controllers finish what is in flight, the lease is given back.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use kruise_runtime::shutdown::{CancellationToken, Tasks};
//! # use kruise_runtime::{cache::*, controller::*, events, lease::*, queue::*, requests::RequestMetrics, writer::*};
//! # async fn manager(config: kube::Config, registry: prometheus::Registry, stop: CancellationToken) -> Result<(), Box<dyn std::error::Error>> {
//! let requests = RequestMetrics::new(&registry)?;
//! let client = requests.client(&config)?;
//! let mut tasks = Tasks::new(stop.clone());
//!
//! let mut cache = Cache::new(client.clone(), CacheOptions::default(), &registry)?;
//! let maps = cache.watch(Kind::<ConfigMap>::of());
//! let synced = cache.syncing();
//! tasks.spawn("cache", cache.run(stop.clone()));
//! synced.within(Duration::from_secs(120)).await?;
//!
//! let writes = WriterMetrics::new(&registry)?;
//! let options = || WriterOptions::new("kruise-manager");
//! let telling = Writer::new(client.clone(), Leadership::always(), options(), writes.clone());
//! let (recorder, telling) = events::recorder(telling, "kruise-manager", "", &registry)?;
//! let stopping = stop.clone();
//! tasks.spawn("events", async move { Ok::<_, String>(telling.run(stopping).await) });
//!
//! // The lease has connections of its own.
//! let which = LeaseOptions::new("kruise-manager", "kruise-system", "kruise-manager");
//! let gauges = LeaseMetrics::new(&registry, "kruise-manager")?;
//! let lease = Lease::new(requests.client(&config)?, which, gauges, writes.clone())?.record_events(&recorder);
//! let leadership = lease.leadership();
//! tasks.spawn("lease", lease.run(stop.clone()));
//! let writer = Writer::new(client, leadership.clone(), options(), writes);
//!
//! let queue = Queue::new("cloneset-controller", Limits::default(), &QueueMetrics::new(&registry)?);
//! let controller = Controller::new("cloneset-controller", queue.clone(), 3, &ControllerMetrics::new(&registry)?);
//! let (writer, stopping) = (writer.named("cloneset-controller"), stop.clone());
//! tasks.spawn("cloneset-controller", async move {
//!     tokio::select! {
//!         () = stopping.cancelled() => return Ok::<_, String>(()),
//!         () = leadership.acquired() => for_objects(&maps, &queue),
//!     }
//!     let reconcile = move |key: kruise_runtime::resource::ObjectKey| {
//!         let (maps, writer) = (maps.clone(), writer.clone());
//!         async move {
//!             // observe(&maps, &key), plan, apply(plan, &writer)
//!             let _ = (maps.get(&key.namespace, &key.name), writer);
//!             Ok(Outcome::done())
//!         }
//!     };
//!     controller.run(stopping, reconcile).await;
//!     Ok(())
//! });
//! tasks.run(Duration::from_secs(8)).await?;
//! # Ok(())
//! # }
//! ```

pub mod admin;
pub mod back_off;
pub mod cache;
pub mod client;
pub mod controller;
pub mod error;
pub mod events;
pub mod expectations;
pub mod flags;
pub mod lease;
pub mod logging;
pub mod metrics;
pub mod queue;
pub mod requests;
pub mod resource;
mod shrink;
pub mod shutdown;
pub mod writer;
