//! The loop that keeps certificates good and everybody informed whom to trust.
//!
//! It runs in every replica and looks whenever the Secret, one of the two webhook configurations or one of our CRDs changes, and once a minute.
//! One pass:
//!
//! 1. Read the certificates; renew what is not good ([`crate::certificates`]).
//! 2. Write the CA bundle into both webhook configurations ([`crate::configurations`]) and into every CRD of ours that asks a webhook
//!    ([`crate::crds`]), where it is not there yet. A webhook configuration that does not exist is an error: the installation makes it, not we.
//! 3. Show the certificate, as soon as everybody can accept it.
//!
//! With external certificates nothing is written: the pass fails until the bundles are what the Secret says.
//!
//! A pass that fails is repeated, after pauses that grow up to half a minute. When somebody else keeps overwriting what we write, we do not race:
//! after some forty writes there is one per second.

mod ca_injector;
mod watch;

use crate::{
    Settings,
    certificates::{
        Artifacts, CertificateError, Decision, Renewal, ServingState, Store, StoreError, Trusted, write_directory,
    },
    descriptor::live_paths,
    endpoint::Endpoint,
    metrics::Metrics,
    readiness::Readiness,
    server::ServingCertificate,
    settings::CertStore,
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use ca_injector::{CaInjector, InjectError};
use kruise_api::gates::{Gate, Gates};
use kruise_runtime::writer::Writer;
use kube::Client;
use std::{
    fmt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::{
    sync::watch::Sender,
    time::{sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
pub use watch::Installed;

/// Time between two looks when nothing happens.
const RESYNC: Duration = Duration::from_mins(1);
/// How often it is told what is not listed yet.
const TELL_AGAIN: Duration = Duration::from_millis(200);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How far the loop has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It has not succeeded yet; the last reason.
    NotYet(String),
    /// It has succeeded once.
    Ready,
}

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the certificates of {0}: {1}")]
    Certificates(String, CertificateError),
    #[error(transparent)]
    Inject(#[from] InjectError),
}

/// How the loop sees and changes the cluster.
pub(crate) struct ApiAccess {
    pub(crate) client: Client,
    pub(crate) writer: Writer,
    pub(crate) installed: Installed,
}

/// Everything the loop needs.
pub(crate) struct CertificateReconciler {
    installed: Installed,
    settings: Settings,
    gates: Gates,
    endpoint: Endpoint,
    port: u16,
    store: Store,
    renewal: Renewal,
    serving: ServingState,
    ca_injector: CaInjector,
    certificate: Arc<ServingCertificate>,
    readiness: Readiness,
    metrics: Metrics,
    complained_about_directory: bool,
}

impl fmt::Debug for CertificateReconciler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateReconciler")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl CertificateReconciler {
    pub(crate) fn new(
        api: ApiAccess,
        settings: Settings,
        gates: Gates,
        port: u16,
        certificate: Arc<ServingCertificate>,
        readiness: Readiness,
        metrics: Metrics,
    ) -> Self {
        let ApiAccess {
            client,
            writer,
            installed,
        } = api;
        let writer = writer.named("certificates");
        let endpoint = settings.endpoint(port);
        let store = match settings.cert_store {
            CertStore::Secret => Store::secret(
                client.clone(),
                writer.clone(),
                &settings.namespace,
                &settings.secret_name,
            ),
            CertStore::Directory => Store::Directory(settings.cert_dir.clone()),
        };
        Self {
            renewal: Renewal {
                host: endpoint.host(),
                before: settings.renew_before,
                // Others may see a new certificate a whole round later.
                keep_old_ca: settings.overlap * 4,
            },
            serving: ServingState::new(endpoint.host(), settings.overlap),
            ca_injector: CaInjector::new(client, writer, &settings, metrics.clone()),
            installed,
            settings,
            gates,
            endpoint,
            port,
            store,
            certificate,
            readiness,
            metrics,
            complained_about_directory: false,
        }
    }

    /// Goes on until `stop`, and tells how far it has come.
    pub(crate) async fn run(mut self, progress: Sender<Progress>, stop: CancellationToken) {
        let listed = tokio::select! {
            () = stop.cancelled() => return,
            () = self.listed(&progress) => Instant::now(),
        };
        let (mut pause, mut next) = (FIRST_PAUSE, listed);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.installed.changed() => {}
                () = sleep_until(next.into()) => self.ca_injector.look_again(),
            }
            let passed = tokio::select! {
                () = stop.cancelled() => return,
                passed = self.pass() => passed,
            };
            match passed {
                Ok(wake) => {
                    pause = FIRST_PAUSE;
                    next = Instant::now() + wake.unwrap_or(RESYNC).min(RESYNC);
                    self.metrics.passes.with_label_values(&["success"]).inc();
                    progress
                        .send_if_modified(|progress| std::mem::replace(progress, Progress::Ready) != Progress::Ready);
                }
                Err(error) => {
                    next = Instant::now() + pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    self.metrics.passes.with_label_values(&["error"]).inc();
                    warn!("the certificates of the webhooks: {error}");
                    progress.send_if_modified(|progress| not_yet(progress, error.to_string()));
                }
            }
        }
    }

    /// Waits until it is known what is installed, and says what is missing meanwhile.
    async fn listed(&self, progress: &Sender<Progress>) {
        while timeout(TELL_AGAIN, self.installed.listed()).await.is_err() {
            progress.send_if_modified(|progress| not_yet(progress, self.installed.missing()));
        }
    }

    async fn pass(&mut self) -> Result<Option<Duration>, PassError> {
        let external = self.gates.enabled(Gate::EnableExternalCerts);
        let (kept, renew) = if external {
            (self.store.read_external().await?, None)
        } else {
            self.good_certificates().await?
        };
        let bundle = if external {
            kept.ca_bundle.clone()
        } else {
            self.serving.bundle(&kept, Instant::now())
        };
        let wanted = ca_injector::Wanted {
            endpoint: self.endpoint.clone(),
            ca_bundle: BASE64.encode(&bundle),
            live: live_paths(self.gates, |crd| self.installed.has_crd(crd)),
        };
        if external {
            self.ca_injector.verify(&self.installed, &wanted).await?;
        } else {
            self.ca_injector.inject(&self.installed, &wanted).await?;
        }
        let wrong = |error| PassError::Certificates(self.settings.secret_name.clone(), error);
        let (new, exchange) = self
            .serving
            .injected(&kept, SystemTime::now(), Instant::now())
            .map_err(wrong)?;
        if let Some(new) = new {
            show(&self.certificate, &self.metrics, new);
        }
        self.readiness.set(self.port, bundle.clone());
        self.write_directory(bundle).await;
        Ok([renew, exchange].into_iter().flatten().min())
    }

    /// What is kept, renewed if need be, and when to look again.
    async fn good_certificates(&mut self) -> Result<(Artifacts, Option<Duration>), PassError> {
        let kept = self.store.read().await?;
        let decision = self
            .renewal
            .decide(&kept.artifacts, self.serving.shown(), SystemTime::now())
            .map_err(|error| PassError::Certificates(self.settings.secret_name.clone(), error))?;
        match decision {
            Decision::Keep(wake) if kept.complete => Ok((kept.artifacts, wake)),
            Decision::Keep(wake) => {
                self.store.write(&kept, &kept.artifacts).await?;
                Ok((kept.artifacts, wake))
            }
            Decision::Replace(new, reason) => {
                info!("new certificates are made: {reason}");
                self.store.write(&kept, &new).await?;
                // The old CA is to go in the end.
                Ok((*new, Some(self.renewal.keep_old_ca)))
            }
        }
    }

    /// Writes what is shown into the directory, but not what signs. With the Secret as the store nothing depends on it.
    async fn write_directory(&mut self, ca_bundle: Vec<u8>) {
        let Some(shown) = self.serving.shown() else { return };
        if self.settings.cert_store == CertStore::Directory {
            return;
        }
        let artifacts = Artifacts {
            ca_bundle,
            ..shown.clone()
        }
        .without_ca_key();
        let path: PathBuf = self.settings.cert_dir.clone();
        if let Err(error) = write_directory(&path, &artifacts).await
            && !std::mem::replace(&mut self.complained_about_directory, true)
        {
            warn!(
                "certificates are not written to {}: {error}; serving goes on",
                path.display()
            );
        }
    }
}

fn show(certificate: &ServingCertificate, metrics: &Metrics, new: &Trusted) {
    certificate.set(new.certified.clone());
    let seconds = |time: SystemTime| {
        time.duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs()
            .cast_signed()
    };
    metrics.expiry.with_label_values(&["server"]).set(seconds(new.ends));
    metrics.expiry.with_label_values(&["ca"]).set(seconds(new.ca_ends));
    info!("the webhook server shows a new certificate");
}

fn not_yet(progress: &mut Progress, reason: String) -> bool {
    let waits = *progress != Progress::Ready;
    if waits {
        debug!("not ready: {reason}");
        *progress = Progress::NotYet(reason);
    }
    waits
}
