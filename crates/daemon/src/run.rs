//! The life of the process, from settings to exit.
//!
//! 1. Listen: an address that is taken ends the process, the profiler's too (host network: somebody else is there).
//! 2. Serve health and metrics. Health waits for the API server.
//! 3. Reach the API server; failing that ends the process, and the DaemonSet starts it again.
//! 4. Run until asked to stop, then stop within the grace that the chart gives.

use crate::Settings;
use anyhow::Result;
use axum::{Router, http::StatusCode, routing::get};
use kruise_api::names::component::DAEMON_USER_AGENT;
use kruise_runtime::{
    admin::{Checks, Latch, Listener, metrics_router, pprof_router},
    client, metrics,
    shutdown::{CancellationToken, Tasks},
};
use std::time::Duration;
use tracing::{debug, info, warn};

/// The chart gives ten seconds before the kubelet kills; leave some for the way out.
const GRACE: Duration = Duration::from_secs(8);

/// Runs until `stop`.
pub async fn run(settings: Settings, stop: CancellationToken) -> Result<()> {
    for notice in &settings.notices {
        warn!("{notice}");
    }
    let flags = &settings.flags;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        node = settings.node,
        feature_gates = flags.feature_gates.join(","),
        "kruise-daemon starts"
    );
    debug!("all feature gates: {}", settings.gates);
    let listener = Listener::bind("--addr", &flags.addr).await?;
    let pprof_listener = if flags.enable_pprof {
        Listener::bind("--pprof-addr", &flags.pprof_addr).await?
    } else {
        None
    };

    let reached = Latch::default();
    let checks = Checks::default().with_latch("apiServerReached", &reached, "not reached yet");
    let registry = metrics::registry(DAEMON_USER_AGENT, env!("CARGO_PKG_VERSION"))?;
    let router = health_router(checks).merge(metrics_router(registry));
    let mut tasks = Tasks::new(stop.clone());
    for (name, listener, router) in [
        ("health and metrics endpoint", listener, router),
        ("profiler endpoint", pprof_listener, pprof_router()),
    ] {
        if let Some(listener) = listener {
            tasks.spawn(name, listener.serve(router, stop.clone()));
        }
    }

    let config = client::config(&flags.kubeconfig, DAEMON_USER_AGENT).await?;
    let server = config.cluster_url.clone();
    tokio::select! {
        connected = client::connect(config) => {
            let (_, version) = connected?;
            info!(%server, %version, "the API server is reached");
            reached.set();
        }
        () = stop.cancelled() => {}
    }
    tasks.run(GRACE).await?;
    info!("stopped");
    Ok(())
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
