//! How the admission part of the manager is set up.

use crate::endpoint::Endpoint;
use kruise_api::names::object;
use std::{path::PathBuf, time::Duration};

/// Where certificates are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertStore {
    /// Only in the directory: for a single replica.
    Directory,
    /// In the Secret, shared by all replicas.
    Secret,
}

/// What can be set. The default is what the chart installs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Namespace of the manager, the Service and the Secret.
    pub namespace: String,
    /// Service in front of the webhook server.
    pub service_name: String,
    /// Secret with the certificates.
    pub secret_name: String,
    /// Port of the webhook server; 0 takes a free one.
    pub port: u16,
    /// Host by which the API server reaches us without a Service.
    pub host: Option<String>,
    /// Directory of the serving certificate.
    pub cert_dir: PathBuf,
    pub cert_store: CertStore,
    /// How long before their end certificates are renewed.
    pub renew_before: Duration,
    /// How long the first round with certificates and configurations may take.
    pub initialize_timeout: Duration,
    /// How long API servers are told of a new CA before a certificate relies on it.
    pub overlap: Duration,
    /// How long requests are still taken after the process was asked to stop.
    pub linger: Duration,
    /// How long requests in progress may then take to finish.
    pub drain: Duration,
    /// Whether templates with privileged containers are accepted.
    pub allow_privileged: bool,
    /// Name of the mutating webhook configuration.
    pub mutating_configuration: String,
    /// Name of the validating webhook configuration.
    pub validating_configuration: String,
}

impl Settings {
    /// How the API server reaches a server that listens on this port.
    pub(crate) fn endpoint(&self, port: u16) -> Endpoint {
        match &self.host {
            Some(host) => Endpoint::Host {
                host: host.clone(),
                port,
            },
            None => Endpoint::Service {
                namespace: self.namespace.clone(),
                name: self.service_name.clone(),
            },
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: object::SYSTEM_NAMESPACE.to_owned(),
            service_name: object::WEBHOOK_SERVICE.to_owned(),
            secret_name: object::WEBHOOK_CERTS.to_owned(),
            port: 9876,
            host: None,
            cert_dir: "/tmp/kruise-webhook-certs".into(),
            cert_store: CertStore::Secret,
            renew_before: Duration::from_hours(180 * 24),
            initialize_timeout: Duration::from_mins(1),
            overlap: Duration::from_mins(1),
            linger: Duration::from_secs(2),
            drain: Duration::from_secs(5),
            allow_privileged: true,
            mutating_configuration: object::MUTATING_WEBHOOKS.to_owned(),
            validating_configuration: object::VALIDATING_WEBHOOKS.to_owned(),
        }
    }
}
