//! A listening socket that knows which flag asked for it, and does not let itself be blocked: see [`guarded`].

mod guarded;

pub use guarded::{Peer, Stay};

use crate::{flags::Bind, shutdown::CancellationToken};
use axum::Router;
use guarded::Guarded;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};
use tokio::{
    net::{TcpListener, lookup_host},
    time::sleep,
};
use tracing::info;

/// How long requests in flight may take once a stop was asked for. Idle connections would otherwise hold the process.
const DRAIN: Duration = Duration::from_secs(1);

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error(
        "{flag}={address}: port {port} is already in use; end the process that uses it or choose another port with {flag}"
    )]
    InUse {
        flag: &'static str,
        address: String,
        port: u16,
    },
    #[error("{flag}={address}: not allowed to listen on port {port}; choose a port above 1023 with {flag}")]
    Denied {
        flag: &'static str,
        address: String,
        port: u16,
    },
    #[error("{flag}={address}: cannot listen there: {source}")]
    Other {
        flag: &'static str,
        address: String,
        source: io::Error,
    },
}

/// A socket that listens but does not answer yet.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    flag: &'static str,
    most: usize,
}

impl Listener {
    /// Listens where the flag says; `None` when it says nowhere.
    pub async fn bind(flag: &'static str, bind: &Bind) -> Result<Option<Self>, BindError> {
        let Bind::At { host, port } = bind else {
            info!("{flag}: not listening");
            return Ok(None);
        };
        let socket = listen(host, *port).await.map_err(|source| {
            let (address, port) = (bind.to_string(), *port);
            match source.kind() {
                io::ErrorKind::AddrInUse => BindError::InUse { flag, address, port },
                io::ErrorKind::PermissionDenied => BindError::Denied { flag, address, port },
                _ => BindError::Other { flag, address, source },
            }
        })?;
        Ok(Some(Self {
            socket,
            flag,
            most: guarded::MOST,
        }))
    }

    /// Returns the same for so many connections at the same time.
    #[must_use]
    pub fn for_connections(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Returns the address in use; tells the port when the flag asked for any.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Answers requests until `stop`, then finishes what is in flight.
    pub async fn serve(self, router: Router, stop: CancellationToken) -> io::Result<()> {
        info!("{}: listening on {}", self.flag, self.address()?);
        let out_of_patience = {
            let stop = stop.clone();
            async move {
                stop.cancelled().await;
                sleep(DRAIN).await;
            }
        };
        let service = router.into_make_service_with_connect_info::<Peer>();
        tokio::select! {
            result = axum::serve(Guarded::new(self.socket, self.most), service).with_graceful_shutdown(stop.cancelled_owned()) => result,
            () = out_of_patience => Ok(()),
        }
    }
}

async fn listen(host: &str, port: u16) -> io::Result<TcpListener> {
    if host.is_empty() {
        return every_address(port).await;
    }
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address"));
    for address in resolve(host, port).await? {
        match TcpListener::bind(address).await {
            Err(error) if !is_final(&error) => last = error,
            end => return end,
        }
    }
    Err(last)
}

/// IPv6 and IPv4 with one socket; a machine without IPv6 gets IPv4 only.
async fn every_address(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Err(error) if !is_final(&error) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
        end => end,
    }
}

/// Another address of the same host would only hide these from the one who asked.
fn is_final(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied)
}

/// IPv4 first, as Go does. `localhost` needs no resolver, which an empty container image may not have.
async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if host == "localhost" {
        let both = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        return Ok(both.map(|ip| SocketAddr::new(ip, port)).to_vec());
    }
    let mut addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::parse_bind;

    async fn bound(text: &str) -> Result<Option<Listener>, BindError> {
        Listener::bind("--some-addr", &parse_bind(text).expect(text)).await
    }

    #[tokio::test]
    async fn given_an_address_that_says_nowhere_then_nothing_listens() {
        assert!(bound("0").await.expect("fine").is_none());
    }

    #[tokio::test]
    async fn given_no_host_then_ipv4_clients_reach_it() {
        let listener = bound(":0").await.expect("free port").expect("listening");
        let port = listener.address().expect("address").port();
        let (accepted, connected) = tokio::join!(
            listener.socket.accept(),
            tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        );
        accepted.expect("accepted");
        connected.expect("connected");
    }

    #[tokio::test]
    async fn given_localhost_then_only_loopback_listens() {
        let listener = bound("localhost:0").await.expect("free port").expect("listening");
        assert!(listener.address().expect("address").ip().is_loopback());
    }

    #[tokio::test]
    async fn given_a_port_in_use_then_the_message_names_flag_and_port() {
        let first = bound("127.0.0.1:0").await.expect("free port").expect("listening");
        let port = first.address().expect("address").port();
        for host in ["", "127.0.0.1", "localhost"] {
            let message = bound(&format!("{host}:{port}")).await.expect_err("in use").to_string();
            assert!(message.contains("--some-addr="), "{message}");
            assert!(message.contains(&format!("port {port} is already in use")), "{message}");
        }
    }

    #[tokio::test]
    async fn given_a_foreign_address_then_the_message_names_the_flag() {
        let message = bound("192.0.2.1:80").await.expect_err("not ours").to_string();
        assert!(message.starts_with("--some-addr=192.0.2.1:80: "), "{message}");
    }
}
