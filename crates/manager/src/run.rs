//! The life of the process, from settings to exit.
//!
//! 1. Listen: an address that is taken ends the process at once; only the profiler's may fail.
//! 2. Open the record of refused deletions.
//! 3. Serve health and metrics. Readiness waits for the API server.
//! 4. Reach the API server and read its version; failing that ends the process.
//! 5. Run until asked to stop, then stop within the grace that the chart gives.

use crate::{Settings, audit::AuditLog};
use anyhow::Result;
use kruise_api::names::component::MANAGER_USER_AGENT;
use kruise_runtime::{
    admin::{Checks, Latch, Listener, metrics_router, pprof_router},
    client, metrics,
    shutdown::{CancellationToken, Tasks},
};
use std::time::Duration;
use tracing::{debug, error, info, warn};

/// The chart gives ten seconds before the kubelet kills; leave some for the way out.
const GRACE: Duration = Duration::from_secs(8);

/// Runs until `stop`.
pub async fn run(settings: Settings, stop: CancellationToken) -> Result<()> {
    for notice in &settings.notices {
        warn!("{notice}");
    }
    info!(
        version = env!("CARGO_PKG_VERSION"),
        feature_gates = settings.flags.process.feature_gates.join(","),
        "kruise-manager starts"
    );
    debug!("all feature gates: {}", settings.gates);
    let process = &settings.flags.process;
    let metrics_listener = Listener::bind("--metrics-addr", &process.metrics_addr).await?;
    let health_listener = Listener::bind("--health-probe-addr", &process.health_probe_addr).await?;
    let pprof_listener = if process.enable_pprof {
        Listener::bind("--pprof-addr", &process.pprof_addr)
            .await
            .unwrap_or_else(|failure| {
                error!("{failure}; going on without");
                None
            })
    } else {
        None
    };
    let _audit = AuditLog::open(&process.protection_log_path)?;

    let reached = Latch::default();
    let ready = Checks::default().with_latch("api-server", &reached, "the API server was not reached yet");
    let health = Checks::ping().router("healthz").merge(ready.router("readyz"));
    let registry = metrics::registry(MANAGER_USER_AGENT, env!("CARGO_PKG_VERSION"))?;
    let mut tasks = Tasks::new(stop.clone());
    for (name, listener, router) in [
        ("metrics endpoint", metrics_listener, metrics_router(registry)),
        ("health endpoint", health_listener, health),
        ("profiler endpoint", pprof_listener, pprof_router()),
    ] {
        if let Some(listener) = listener {
            tasks.spawn(name, listener.serve(router, stop.clone()));
        }
    }

    let config = client::config(&settings.flags.api.kubeconfig, MANAGER_USER_AGENT).await?;
    let server = config.cluster_url.clone();
    tokio::select! {
        connected = client::connect(config) => {
            let (_, version) = connected?;
            info!(%server, %version, pod_resize = version.has_pod_resize(), "the API server is reached");
            reached.set();
        }
        () = stop.cancelled() => {}
    }
    tasks.run(GRACE).await?;
    info!("stopped");
    Ok(())
}
