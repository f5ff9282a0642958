//! Admission: the TLS server that the API server asks, its certificates, and the registry of what is asked about.
//!
//! [`Admission::start`] is the way in. What each kind does is declared in [`descriptor`] and decided by pure functions of `kruise-core`.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod admit;
mod alone;
mod audit;
pub mod budgets;
mod certificate_reconciler;
mod certificates;
mod configurations;
mod conversion;
mod crds;
pub mod descriptor;
mod dispatch;
mod endpoint;
pub mod explain;
mod find_pods;
mod look_up;
mod metrics;
mod pods;
mod protect;
mod readiness;
mod review;
mod server;
mod settings;
mod spreads;
mod templates;
mod validate_pod;

mod verdict;

pub use alone::Alone;
pub use audit::{AuditError, AuditLog};
pub use budgets::Budgets;
pub use look_up::{Cluster, Found, Freshness, LookUp};
pub use pods::{MARKERS_BY_NAMESPACE, REVISIONS_BY_SIDECAR_SET, SETS_BY_POD, SPREADS_BY_NAMESPACE, STATES_BY_TARGET};
pub use readiness::Readiness;
pub use review::{Request, Resource, User};
pub use settings::{CertStore, Settings};
pub use spreads::Spreads;
pub use templates::{TemplateCheck, Templates, Unchecked};
pub use verdict::Verdict;

use audit::Audit;
pub use certificate_reconciler::Installed;
use certificate_reconciler::{ApiAccess, CertificateReconciler, Progress};
use dispatch::Dispatch;
use explain::{Explainer, Explanations};
use kruise_api::{gates::Gates, names::object::SYSTEM_NAMESPACE};
use kruise_runtime::{cache::Stores, writer::Writer};
use kube::Client;
use metrics::Metrics;
use prometheus::Registry;
use server::{DrainOptions, Limits, Running, Server, ServingCertificate};
use std::{fmt, io, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    task::{JoinError, JoinHandle},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// What handlers can rely on.
#[derive(Clone)]
pub struct Context {
    pub gates: Gates,
    pub templates: Templates,
    pub lookup: Arc<dyn LookUp>,
    /// The cache of the process, for handlers that read more of it than a few objects. A store may not be complete yet: [`Stores::synced`].
    pub stores: Stores,
    /// The budgets that Pods belong to; none where nobody keeps them.
    pub budgets: Option<Budgets>,
    explanations: Option<Explanations>,
    /// The spreads that give Pods their subsets; none where nobody keeps them.
    pub spreads: Option<Spreads>,
    client: Client,
    /// The manager's own.
    pub namespace: Arc<str>,
    audit: Audit,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("gates", &self.gates)
            .field("stores", &self.stores)
            .finish_non_exhaustive()
    }
}

impl Context {
    fn new(client: Client, gates: Gates, allow_privileged: bool, metrics: &Metrics) -> Self {
        let checks = metrics.template_checks.clone();
        Self {
            gates,
            templates: Templates::new(client.clone(), gates, allow_privileged, checks),
            lookup: Arc::new(Cluster::new(client.clone(), Stores::default())),
            stores: Stores::default(),
            budgets: None,
            explanations: None,
            spreads: None,
            client,
            namespace: SYSTEM_NAMESPACE.into(),
            audit: Audit {
                log: None,
                workloads: metrics.protected_workloads.clone(),
                namespaces: metrics.protected_namespaces.clone(),
                definitions: metrics.protected_definitions.clone(),
                budgets: metrics.budget_refusals.clone(),
            },
        }
    }

    /// Writes refused deletions down.
    fn with_audit_log(mut self, log: AuditLog) -> Self {
        self.audit.log = Some(Arc::new(log));
        self
    }

    /// Asks these budgets, which tell what they refuse where other refusals are told.
    fn with_budgets(mut self, budgets: Budgets) -> Self {
        budgets.write_refusals_to(self.audit.clone());
        self.budgets = Some(budgets);
        self
    }

    /// Reads the cache of the process, too, and what is in the manager's namespace.
    fn with_stores(self, client: Client, stores: Stores, namespace: &str) -> Self {
        Self {
            lookup: Arc::new(Cluster::new(client, stores.clone()).of_manager_in(namespace)),
            stores,
            namespace: namespace.into(),
            ..self
        }
    }
}

/// Why admission does not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    #[error("cannot listen on port {port}: {source}; set WEBHOOK_PORT to a free one")]
    Port { port: u16, source: io::Error },
    #[error("the webhooks were not ready within {time:?}: {reason}")]
    NotReady { time: Duration, reason: String },
    #[error("asked to stop before the webhooks were ready")]
    Stopped,
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("{task} ended unexpectedly: {reason}")]
    Ended { task: &'static str, reason: String },
}

/// What admission works with.
pub struct Dependencies {
    pub client: Client,
    /// The cache of the process. It need not be complete, nor is it waited for: listing objects of an older version needs our own conversion.
    pub stores: Stores,
    /// What is installed, as the same cache shows it.
    pub installed: Installed,
    /// Writes certificates and CA bundles, on every replica.
    pub writer: Writer,
    /// Where refused deletions are written down.
    pub audit: Option<AuditLog>,
    /// The budgets of Pods, which controllers ask as well.
    pub budgets: Option<Budgets>,
    /// What people are told from about objects.
    pub explainer: Option<Explainer>,
    /// The spreads that give Pods their subsets.
    pub spreads: Option<Spreads>,
    pub gates: Gates,
    pub registry: Registry,
    pub readiness: Readiness,
}

impl fmt::Debug for Dependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dependencies")
            .field("stores", &self.stores)
            .finish_non_exhaustive()
    }
}

/// Admission at work.
#[derive(Debug)]
pub struct Admission {
    port: u16,
    stop: CancellationToken,
    server: Running,
    reconciler: JoinHandle<()>,
}

impl Admission {
    /// Takes the port, sees to certificates and webhook configurations, and answers. Returns when the API server can call us.
    pub async fn start(
        settings: Settings,
        given: Dependencies,
        stop: CancellationToken,
    ) -> Result<Self, AdmissionError> {
        let Dependencies {
            client,
            stores,
            installed,
            writer,
            audit,
            budgets,
            explainer,
            spreads,
            gates,
            registry,
            readiness,
        } = given;
        let metrics = Metrics::register(&registry)?;
        readiness.wait_for(descriptor::reads(), stores.clone());
        let mut context = Context::new(client.clone(), gates, settings.allow_privileged, &metrics).with_stores(
            client.clone(),
            stores,
            &settings.namespace,
        );
        context.explanations = explainer.map(|explainer| Explanations::new(explainer, &settings));
        context.spreads = spreads;
        if let Some(log) = audit {
            context = context.with_audit_log(log);
        }
        if let Some(budgets) = budgets {
            context = context.with_budgets(budgets);
        }
        let dispatch = Arc::new(Dispatch::new(descriptor::descriptors(), context, metrics.clone()));
        let certificate = Arc::new(ServingCertificate::default());
        let port = settings.port;
        let in_use = |source| AdmissionError::Port { port, source };
        let server = Server::bind(port, dispatch, certificate.clone(), Limits::default())
            .await
            .map_err(in_use)?;
        let port = server.port().map_err(in_use)?;
        let drain = DrainOptions {
            linger: settings.linger,
            timeout: settings.drain,
        };
        let time = settings.initialize_timeout;
        let (progress, mut seen) = watch::channel(Progress::NotYet("no answer from the API server".to_owned()));
        let api = ApiAccess {
            client,
            writer,
            installed,
        };
        let reconciler = CertificateReconciler::new(api, settings, gates, port, certificate, readiness, metrics);
        // Ends with the process, or when the start fails.
        let running = stop.child_token();
        let guard = running.clone().drop_guard();
        let reconciler = tokio::spawn(reconciler.run(progress, running));
        let ready = async {
            tokio::select! {
                ready = seen.wait_for(|progress| *progress == Progress::Ready) => ready.is_ok(),
                () = stop.cancelled() => false,
            }
        };
        match timeout(time, ready).await {
            Ok(true) => {}
            Ok(false) => return Err(AdmissionError::Stopped),
            Err(_) => {
                let reason = match &*seen.borrow() {
                    Progress::NotYet(reason) => reason.clone(),
                    Progress::Ready => String::new(),
                };
                return Err(AdmissionError::NotReady { time, reason });
            }
        }
        let stop = guard.disarm();
        let server = server.start(stop.clone(), drain).map_err(server_ended)?;
        tracing::info!(port, "the webhook server is ready");
        Ok(Self {
            port,
            stop,
            server,
            reconciler,
        })
    }

    /// The port of the webhook server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Goes on until the token that [`Admission::start`] was given is cancelled and the last request is answered. Ends with an error when a part
    /// ends by itself.
    pub async fn wait(self) -> Result<(), AdmissionError> {
        let Self {
            stop,
            mut server,
            mut reconciler,
            ..
        } = self;
        let reconciler_ended = |end: Result<(), JoinError>| AdmissionError::Ended {
            task: "the reconciler of certificates",
            reason: end.map_or_else(|error| error.to_string(), |()| "it was not asked to".to_owned()),
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            end = server.ended() => return Err(match end {
                Ok(()) => server_ended("it was not asked to"),
                Err(error) => server_ended(error),
            }),
            end = &mut reconciler => return Err(reconciler_ended(end)),
        }
        server.ended().await.map_err(server_ended)?;
        reconciler.await.map_err(|panic| reconciler_ended(Err(panic)))
    }
}

// By value, as `map_err` gives it.
#[allow(clippy::needless_pass_by_value)]
fn server_ended(reason: impl ToString) -> AdmissionError {
    AdmissionError::Ended {
        task: "the webhook server",
        reason: reason.to_string(),
    }
}
