//! The life of the process, from settings to exit.
//!
//! 1. Listen: an address that is taken ends the process, the profiler's too (host network: somebody else is there).
//! 2. Connect to the node's container runtimes; without any there is nothing to do here, and the process ends.
//! 3. Serve health and metrics. Health waits for the API server and for the first list of everything that is watched; it does not
//!    depend on the container runtime.
//! 4. Reach the API server; failing that ends the process, and the DaemonSet starts it again.
//! 5. Watch what is about this node and nothing else, and start the workers when the first lists are there.
//! 6. Run until asked to stop, then stop within the grace that the chart gives.

use crate::{
    Settings, images::Puller, meta, meta::Reporter, platform::Platform, prober::Prober, recreate, recreate::Recreator,
};
use anyhow::{Context as _, Result};
use axum::{Router, http::StatusCode, routing::get};
use kruise_api::{
    containerrecreaterequest::v1beta1::ContainerRecreateRequest, gates::Gate, names::component::DAEMON_USER_AGENT,
    nodeimage::v1beta1::NodeImage, nodepodprobe::v1alpha1::NodePodProbe, pod::Pod,
};
use kruise_cri::{Runtimes, discover};
use kruise_runtime::{
    admin::{Checks, Latch, Listener, metrics_router, pprof_router},
    cache::{Cache, CacheOptions, Kind, Store, SyncState, Syncing},
    client, metrics,
    requests::RequestMetrics,
    shutdown::{CancellationToken, Tasks},
};
use kube::{Client, Config};
use prometheus::Registry;
use std::{convert::Infallible, sync::Arc, sync::OnceLock, time::Duration};
use tracing::{debug, info, warn};

/// The chart gives ten seconds before the kubelet kills; leave some for the way out.
const GRACE: Duration = Duration::from_secs(8);
/// The first lists are waited for this long.
const FIRST_LISTS: Duration = Duration::from_mins(5);

/// Runs until `stop`.
pub async fn run(settings: Settings, stop: CancellationToken) -> Result<()> {
    run_through(settings, stop, |config, requests| requests.client(&config)).await
}

/// Runs until `stop`, with a client that `dial` makes.
pub async fn run_through(
    settings: Settings,
    stop: CancellationToken,
    dial: impl Fn(Config, &RequestMetrics) -> kube::Result<Client>,
) -> Result<()> {
    announce(&settings);
    let flags = &settings.flags;
    let listener = Listener::bind("--addr", &flags.addr).await?;
    let pprof_listener = if flags.enable_pprof {
        Listener::bind("--pprof-addr", &flags.pprof_addr).await?
    } else {
        None
    };
    let config = client::config(&flags.kubeconfig, DAEMON_USER_AGENT).await?;
    let candidates = discover::candidates(&settings.sockets, &flags.socket_file);
    let runtimes = tokio::select! {
        runtimes = discover::connect(&candidates) => runtimes?,
        () = stop.cancelled() => return Ok(()),
    };

    let reached = Latch::default();
    let watched: Arc<OnceLock<Watched>> = Arc::default();
    let registry = metrics::registry(DAEMON_USER_AGENT, env!("CARGO_PKG_VERSION"))?;
    let router = health_router(checks(&reached, &watched)).merge(metrics_router(registry.clone()));
    let mut tasks = Tasks::new(stop.clone());
    for (name, listener, router) in [
        ("health and metrics endpoint", listener, router),
        ("profiler endpoint", pprof_listener, pprof_router()),
    ] {
        if let Some(listener) = listener {
            tasks.spawn(name, listener.serve(router, stop.clone()));
        }
    }

    let requests = RequestMetrics::new(&registry)?;
    let server = config.cluster_url.to_string();
    let api = dial(config, &requests)?;
    let (api, version) = tokio::select! {
        api = client::reach(api, server.clone()) => api?,
        () = stop.cancelled() => return Ok(tasks.run(GRACE).await?),
    };
    info!(server, %version, "the API server is reached");
    reached.set();
    let synced = start(&settings, &mut tasks, api, runtimes, &registry, &watched)?;
    let late = stop.clone();
    tasks.spawn("first lists", async move {
        tokio::select! {
            result = synced.within(FIRST_LISTS) => result?,
            () = late.cancelled() => {}
        }
        late.cancelled().await;
        Ok::<_, kruise_runtime::cache::NotSynced>(())
    });
    tasks.run(GRACE).await?;
    info!("stopped");
    Ok(())
}

fn announce(settings: &Settings) {
    for notice in &settings.notices {
        warn!("{notice}");
    }
    info!(
        version = env!("CARGO_PKG_VERSION"),
        node = settings.node,
        feature_gates = settings.flags.feature_gates.join(","),
        "kruise-daemon starts"
    );
    debug!("all feature gates: {}", settings.gates);
}

/// What is watched.
#[derive(Debug)]
struct Watched {
    images: Store<NodeImage>,
    requests: Store<ContainerRecreateRequest>,
    pods: Option<Store<Pod>>,
    probes: Option<Store<NodePodProbe>>,
}

/// Declares the watches and starts all workers. Each looks at what is there once the cache shows it.
fn start(
    settings: &Settings,
    tasks: &mut Tasks,
    api: Client,
    runtimes: Runtimes,
    registry: &Registry,
    watched: &OnceLock<Watched>,
) -> Result<Syncing> {
    // Looking again at what has not changed costs more here than it is worth: there are timers for what needs them.
    let options = CacheOptions {
        resync: None,
        ..CacheOptions::default()
    };
    let mut cache = Cache::new(api.clone(), options, registry)?;
    let of_this_node = format!("metadata.name={}", settings.node);
    let images = cache.watch(Kind::<NodeImage>::of().fields(&of_this_node));
    let requests = cache.watch(recreate::kind(&settings.node));
    let pods = settings
        .gates
        .enabled(Gate::DaemonWatchingPod)
        .then(|| cache.watch(meta::kind(&settings.node)));
    let probes = settings
        .gates
        .enabled(Gate::PodProbeMarkerGate)
        .then(|| cache.watch(Kind::<NodePodProbe>::of().fields(of_this_node)));
    let synced = cache.syncing();

    let (platform, events) = Platform::new(settings, api, runtimes, registry)?;
    let stop = tasks.stop().clone();
    tasks.spawn("cache", cache.run(stop.clone()));
    let telling = stop.clone();
    tasks.spawn("events", async move {
        events.run(telling).await;
        Ok::<_, Infallible>(())
    });
    let puller = Puller::new(&platform, images.clone(), &settings.flags);
    let recreator = Recreator::new(&platform, requests.clone(), pods.clone());
    let (when, stopping) = (synced.clone(), stop.clone());
    spawn(tasks, "image puller", &when, &stopping, puller.run(stop.clone()));
    spawn(
        tasks,
        "container recreate",
        &when,
        &stopping,
        recreator.run(stop.clone()),
    );
    if let Some(pods) = pods.clone() {
        let (reporter, restarter) = Reporter::new(&platform, pods);
        spawn(tasks, "container meta", &when, &stopping, reporter.run(stop.clone()));
        spawn(
            tasks,
            "container restart",
            &when,
            &stopping,
            restarter.run(stop.clone()),
        );
    }
    if let Some(probes) = probes.clone() {
        let prober = Prober::new(&platform, probes);
        spawn(tasks, "pod probe", &when, &stopping, prober.run(stop));
    }
    let stores = Watched {
        images,
        requests,
        pods,
        probes,
    };
    watched.set(stores).ok().context("the watches are declared once")?;
    Ok(synced)
}

/// Starts a worker when the first lists are there.
fn spawn(
    tasks: &mut Tasks,
    name: &'static str,
    when: &Syncing,
    stop: &CancellationToken,
    worker: impl Future<Output = Result<(), Infallible>> + Send + 'static,
) {
    let (when, stop) = (when.clone(), stop.clone());
    tasks.spawn(name, async move {
        tokio::select! {
            // That the lists are late ends the process, and is told elsewhere.
            _ = when.within(FIRST_LISTS) => worker.await,
            () = stop.cancelled() => Ok(()),
        }
    });
}

/// The checks of the original by name, and one for the server itself. A kind that is not served (its CRD is missing) holds up nobody.
fn checks(reached: &Latch, watched: &Arc<OnceLock<Watched>>) -> Checks {
    let listed = |state: fn(&Watched) -> SyncState| {
        let watched = watched.clone();
        move || {
            let state = watched.get().map_or(SyncState::Pending, state);
            async move {
                match state {
                    SyncState::Pending => Err("not synced".to_owned()),
                    SyncState::Missing | SyncState::Synced => Ok(()),
                }
            }
        }
    };
    Checks::default()
        .with_latch("apiServerReached", reached, "not reached yet")
        .with("nodeImageInformerSynced", listed(|watched| watched.images.state()))
        .with("crrInformerSynced", listed(|watched| watched.requests.state()))
        .with(
            "podInformerSynced",
            listed(|watched| watched.pods.as_ref().map_or(SyncState::Synced, Store::state)),
        )
        .with(
            "nodePodProbeInformerSynced",
            listed(|watched| watched.probes.as_ref().map_or(SyncState::Synced, Store::state)),
        )
}

/// `/healthz`: 200 `ok`, or 500 with the first check that fails, in the words of the original.
fn health_router(checks: Checks) -> Router {
    Router::new().route(
        "/healthz",
        get(move || async move {
            let failed = checks
                .run()
                .await
                .into_iter()
                .find_map(|(name, result)| Some((name, result.err()?)));
            match failed {
                None => (StatusCode::OK, "ok".to_owned()),
                Some((name, reason)) => (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    format!("check {name} failed, err: {reason}"),
                ),
            }
        }),
    )
}
