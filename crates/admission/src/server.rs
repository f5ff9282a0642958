//! The TLS server that the API server calls.
//!
//! - `POST /<path of a webhook>` answers AdmissionReviews, `POST /convert` ConversionReviews, `GET /healthz` is 200 without a body.
//! - The content type of a review is exactly `application/json`. A body may have 7 MiB, for conversions 32 MiB (a whole list comes at once); 413 above.
//! - A body that does not arrive, a handshake that does not end and a connection that says nothing are given up after a while.
//! - There is a cap on open connections; further ones wait until one ends.
//! - It has a thread of its own. Whatever the controllers do, requests are answered, and on one thread a request costs half of what it costs when threads
//!   have to wake each other. Large bodies are worked on elsewhere.
//! - When the process is to end, the server first goes on for a moment, because the cluster learns of it only slowly: each answer then asks
//!   to close the connection, so that callers come back through the Service to another replica. After that, requests in progress are finished and
//!   idle connections closed.

mod certificate;
mod exchange;

pub(crate) use certificate::ServingCertificate;

use crate::dispatch::Dispatch;
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
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

/// Open connections. An API server keeps some dozens at most.
const MOST_CONNECTIONS: usize = 1024;
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a connection may say nothing. API servers close theirs after 90 seconds.
const IDLE: Duration = Duration::from_secs(150);
/// Pause after the system could not give us a connection.
const OUT_OF_RESOURCES: Duration = Duration::from_millis(100);

/// How long the server goes on after it was asked to stop, and how long it then waits for requests in progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Farewell {
    pub(crate) linger: Duration,
    pub(crate) drain: Duration,
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
}

impl Server {
    /// Takes the port. Connections wait until [`Server::start`].
    pub(crate) async fn bind(
        port: u16,
        dispatch: Arc<Dispatch>,
        certificate: Arc<ServingCertificate>,
    ) -> io::Result<Self> {
        // Bound here, but used by another runtime.
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?.into_std()?;
        Ok(Self {
            listener,
            dispatch,
            certificate,
        })
    }

    pub(crate) fn port(&self) -> io::Result<u16> {
        self.listener.local_addr().map(|address| address.port())
    }

    /// Answers until `stop`, and a little longer.
    pub(crate) fn start(self, stop: CancellationToken, farewell: Farewell) -> io::Result<Running> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (tell, told) = oneshot::channel();
        std::thread::Builder::new().name("webhooks".to_owned()).spawn(move || {
            // Nobody may be there any more to hear it.
            let _ = tell.send(runtime.block_on(self.run(stop, farewell)));
        })?;
        Ok(Running(told))
    }

    async fn run(self, stop: CancellationToken, farewell: Farewell) -> Result<(), ServerError> {
        let listener = TcpListener::from_std(self.listener)?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(self.certificate);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let shared = Arc::new(Shared {
            dispatch: self.dispatch,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            large: Semaphore::new(exchange::LARGE_MEGABYTES as usize),
            leaving: AtomicBool::new(false),
            close: CancellationToken::new(),
        });
        let connections = TaskTracker::new();
        let slots = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let last_call = async {
            stop.cancelled().await;
            shared.leaving.store(true, Ordering::Relaxed);
            sleep(farewell.linger).await;
        };
        tokio::select! {
            () = accept(&listener, &shared, &connections, slots) => {}
            () = last_call => {}
        }
        drop(listener);
        connections.close();
        shared.close.cancel();
        if timeout(farewell.drain, connections.wait()).await.is_err() {
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
    /// Memory for large bodies, in megabytes.
    large: Semaphore,
    leaving: AtomicBool,
    close: CancellationToken,
}

async fn accept(listener: &TcpListener, shared: &Arc<Shared>, connections: &TaskTracker, slots: Arc<Semaphore>) {
    // The semaphore is never closed.
    while let Ok(slot) = slots.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, peer)) => {
                connections.spawn(serve(stream, peer, shared.clone(), slot));
            }
            Err(error) => {
                warn!("cannot accept a connection: {error}");
                sleep(OUT_OF_RESOURCES).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>, _slot: OwnedSemaphorePermit) {
    let open = &shared.dispatch.metrics().connections;
    open.inc();
    // Answers are small and awaited.
    let _ = stream.set_nodelay(true);
    match timeout(HANDSHAKE, shared.acceptor.accept(stream)).await {
        Ok(Ok(stream)) => converse(stream, peer, &shared).await,
        Ok(Err(error)) => debug!(%peer, "TLS handshake failed: {error}"),
        Err(_) => debug!(%peer, "TLS handshake took too long"),
    }
    open.dec();
}

async fn converse(stream: TlsStream<TcpStream>, peer: SocketAddr, shared: &Arc<Shared>) {
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(|request| {
        let shared = shared.clone();
        async move { exchange::answer(request, &shared).await }
    });
    let stream = TokioIo::new(stream);
    // The two kinds of connection have the same methods and no common trait.
    macro_rules! until_closed {
        ($connection:expr) => {{
            let mut connection = std::pin::pin!($connection);
            tokio::select! {
                ended = &mut connection => ended,
                () = shared.close.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
        }};
    }
    let ended = if is_h2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(250)
            .keep_alive_interval(IDLE)
            .keep_alive_timeout(HANDSHAKE);
        until_closed!(builder.serve_connection(stream, service))
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(IDLE);
        until_closed!(builder.serve_connection(stream, service))
    };
    if let Err(error) = ended {
        debug!(%peer, "connection ended: {error}");
    }
}

#[cfg(test)]
mod tests;
