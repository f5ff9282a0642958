//! Whether the webhook server can be reached and shows a certificate that clients accept.

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use std::{
    net::Ipv4Addr,
    sync::{Arc, PoisonError, RwLock},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

/// The check behind `/readyz`. Clones share what they know; it fails until the first round with the certificates has succeeded.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<RwLock<Option<Target>>>);

#[derive(Debug, Clone)]
struct Target {
    port: u16,
    ca_bundle: Vec<u8>,
}

impl Readiness {
    pub(crate) fn set(&self, port: u16, ca_bundle: Vec<u8>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Target { port, ca_bundle });
    }

    /// Calls the server's own `/healthz` by the name `localhost`, trusting nobody but our CA. Any HTTP answer will do.
    pub async fn check(&self) -> Result<(), String> {
        let target = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let target = target.ok_or("the certificates of the webhooks are not ready yet")?;
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
