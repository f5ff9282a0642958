//! Connections that cannot keep others out.
//!
//! Everybody who reaches the address may ask, so that nobody may stay: a connection ends after some seconds whatever it does, and when there are too many the
//! oldest ends. Whoever comes is served, and a kubelet that looks after our health needs no more than a moment. Only a handler that knows who asks may let a
//! connection stay ([`Peer::stay`]), as long as its answer goes on. Whoever does not take what is sent is dropped, staying or not.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

/// Most connections at the same time, unless somebody says otherwise.
pub(super) const MOST: usize = 64;
/// Longest life of a connection that may not stay. An answer takes a small part of it.
const LIFE: Duration = Duration::from_secs(30);
/// How long nothing of an answer may be taken.
const STALL: Duration = Duration::from_secs(20);

/// Who asks.
#[derive(Clone, Debug)]
pub struct Peer {
    address: SocketAddr,
    stays: Arc<AtomicBool>,
}

impl Peer {
    /// Whether it is on this machine, in the same network namespace.
    pub(crate) fn is_local(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }

    /// Lets the connection stay as long as the guard is held.
    pub fn stay(&self) -> Stay {
        self.stays.store(true, Ordering::Relaxed);
        Stay(self.stays.clone())
    }
}

/// Holds a connection open.
#[derive(Debug)]
pub struct Stay(Arc<AtomicBool>);

impl Drop for Stay {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Connected<IncomingStream<'_, Guarded>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Guarded>) -> Self {
        Self {
            address: *stream.remote_addr(),
            stays: stream.io().stays.clone(),
        }
    }
}

/// A listener whose connections end.
#[derive(Debug)]
pub(super) struct Guarded {
    socket: TcpListener,
    most: usize,
    /// The connections, the oldest first, and whether they stay.
    open: VecDeque<(CancellationToken, Arc<AtomicBool>)>,
}

impl Guarded {
    pub(super) fn new(socket: TcpListener, most: usize) -> Self {
        Self {
            socket,
            most,
            open: VecDeque::new(),
        }
    }

    fn guard(&mut self, stream: TcpStream) -> Guest {
        self.open.retain(|(end, _)| !end.is_cancelled());
        // Of those that stay there are fewer: who lets them stay counts them.
        let oldest = self.open.iter().position(|(_, stays)| !stays.load(Ordering::Relaxed));
        if self.open.len() >= self.most
            && let Some((end, _)) = oldest.and_then(|oldest| self.open.remove(oldest))
        {
            end.cancel();
        }
        let (end, stays) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
        self.open.push_back((end.clone(), stays.clone()));
        Guest {
            stream,
            over: life(end.clone()),
            end,
            stays,
            has_stayed: false,
            stalled: None,
        }
    }
}

/// Ends with the connection, and after the longest life of one.
fn life(end: CancellationToken) -> BoxFuture<'static, ()> {
    async move {
        let _ = tokio::time::timeout(LIFE, end.cancelled()).await;
    }
    .boxed()
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
    stays: Arc<AtomicBool>,
    has_stayed: bool,
    /// Runs while nothing of an answer is taken.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Guest {
    /// Fails when its time is over.
    fn in_time(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let stays = self.stays.load(Ordering::Relaxed);
        if self.has_stayed && !stays {
            // The end of its answer is still to be sent.
            self.over = life(self.end.clone());
        }
        self.has_stayed = stays;
        let is_over = !stays && self.over.poll_unpin(context).is_ready();
        if self.end.is_cancelled() || is_over {
            self.end.cancel();
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Fails when it has taken nothing for too long.
    fn taken(&mut self, written: Poll<io::Result<usize>>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALL)));
        if stalled.as_mut().poll(context).is_ready() {
            self.end.cancel();
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
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
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.taken(written, context)
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
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.taken(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
