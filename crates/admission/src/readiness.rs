//! Whether the webhook server can be reached, shows a certificate that clients accept, and has the cache that handlers read.
//!
//! The cache is waited for, but not for ever: objects of an older version can be listed only once we convert them, and the API server reaches us only
//! once we are ready. Handlers read from the API server what is not there yet.

use crate::descriptor::Reads;
use kruise_runtime::cache::Stores;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use std::{
    net::Ipv4Addr,
    sync::{Arc, OnceLock, PoisonError, RwLock},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

/// How long the cache is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The check behind `/readyz`. Clones share what they know; it fails until the first round with the certificates has succeeded.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    target: RwLock<Option<Target>>,
    cache: OnceLock<CacheWait>,
}

/// The stores that handlers read, and until when they are waited for.
#[derive(Debug)]
struct CacheWait {
    stores: Stores,
    reads: Vec<Reads>,
    until: Instant,
}

impl CacheWait {
    fn check(&self, now: Instant) -> Result<(), String> {
        if now >= self.until {
            return Ok(());
        }
        let pending: Vec<String> = self.reads.iter().filter_map(|reads| reads(&self.stores)).collect();
        if pending.is_empty() {
            Ok(())
        } else {
            Err(format!("the cache is not complete yet: {}", pending.join(", ")))
        }
    }
}

#[derive(Debug, Clone)]
struct Target {
    port: u16,
    ca_bundle: Vec<u8>,
}

impl Readiness {
    pub(crate) fn set(&self, port: u16, ca_bundle: Vec<u8>) {
        *self.0.target.write().unwrap_or_else(PoisonError::into_inner) = Some(Target { port, ca_bundle });
    }

    /// Waits for what handlers read from the cache, for a while from now on.
    pub(crate) fn wait_for(&self, reads: Vec<Reads>, stores: Stores) {
        let until = Instant::now() + PATIENCE;
        // Set once, by whoever starts first.
        let _ = self.0.cache.set(CacheWait { stores, reads, until });
    }

    /// Calls the server's own `/healthz` by the name `localhost`, trusting nobody but our CA. Any HTTP answer will do.
    pub async fn check(&self) -> Result<(), String> {
        let target = self.0.target.read().unwrap_or_else(PoisonError::into_inner).clone();
        let target = target.ok_or("the certificates of the webhooks are not ready yet")?;
        self.0.cache.get().map_or(Ok(()), |cache| cache.check(Instant::now()))?;
        ask(&target)
            .await
            .map_err(|error| format!("the webhook server does not answer: {error}"))
    }
}

type AskError = Box<dyn std::error::Error + Send + Sync>;

async fn ask(target: &Target) -> Result<(), AskError> {
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(&target.ca_bundle) {
        roots.add(ca?)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // By address: an image without anything else in it may not be able to resolve a name.
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, target.port)).await?;
    let name = ServerName::try_from("localhost")?;
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).await?;
    if &answer != b"HTTP/" {
        return Err("not an HTTP server".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kruise_api::pod::Pod;
    use kruise_runtime::cache::{Change, Kind, Store};

    #[test]
    fn given_a_store_that_handlers_read_then_readiness_waits_for_its_first_list_but_not_for_ever() {
        let kind = Kind::<Pod>::of();
        let (pods, mut stores, now) = (Store::new(kind), Stores::default(), Instant::now());
        stores.insert(pods.clone());
        let wait = CacheWait {
            stores,
            reads: crate::descriptor::reads(),
            until: now + PATIENCE,
        };
        assert_eq!(wait.check(now), Err("the cache is not complete yet: pods".to_owned()));
        assert_eq!(wait.check(now + PATIENCE), Ok(()));
        pods.feed(Change::ListBegins);
        pods.feed(Change::ListEnds);
        assert_eq!(wait.check(now), Ok(()));
    }
}
