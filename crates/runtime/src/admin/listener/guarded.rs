//! Connections that cannot keep others out.
//!
//! Everybody who reaches the address may ask, so that nobody may stay: a connection ends after some seconds whatever it does, and when there are too many the
//! oldest ends. Whoever comes is served, and a kubelet that looks after our health needs no more than a moment.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// Most connections at the same time.
const MOST: usize = 64;
/// Longest life of a connection. An answer takes a small part of it.
const LIFE: Duration = Duration::from_secs(30);

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(SocketAddr);

impl Peer {
    /// Whether it is on this machine, in the same network namespace.
    pub(crate) fn is_local(self) -> bool {
        self.0.ip().to_canonical().is_loopback()
    }
}

impl Connected<IncomingStream<'_, Guarded>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Guarded>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// A listener whose connections end.
#[derive(Debug)]
pub(super) struct Guarded {
    socket: TcpListener,
    /// The connections, the oldest first.
    open: VecDeque<CancellationToken>,
}

impl Guarded {
    pub(super) fn new(socket: TcpListener) -> Self {
        Self {
            socket,
            open: VecDeque::new(),
        }
    }

    fn guard(&mut self, stream: TcpStream) -> Guest {
        self.open.retain(|each| !each.is_cancelled());
        if self.open.len() >= MOST
            && let Some(oldest) = self.open.pop_front()
        {
            oldest.cancel();
        }
        let end = CancellationToken::new();
        self.open.push_back(end.clone());
        let ended = end.clone();
        let over = async move {
            let _ = tokio::time::timeout(LIFE, ended.cancelled()).await;
        };
        Guest {
            stream,
            over: over.boxed(),
            end,
        }
    }
}

impl Listener for Guarded {
    type Io = Guest;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guest, SocketAddr) {
        // It waits a little when there are no more file descriptors, instead of failing.
        let (stream, peer) = Listener::accept(&mut self.socket).await;
        (self.guard(stream), peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// One connection.
pub(super) struct Guest {
    stream: TcpStream,
    over: BoxFuture<'static, ()>,
    end: CancellationToken,
}

impl Guest {
    /// Fails when its time is over.
    fn in_time(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.end.is_cancelled() || self.over.poll_unpin(context).is_ready() {
            self.end.cancel();
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }
}

impl Drop for Guest {
    /// Its place is free.
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl AsyncRead for Guest {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Guest {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
