//! One request over HTTP, as a hook makes it: nobody's certificate is checked, and any answer is good.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, InvalidMessage, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// What is asked of whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) tls: bool,
    /// The Pod when empty.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// Makes the request.
pub(super) async fn make(request: &Request) -> Result<(), String> {
    if request.tls {
        match over_tls(request).await {
            // Who speaks plainly is asked plainly, and told no secrets.
            Err(Failed::NotTls) => {
                let request = without_authorization(request);
                return exchange(&request, connect(&request).await?).await;
            }
            Err(Failed::Other(why)) => return Err(why),
            Ok(()) => return Ok(()),
        }
    }
    exchange(request, connect(request).await?).await
}

/// What was meant for TLS only is not sent where everybody can read it.
fn without_authorization(request: &Request) -> Request {
    let mut plain = request.clone();
    let secret = |name: &str| AUTHORIZATION.as_str().eq_ignore_ascii_case(name);
    plain.headers.retain(|(name, _)| !secret(name));
    plain
}

enum Failed {
    NotTls,
    Other(String),
}

async fn over_tls(request: &Request) -> Result<(), Failed> {
    let other = |error: &dyn std::fmt::Display| Failed::Other(error.to_string());
    let stream = connect(request).await.map_err(Failed::Other)?;
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| other(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider())))
        .with_no_client_auth();
    let name = ServerName::try_from(bare(&request.host).to_owned()).map_err(|error| other(&error))?;
    let stream = match TlsConnector::from(Arc::new(config)).connect(name, stream).await {
        Ok(stream) => stream,
        Err(error) => {
            let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
            return Err(match cause {
                Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => Failed::NotTls,
                _ => other(&error),
            });
        }
    };
    exchange(request, stream).await.map_err(Failed::Other)
}

async fn connect(request: &Request) -> Result<TcpStream, String> {
    let stream = TcpStream::connect((bare(&request.host), request.port)).await;
    stream.map_err(|error| format!("{}:{}: {error}", request.host, request.port))
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    request: &Request,
    stream: S,
) -> Result<(), String> {
    let (mut sender, connection) = http1::handshake::<_, String>(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    let built = build(request)?;
    // Ends when the sender is dropped, with this function.
    tokio::spawn(connection);
    let answer: http::Response<Incoming> = sender.send_request(built).await.map_err(|error| error.to_string())?;
    tracing::debug!(host = request.host, status = %answer.status(), "a preStop request was answered");
    Ok(())
}

fn build(request: &Request) -> Result<http::Request<String>, String> {
    let path = match request.path.as_str() {
        "" => "/".to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    };
    let mut built = http::Request::get(path)
        .body(String::new())
        .map_err(|error| error.to_string())?;
    let headers = built.headers_mut();
    let host = format!("{}:{}", request.host, request.port);
    headers.insert(HOST, HeaderValue::from_str(&host).map_err(|error| error.to_string())?);
    headers.insert(USER_AGENT, HeaderValue::from_static("kube-lifecycle/kruise"));
    for (name, value) in &request.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| format!("{name:?}: {error}"))?;
        let value = HeaderValue::from_str(value).map_err(|error| format!("{name}: {error}"))?;
        headers.insert(name, value);
    }
    Ok(built)
}

/// An IPv6 address without brackets.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A container's certificate is seldom one that anybody has signed; the kubelet does not look at it either.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// Answers one request after another and gives back what it heard first.
    async fn server(answer: &'static str) -> (u16, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let heard = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.expect("somebody");
                let mut buffer = vec![0; 4096];
                let count = stream.read(&mut buffer).await.expect("a request");
                stream.write_all(answer.as_bytes()).await.expect("answered");
                let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
                if text.starts_with("GET") {
                    return text;
                }
            }
        });
        (port, heard)
    }

    fn ask(port: u16, tls: bool) -> Request {
        Request {
            tls,
            host: "127.0.0.1".to_owned(),
            port,
            path: "bye?now=1".to_owned(),
            headers: vec![("X-Why".to_owned(), "update".to_owned())],
        }
    }

    #[tokio::test]
    async fn given_any_answer_then_it_is_good() {
        let (port, heard) = server("HTTP/1.1 500 Broken\r\ncontent-length: 0\r\n\r\n").await;
        make(&ask(port, false)).await.expect("answered");
        let heard = heard.await.expect("heard").to_lowercase();
        for part in [
            "get /bye?now=1 http/1.1",
            "x-why: update",
            "user-agent: kube-lifecycle/",
        ] {
            assert!(heard.contains(part), "{heard}");
        }
    }

    #[tokio::test]
    async fn given_tls_is_wanted_and_the_answer_is_plain_then_it_is_asked_plainly_and_without_secrets() {
        let (port, heard) = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let mut secret = ask(port, true);
        secret
            .headers
            .push(("authorization".to_owned(), "Bearer s3cret".to_owned()));
        make(&secret).await.expect("answered");
        let heard = heard.await.expect("heard");
        assert!(
            heard.starts_with("GET /bye") && heard.to_lowercase().contains("x-why: update"),
            "{heard}"
        );
        assert!(!heard.contains("s3cret"), "{heard}");
    }

    #[tokio::test]
    async fn given_nobody_or_nonsense_then_it_is_an_error() {
        let (port, _heard) = server("").await;
        assert!(make(&ask(port, false)).await.is_err());
        let closed = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port")
            .local_addr()
            .expect("one")
            .port();
        assert!(make(&ask(closed, false)).await.is_err());
        let mut odd = ask(port, false);
        odd.headers = vec![("no header\n".to_owned(), "x".to_owned())];
        assert!(make(&odd).await.is_err());
        let mut odd = ask(port, false);
        odd.path = "a b\n".to_owned();
        assert!(make(&odd).await.is_err());
    }
}
