//! What controllers are built from: one cache, one door for writes, events, metrics.
//!
//! Everything is declared before anything runs. A kind is watched because a controller asked for its store, and for no other reason.

mod context;
mod distribution;
mod images;
pub mod live;
mod probes;
mod sidecars;
mod watched;
mod workloads;

pub use context::ControllerContext;
pub use distribution::{DISTRIBUTIONS_BY_RESOURCE, distributed};
pub use images::{
    ACTIVE_JOBS, IMAGES_BY_JOB, IMAGES_BY_LABEL, JOBS_BY_OWNER, JOBS_BY_POD_NAMESPACE, JOBS_BY_SECRET, LISTS_BY_OWNER,
    PODS_BY_NAMESPACE, REQUESTS_BY_POD, SECRETS_BY_SOURCE, SECRETS_BY_USER,
};
pub use probes::NODE_PROBES_BY_MARKER;
pub use sidecars::{PODS_BY_SIDECAR_SET, SETS_BY_BASE};
pub use watched::{
    HEADS_BY_OWNER, ORPHANS_BY_NAMESPACE, PODS_BY_NODE, PODS_BY_OWNER, REVISIONS_BY_NAMESPACE, SUBSET_ORPHANS,
    SUBSETS_BY_OWNER, Watched,
};
pub use workloads::{Resolved, Workloads, look_up};

use crate::Settings;
use jiff::Timestamp;
use kruise_admission::{Budgets, Spreads, descriptor};
use kruise_api::{
    gates::Gate,
    meta::PartialObject,
    names::component::{MANAGER_USER_AGENT, controller, source},
    resource::Resource,
    scaled::Scaled,
    uniteddeployment::workload::SubsetWorkload,
};
use kruise_core::{
    plan::{self, Env},
    workloadspread::version::VersionedKinds,
};
use kruise_runtime::{
    admin::Plans,
    cache::{Cache, CacheOptions, Kind, LateWatches, Store, Stores, Traffic},
    client::ServerVersion,
    controller::ControllerMetrics,
    events::{self, EventWriter, Recorder},
    expectations::{ExpectationMetrics, Expectations},
    lease::Leadership,
    queue::{Limits, Queue, QueueMetrics},
    writer::{Writer, WriterMetrics, WriterOptions},
};
use kube::Client;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};
use std::{collections::HashMap, fmt, sync::Arc};

/// Everything that controllers share.
pub struct Platform {
    settings: Arc<Settings>,
    server: ServerVersion,
    client: Client,
    cache: Cache,
    stores: Stores,
    metadata_stores: HashMap<&'static Resource, Store<PartialObject>>,
    scaled_stores: HashMap<&'static Resource, Store<Scaled>>,
    subset_stores: HashMap<&'static Resource, Store<SubsetWorkload>>,
    budgets: Budgets,
    spreads: Spreads,
    plans: Plans,
    writer: Writer,
    recorder: Recorder,
    queues: QueueMetrics,
    controllers: ControllerMetrics,
    expectations: ExpectationMetrics,
    leaks: IntCounterVec,
    pods_without_sidecars: IntGaugeVec,
}

impl Platform {
    /// A platform without watches yet, and the writer of its events, which has to be run.
    pub fn new(
        settings: &Arc<Settings>,
        client: Client,
        server: ServerVersion,
        plans: Plans,
        leadership: Leadership,
        writes: &WriterMetrics,
        registry: &Registry,
    ) -> prometheus::Result<(Self, EventWriter)> {
        let options = CacheOptions {
            namespace: settings.flags.api.namespace.clone(),
            resync: settings.resync,
            ..CacheOptions::default()
        };
        let rated = WriterOptions {
            rate: settings.rate(),
            ..WriterOptions::new(MANAGER_USER_AGENT)
        };
        // What happened is worth telling even when the lease is lost.
        let telling = Writer::new(client.clone(), Leadership::always(), rated.clone(), writes.clone());
        let (recorder, events) = events::recorder(telling.named("events"), MANAGER_USER_AGENT, "", registry)?;
        // Every replica answers webhooks, and each has to be able to write down what it grants.
        let granting = Writer::new(client.clone(), Leadership::always(), rated.clone(), writes.clone());
        let budgets = Budgets::new(
            client.clone(),
            granting.named(source::BUDGET_WEBHOOK),
            recorder.named(source::BUDGET_WEBHOOK),
            settings.gates,
        );
        let noting = Writer::new(client.clone(), Leadership::always(), rated.clone(), writes.clone());
        let spreads = Spreads::new(
            client.clone(),
            noting.named(controller::WORKLOAD_SPREAD),
            VersionedKinds::read(&settings.flags.rules.ws_enabled_versioned_status),
        );
        let leaks = IntCounterVec::new(
            Opts::new(
                "cloneset_scale_expectation_leakage",
                "Pods or claims that a CloneSet created or deleted and did not see so within the expectation timeout.",
            ),
            &["namespace", "name"],
        )?;
        registry.register(Box::new(leaks.clone()))?;
        let pods_without_sidecars = IntGaugeVec::new(
            Opts::new(
                "kruise_sidecarset_pods_without_sidecars",
                "Pods that should have the containers of a SidecarSet and do not.",
            ),
            &["name"],
        )?;
        registry.register(Box::new(pods_without_sidecars.clone()))?;
        let platform = Self {
            settings: settings.clone(),
            server,
            client: client.clone(),
            cache: Cache::new(client.clone(), options, registry)?,
            stores: Stores::default(),
            metadata_stores: HashMap::new(),
            scaled_stores: HashMap::new(),
            subset_stores: HashMap::new(),
            budgets,
            spreads,
            plans,
            writer: Writer::new(client, leadership, rated, writes.clone()),
            recorder,
            queues: QueueMetrics::new(registry)?,
            controllers: ControllerMetrics::new(registry)?,
            expectations: ExpectationMetrics::new(registry)?,
            leaks,
            pods_without_sidecars,
        };
        Ok((platform, events))
    }

    /// What the process goes by.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The API server's version.
    pub fn server(&self) -> ServerVersion {
        self.server
    }

    /// Returns the flags of the process that decisions read.
    pub fn plan_settings(&self) -> plan::Settings {
        let rules = &self.settings.flags.rules;
        plan::Settings {
            exclude_preparing_delete: rules.cloneset_scaling_exclude_preparing_delete,
            image_pull_jobs: self.settings.gates.enabled(Gate::PreDownloadImageForInPlaceUpdate),
            daemon_pods_skip_scheduler: !rules.assign_pods_by_scheduler,
        }
    }

    /// The objects of a kind, which is watched from now on. Whoever asks gets the same store.
    pub fn store<K: Watched>(&mut self) -> Store<K> {
        if let Some(store) = self.stores.get() {
            return store;
        }
        let store = self.cache.watch(K::kind(&self.settings));
        self.stores.insert(store.clone());
        store
    }

    /// Returns the stores that were asked for so far, for admission.
    pub fn stores(&self) -> Stores {
        self.stores.clone()
    }

    /// The objects of a kind of which only the metadata is read; it is watched from now on.
    pub fn metadata_store(&mut self, resource: &'static Resource) -> Store<PartialObject> {
        let cache = &mut self.cache;
        let store = self.metadata_stores.entry(resource);
        store
            .or_insert_with(|| cache.watch(watched::metadata_only(resource)))
            .clone()
    }

    /// The objects of a kind of which only the replicas are read; it is watched from now on.
    pub fn scaled_store(&mut self, resource: &'static Resource) -> Store<Scaled> {
        let cache = &mut self.cache;
        let store = self.scaled_stores.entry(resource);
        store.or_insert_with(|| cache.watch(Kind::partial(resource))).clone()
    }

    /// The workloads of a kind that subsets may have; it is watched from now on.
    pub fn subset_store(&mut self, resource: &'static Resource) -> Store<SubsetWorkload> {
        let cache = &mut self.cache;
        let store = self.subset_stores.entry(resource);
        store.or_insert_with(|| cache.watch(watched::subset(resource))).clone()
    }

    /// Returns what watches kinds that only the cluster's configuration names.
    pub fn late_watches(&self) -> LateWatches {
        self.cache.late_watches()
    }

    /// Returns the budgets of Pods, which are asked before a Pod is disturbed.
    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// Returns the spreads that give Pods their subsets.
    pub fn spreads(&self) -> &Spreads {
        &self.spreads
    }

    /// For what is read when it is needed, and not watched.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Pods that lack their sidecars, by SidecarSet.
    pub fn pods_without_sidecars(&self) -> &IntGaugeVec {
        &self.pods_without_sidecars
    }

    /// Where controllers say what they would do.
    pub fn plans(&self) -> &Plans {
        &self.plans
    }

    /// Tells people what happened, under the name of the process.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// What one controller works with.
    pub fn context(&self, described: &'static descriptor::Controller) -> ControllerContext {
        let name = described.name;
        let limits = if described.rate_limited {
            self.settings.limits()
        } else {
            Limits::default()
        };
        let patience = self.settings.flags.api.expectation_timeout;
        let mut expectations = Expectations::new(name, patience, &self.expectations).asking(self.client.clone());
        if name == controller::CLONE_SET {
            let forces = self.settings.gates.enabled(Gate::ForceDeleteTimeoutExpectationGate);
            expectations = expectations.telling_leaks(&self.leaks).forcing(forces);
        }
        ControllerContext {
            name,
            client: self.client.clone(),
            workers: self.settings.flags.workers.of(described),
            queue: Queue::new(name, limits, &self.queues),
            writer: self.writer.named(name),
            recorder: self.recorder.named(name),
            expectations: Arc::new(expectations),
            budgets: self.budgets.clone(),
            metrics: self.controllers.clone(),
            env: Env {
                gates: self.settings.gates,
                settings: self.plan_settings(),
                server: plan::Server {
                    pod_resize: self.server.has_pod_resize(),
                },
                ..Env::at(Timestamp::UNIX_EPOCH)
            },
        }
    }

    /// Returns what knows how often the kinds that were asked for so far were listed and watched.
    pub fn traffic(&self) -> Traffic {
        self.cache.traffic()
    }

    /// The cache with everything that was asked for; it has to be run.
    pub fn into_cache(self) -> Cache {
        self.cache
    }
}

impl fmt::Debug for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Platform")
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod fixture;
