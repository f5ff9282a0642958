//! The controllers alone, for one namespace: no process around them, no lease, no webhooks. They start quickly, and many sets of them run at once.

use std::sync::Arc;

use kruise_manager::{Settings, controllers, platform::Platform};
use kruise_runtime::{
    admin::Plans, client, flags::parse, lease::Leadership, shutdown::CancellationToken, writer::WriterMetrics,
};
use kruise_testkit::{cluster, faults::Faults};
use prometheus::Registry;
use tokio::task::JoinSet;

use super::chart::config;

/// Run until they are stopped.
pub(super) struct Controllers {
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Controllers {
    /// They write through these faults. Events are not told: they are writes too, and come at no certain time.
    pub(super) async fn start(namespace: &str, faults: &Faults) -> Self {
        Self::start_from(namespace, None, faults, &[]).await
    }

    /// With more flags; an empty namespace means all.
    pub(super) async fn start_with(namespace: &str, faults: &Faults, more: &[&str]) -> Self {
        Self::start_from(namespace, None, faults, more).await
    }

    /// The same, and what a manager keeps for itself is in that namespace, too.
    pub(super) async fn start_around(namespace: &str, faults: &Faults) -> Self {
        Self::start_from(namespace, Some(namespace.to_owned()), faults, &[]).await
    }

    async fn start_from(namespace: &str, system: Option<String>, faults: &Faults, more: &[&str]) -> Self {
        let own = ["manager".to_owned(), format!("--namespace={namespace}")];
        let more = more.iter().map(|flag| (*flag).to_owned());
        let flags = parse(own.into_iter().chain(more)).unwrap();
        let variable = |name: &str| system.clone().filter(|_| name == "POD_NAMESPACE");
        let settings = Arc::new(Settings::read(flags, variable).unwrap());
        let client = faults.client_of(config(&cluster::kubeconfig()).await);
        let registry = Registry::new();
        let writes = WriterMetrics::new(&registry).unwrap();
        let (client, version) = client::reach(client, "the test's".to_owned()).await.unwrap();
        let always = Leadership::always();
        let built = Platform::new(&settings, client, version, Plans::default(), always, &writes, &registry);
        let (mut platform, _events) = built.unwrap();
        let parts = controllers::build(&mut platform);
        platform.budgets().read_from(platform.stores());
        let cache = platform.into_cache();
        let (stop, synced) = (CancellationToken::new(), cache.syncing());
        let mut tasks = JoinSet::new();
        let stopped = stop.clone();
        tasks.spawn(async move { drop(cache.run(stopped).await) });
        let stopped = stop.clone();
        tasks.spawn(async move {
            let patience = settings.flags.api.controller_cache_sync_timeout;
            tokio::select! {
                synced = synced.within(patience) => drop(synced),
                () = stopped.cancelled() => {}
            }
            let running = parts.into_iter().map(|part| part.run(stopped.clone()));
            futures::future::join_all(running).await;
        });
        Self { stop, tasks }
    }

    /// Ends them; what is in flight is cut off when their world has ended before, see [`Faults::crash`].
    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.tasks.join_all().await;
    }
}
