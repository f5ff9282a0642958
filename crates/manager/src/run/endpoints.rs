//! The plain HTTP endpoints of the process.

use crate::Flags;
use kruise_admission::Readiness;
use kruise_runtime::{
    admin::{BindError, Checks, Listener, Plans, metrics_router, plan_router, pprof_router},
    cache::Contact,
    shutdown::Tasks,
};
use prometheus::Registry;
use std::sync::{Arc, OnceLock};
use tracing::error;

/// Sockets that listen and do not answer yet.
pub(super) struct Endpoints {
    metrics: Option<Listener>,
    health: Option<Listener>,
    debug: Option<Listener>,
    /// Answers once there is a cache.
    pub(super) state_metrics: Option<Listener>,
    /// The same.
    pub(super) live_page: Option<Listener>,
}

impl Endpoints {
    /// Listens where the flags say.
    pub(super) async fn bind(flags: &Flags) -> Result<Self, BindError> {
        let state_metrics = Listener::bind("--state-metrics-addr", &flags.state_metrics.state_metrics_addr).await?;
        let flags = &flags.process;
        let metrics = Listener::bind("--metrics-addr", &flags.metrics_addr).await?;
        let live_page = Listener::bind("--ui-addr", &flags.ui_addr).await?;
        let health = Listener::bind("--health-probe-addr", &flags.health_probe_addr).await?;
        let debug = if flags.enable_pprof {
            Listener::bind("--pprof-addr", &flags.pprof_addr)
                .await
                .unwrap_or_else(|failure| {
                    error!("{failure}; going on without");
                    None
                })
        } else {
            None
        };
        Ok(Self {
            metrics,
            health,
            debug,
            state_metrics,
            live_page,
        })
    }

    /// Answers from now on. Plans can be added to what is returned. Who does not hear of the API server for minutes is not well; before there is a cache
    /// nobody listens.
    pub(super) fn serve(
        self,
        tasks: &mut Tasks,
        registry: &Registry,
        readiness: &Readiness,
        contact: &Arc<OnceLock<Contact>>,
    ) -> Plans {
        let (readiness, contact) = (readiness.clone(), contact.clone());
        let alive = Checks::ping().with("cache-moves", move || {
            let heard = contact.get().map_or(Ok(()), Contact::check);
            async move { heard }
        });
        let ready = Checks::default().with("webhook-ready", move || {
            let readiness = readiness.clone();
            async move { readiness.check().await }
        });
        let health = alive.router("healthz").merge(ready.router("readyz"));
        let plans = Plans::default();
        let debug = pprof_router().merge(plan_router(plans.clone()));
        let stop = tasks.stop().clone();
        for (name, listener, router) in [
            ("metrics endpoint", self.metrics, metrics_router(registry.clone())),
            ("health endpoint", self.health, health),
            ("debug endpoint", self.debug, debug),
        ] {
            if let Some(listener) = listener {
                tasks.spawn(name, listener.serve(router, stop.clone()));
            }
        }
        plans
    }
}
