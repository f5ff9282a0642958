//! The TLS server that the API server calls.
//!
//! - `POST /<path of a webhook>` answers AdmissionReviews, `POST /convert` ConversionReviews, `GET /healthz` is 200 without a body.
//! - The content type of a review is exactly `application/json`. A body may have 7 MiB, for conversions 32 MiB (a whole list comes at once); 413 above.
//! - A body that does not arrive, a handshake that does not end, an answer that is not found in time and a connection that says nothing are given up after
//!   a while. A request for which there is no memory is answered 503, one that took too long 504.
//! - No peer can keep others out: `connections` tells who has to go when it gets crowded.
//! - It has a thread of its own. Whatever the controllers do, requests are answered, and on one thread a request costs half of what it costs when threads
//!   have to wake each other. Large bodies are worked on elsewhere.
//! - When the process is to end, the server first goes on for a moment, because the cluster learns of it only slowly: each answer then asks
//!   to close the connection, so that callers come back through the Service to another replica. After that, requests in progress are finished and
//!   idle connections closed.

mod certificate;
mod connections;
mod service;

pub(crate) use certificate::ServingCertificate;
pub(crate) use connections::Limits;

use crate::dispatch::Dispatch;
use connections::{Connections, Slot};
use hyper::{server::conn::http1, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{ServerConfig, crypto::ring};
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, atomic::AtomicBool, atomic::Ordering},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a connection for which we do not work gets to end properly.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// How large the head of a request may be.
const HEAD: usize = 32 * 1024;
/// Pause after the system could not give us a connection.
const OUT_OF_RESOURCES: Duration = Duration::from_millis(100);

/// How long the server goes on after it was asked to stop, and how long it then waits for requests in progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DrainOptions {
    pub(crate) linger: Duration,
    pub(crate) timeout: Duration,
}

/// Why the server ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    #[error("the TLS server cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    #[error("the thread of the webhook server cannot be set up: {0}")]
    Thread(#[from] io::Error),
    #[error("the webhook server panicked")]
    Panicked,
}

/// A server at work. Nothing stops it but the token it was given.
#[derive(Debug)]
pub(crate) struct Running(oneshot::Receiver<Result<(), ServerError>>);

impl Running {
    /// Waits until it has ended.
    pub(crate) async fn ended(&mut self) -> Result<(), ServerError> {
        (&mut self.0).await.unwrap_or(Err(ServerError::Panicked))
    }
}

/// A bound port that does not answer yet.
#[derive(Debug)]
pub(crate) struct Server {
    listener: std::net::TcpListener,
    dispatch: Arc<Dispatch>,
    certificate: Arc<ServingCertificate>,
    limits: Limits,
}

impl Server {
    /// Takes the port. Connections wait until [`Server::start`].
    pub(crate) async fn bind(
        port: u16,
        dispatch: Arc<Dispatch>,
        certificate: Arc<ServingCertificate>,
        limits: Limits,
    ) -> io::Result<Self> {
        // Bound here, but used by another runtime.
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?.into_std()?;
        Ok(Self {
            listener,
            dispatch,
            certificate,
            limits,
        })
    }

    pub(crate) fn port(&self) -> io::Result<u16> {
        self.listener.local_addr().map(|address| address.port())
    }

    /// Answers until `stop`, and a little longer.
    pub(crate) fn start(self, stop: CancellationToken, drain: DrainOptions) -> io::Result<Running> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (sender, outcome) = oneshot::channel();
        std::thread::Builder::new().name("webhooks".to_owned()).spawn(move || {
            // Nobody may be there any more to hear it.
            let _ = sender.send(runtime.block_on(self.run(stop, drain)));
        })?;
        Ok(Running(outcome))
    }

    async fn run(self, stop: CancellationToken, drain: DrainOptions) -> Result<(), ServerError> {
        let listener = TcpListener::from_std(self.listener)?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(self.certificate);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let shared = Arc::new(Shared {
            dispatch: self.dispatch,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            connections: Connections::new(self.limits),
            leaving: AtomicBool::new(false),
            close: CancellationToken::new(),
        });
        let connections = TaskTracker::new();
        let last_call = async {
            stop.cancelled().await;
            shared.leaving.store(true, Ordering::Relaxed);
            sleep(drain.linger).await;
        };
        tokio::select! {
            () = accept(&listener, &shared, &connections) => {}
            () = last_call => {}
        }
        drop(listener);
        connections.close();
        shared.close.cancel();
        if timeout(drain.timeout, connections.wait()).await.is_err() {
            warn!(
                connections = connections.len(),
                "requests were still in progress at the end"
            );
        }
        info!("the webhook server stopped");
        Ok(())
    }
}

/// What all connections share.
struct Shared {
    dispatch: Arc<Dispatch>,
    acceptor: TlsAcceptor,
    connections: Arc<Connections>,
    leaving: AtomicBool,
    close: CancellationToken,
}

async fn accept(listener: &TcpListener, shared: &Arc<Shared>, tasks: &TaskTracker) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                if let Some(slot) = shared.connections.admit(address.ip()) {
                    tasks.spawn(serve(stream, address, shared.clone(), slot));
                } else {
                    shared.dispatch.metrics().closed("refused");
                    debug!(%address, "no slot for a connection");
                }
            }
            Err(error) => {
                warn!("cannot accept a connection: {error}");
                sleep(OUT_OF_RESOURCES).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, address: SocketAddr, shared: Arc<Shared>, slot: Slot) {
    let metrics = shared.dispatch.metrics();
    metrics.connections.inc();
    // Answers are small and awaited.
    let _ = stream.set_nodelay(true);
    let handshake = timeout(HANDSHAKE, shared.acceptor.accept(stream));
    tokio::select! {
        shaken = handshake => match shaken {
            Ok(Ok(stream)) => converse(stream, address, &shared, &slot).await,
            Ok(Err(error)) => debug!(%address, "TLS handshake failed: {error}"),
            Err(_) => debug!(%address, "TLS handshake took too long"),
        },
        () = slot.peer.crowded_out() => metrics.closed("crowded"),
    }
    metrics.connections.dec();
}

async fn converse(stream: TlsStream<TcpStream>, address: SocketAddr, shared: &Arc<Shared>, slot: &Slot) {
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let peer = &slot.peer;
    let service = service_fn(|request| {
        let (shared, peer) = (shared.clone(), peer.clone());
        async move { service::handle(request, &shared, &peer).await }
    });
    // When the connection is to end, and how long requests in progress get for it.
    let end = async {
        tokio::select! {
            () = shared.close.cancelled() => service::LONGEST,
            () = peer.old(), if is_h2 => service::LONGEST,
            () = peer.crowded_out() => {
                shared.dispatch.metrics().closed("crowded");
                LAST_WORDS
            }
            () = peer.idle_for_too_long() => {
                shared.dispatch.metrics().closed("idle");
                LAST_WORDS
            }
        }
    };
    let stream = TokioIo::new(stream);
    // The two kinds of connection have the same methods and no common trait.
    macro_rules! until_closed {
        ($connection:expr) => {{
            let mut connection = std::pin::pin!($connection);
            tokio::select! {
                ended = &mut connection => Some(ended),
                time = end => {
                    connection.as_mut().graceful_shutdown();
                    timeout(time, connection).await.ok()
                }
            }
        }};
    }
    let ended = if is_h2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).max_concurrent_streams(250);
        until_closed!(builder.serve_connection(stream, service))
    } else {
        let mut builder = http1::Builder::new();
        // Whoever is slow with a head is idle, and that has its own end.
        builder.header_read_timeout(None).max_header_size(HEAD);
        until_closed!(builder.serve_connection(stream, service))
    };
    match ended {
        Some(Ok(())) => {}
        Some(Err(error)) => debug!(%address, "connection ended: {error}"),
        None => debug!(%address, "connection was cut off"),
    }
}

#[cfg(test)]
mod tests;
