//! The webhook server by itself, with certificates of its own and without an API server behind it: for measuring.

use crate::{
    AdmissionError, Context,
    certificates::{Artifacts, Decision, Renewal, ServingState},
    descriptor::descriptors,
    dispatch::Dispatch,
    metrics::Metrics,
    server::{DrainOptions, Limits, Running, Server, ServingCertificate},
    server_ended,
};
use kruise_api::gates::Gates;
use prometheus::Registry;
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use tokio_util::sync::CancellationToken;

const HOST: &str = "localhost";

/// A server that answers on this port, to clients that trust this CA and call it `localhost`.
#[derive(Debug)]
pub struct Alone {
    pub port: u16,
    pub ca_bundle: Vec<u8>,
    server: Running,
}

impl Alone {
    /// Starts on a free port, and goes on until `stop`.
    pub async fn start(client: kube::Client, stop: CancellationToken) -> Result<Self, AdmissionError> {
        let wrong = |reason: String| AdmissionError::NotReady {
            time: Duration::ZERO,
            reason,
        };
        let metrics = Metrics::register(&Registry::new())?;
        let gates = Gates::default();
        let context = Context::new(client, gates, true, &metrics);
        let dispatch = Dispatch::new(descriptors(), context, metrics);
        let renewal = Renewal {
            host: HOST.to_owned(),
            before: Duration::ZERO,
            keep_old_ca: Duration::ZERO,
        };
        let made = renewal.decide(&Artifacts::default(), None, SystemTime::now());
        let artifacts = match made.map_err(|error| wrong(error.to_string()))? {
            Decision::Replace(artifacts, _) => *artifacts,
            Decision::Keep(_) => Artifacts::default(),
        };
        let certificate = Arc::new(ServingCertificate::default());
        let mut serving = ServingState::new(HOST.to_owned(), Duration::ZERO);
        let shown = serving.injected(&artifacts, SystemTime::now(), Instant::now());
        if let (Some(shown), _) = shown.map_err(|error| wrong(error.to_string()))? {
            certificate.set(shown.certified.clone());
        }
        let in_use = |source| AdmissionError::Port { port: 0, source };
        let server = Server::bind(0, Arc::new(dispatch), certificate, Limits::default())
            .await
            .map_err(in_use)?;
        let drain = DrainOptions {
            linger: Duration::ZERO,
            timeout: Duration::from_secs(1),
        };
        Ok(Self {
            port: server.port().map_err(in_use)?,
            ca_bundle: artifacts.ca_bundle,
            server: server.start(stop, drain).map_err(in_use)?,
        })
    }

    /// Goes on until the server has stopped.
    pub async fn wait(mut self) -> Result<(), AdmissionError> {
        self.server.ended().await.map_err(server_ended)
    }
}
