//! The life of the process, from settings to exit.
//!
//! 1. Listen: an address that is taken ends the process at once; only the profiler's may fail.
//! 2. Open the record of refused deletions.
//! 3. Serve health and metrics. Readiness waits for the webhooks, and for a while for what they read from the cache; a cache that does not hear of the API server for minutes is unhealthy.
//! 4. Reach the API server and read its version and those of our kinds; failing that ends the process.
//! 5. Declare what is watched, by controllers, for state metrics and for the live page, and fill the cache. Every replica does, so that a standby can take over at once.
//! 6. Start admission. Not before its certificates are handed out does the process go on, and not getting there in time ends it. It does not wait for the
//!    cache: objects in an older version are listed only once we convert them.
//! 7. Stand for election. The replica that leads runs the controllers; a lost lease ends the process.
//! 8. Run until asked to stop. Then controllers finish what they are at, the lease is given back, and admission answers a little longer,
//!    all within the grace that the chart gives.

mod endpoints;
mod leading;

use crate::{
    Settings, configuration, controllers,
    leader::LeaseHolder,
    live_page::{self, LivePage},
    platform::Platform,
    state_metrics::StateMetrics,
};
use anyhow::Result;
use endpoints::Endpoints;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kruise_admission::{
    Admission, AdmissionError, AuditLog, Dependencies, Installed, Readiness,
    explain::{Explainer, Inquiry},
};
use kruise_api::{kind::Kind as _, names::component::MANAGER_USER_AGENT};
use kruise_runtime::{
    admin::exposition_router,
    client,
    lease::Leadership,
    metrics,
    requests::RequestMetrics,
    shutdown::{CancellationToken, Tasks},
    writer::{Writer, WriterMetrics, WriterOptions},
};
use kube::{Client, Config};
use leading::Leading;
use std::{convert::Infallible, sync::Arc, time::Duration};
use tracing::{debug, info, warn};

/// The chart gives ten seconds before the kubelet kills; leave some for the way out.
const GRACE: Duration = Duration::from_secs(8);

/// Runs until `stop`.
pub async fn run(settings: Settings, stop: CancellationToken) -> Result<()> {
    run_through(settings, stop, |config, requests| requests.client(&config)).await
}

/// Runs until `stop`, with clients that `dial` makes.
pub async fn run_through(
    settings: Settings,
    stop: CancellationToken,
    dial: impl Fn(Config, &RequestMetrics) -> kube::Result<Client>,
) -> Result<()> {
    let settings = Arc::new(settings);
    announce(&settings);
    let mut endpoints = Endpoints::bind(&settings.flags).await?;
    let (state_metrics, live_page) = (endpoints.state_metrics.take(), endpoints.live_page.take());
    let audit = AuditLog::open(&settings.flags.process.protection_log_path)?;
    let registry = metrics::registry(MANAGER_USER_AGENT, env!("CARGO_PKG_VERSION"))?;
    let readiness = Readiness::default();
    let mut tasks = Tasks::new(stop.clone());
    let contact = Arc::default();
    let plans = endpoints.serve(&mut tasks, &registry, &readiness, &contact);

    let config = client::config(&settings.flags.api.kubeconfig, MANAGER_USER_AGENT).await?;
    let requests = RequestMetrics::new(&registry)?;
    let api = dial(config.clone(), &requests)?;
    let server = config.cluster_url.to_string();
    let (api, version) = tokio::select! {
        reached = client::reach(api, server.clone()) => reached?,
        () = stop.cancelled() => return Ok(tasks.run(GRACE).await?),
    };
    info!(server, %version, pod_resize = version.has_pod_resize(), "the API server is reached");

    let writes = WriterMetrics::new(&registry)?;
    let mut leading = Leading::new(&settings, &registry, writes.clone(), || dial(config, &requests))?;
    let leadership = leading.leadership();
    let explainer = Explainer {
        plans: plans.clone(),
        leader: Arc::new(LeaseHolder::new(api.clone(), leadership.clone(), &settings)),
    };
    let (mut platform, events) = Platform::new(&settings, api.clone(), version, plans, leadership, &writes, &registry)?;
    leading.record_events(platform.recorder());
    configuration::watch(&mut platform, &registry)?;
    platform.watch_for_admission();
    let handles = controllers::build(&mut platform);
    if let Some(listener) = state_metrics {
        let state = StateMetrics::new(&mut platform, &settings.state_metrics, leading.leadership(), &registry)?;
        let router = exposition_router(move || state.page());
        tasks.spawn("state metrics endpoint", listener.serve(router, stop.clone()));
    }
    if let Some(listener) = live_page {
        let inquiry = Inquiry::new(explainer.clone(), api.clone(), &settings.admission());
        let page = LivePage::new(&mut platform, inquiry, leading.leadership(), &registry)?;
        let (router, changes) = page.serve(stop.clone());
        tasks.spawn("live page", changes);
        let listener = listener.for_connections(live_page::CONNECTIONS);
        tasks.spawn("live page endpoint", listener.serve(router, stop.clone()));
    }
    let stores = platform.stores();
    let budgets = platform.budgets().clone();
    budgets.read_from(stores.clone());
    let spreads = platform.spreads().clone();
    spreads.read_from(stores.clone(), platform.metadata_store(ReplicaSet::RESOURCE));
    let mut cache = platform.into_cache();
    let installed = Installed::watch(&mut cache, &settings.admission());
    let synced = cache.syncing();
    // Set once, here.
    let _ = contact.set(cache.contact());
    tasks.spawn("cache", cache.run(stop.clone()));
    let telling = stop.clone();
    tasks.spawn("events", async move {
        events.run(telling).await;
        Ok::<_, Infallible>(())
    });

    let given = Dependencies {
        client: api.clone(),
        stores,
        installed,
        // Certificates are every replica's, whoever leads.
        writer: Writer::new(
            api,
            Leadership::always(),
            WriterOptions::new(MANAGER_USER_AGENT),
            writes,
        ),
        audit: Some(audit),
        budgets: Some(budgets),
        explainer: Some(explainer),
        spreads: Some(spreads),
        gates: settings.gates,
        registry,
        readiness,
    };
    match Admission::start(settings.admission(), given, stop.clone()).await {
        Ok(admission) => tasks.spawn("admission", admission.wait()),
        Err(AdmissionError::Stopped) => return Ok(tasks.run(GRACE).await?),
        Err(error) => return Err(error.into()),
    }
    let patience = settings.flags.api.controller_cache_sync_timeout;
    leading.spawn(&mut tasks, handles, synced, patience);
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
        feature_gates = settings.flags.process.feature_gates.join(","),
        "kruise-manager starts"
    );
    debug!("all feature gates: {}", settings.gates);
}
