//! One request over HTTP to a container: nobody's certificate is checked, no proxy is asked, and an answer is read as far as somebody wants it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use http::header::{ACCEPT, AUTHORIZATION, HOST, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, InvalidMessage, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
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

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Where else to ask.
    pub(crate) location: Option<String>,
    /// The beginning of what it says.
    pub(crate) body: Vec<u8>,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
enum Agent {
    Lifecycle,
    Probe {
        /// So much of the answer is read.
        most: usize,
    },
}

impl Agent {
    fn name(self) -> &'static str {
        match self {
            Self::Lifecycle => "kube-lifecycle/kruise",
            Self::Probe { .. } => "kube-probe/kruise",
        }
    }
}

/// Makes the request of a preStop hook; any answer is good, and none of it is read.
pub(crate) async fn send(request: &Request) -> Result<(), String> {
    match ask_as(request, Agent::Lifecycle).await {
        // Who speaks plainly is asked plainly, and told no secrets.
        Err(Failed::NotTls) => {
            let request = without_authorization(request);
            let answer = exchange(&request, Agent::Lifecycle, connect(&request).await?).await;
            answer.map(drop)
        }
        Err(Failed::Other(why)) => Err(why),
        Ok(answer) => {
            tracing::debug!(
                host = request.host,
                status = answer.status,
                "a preStop request was answered"
            );
            Ok(())
        }
    }
}

/// Makes the request of a probe, and reads so much of the answer at most.
pub(crate) async fn ask(request: &Request, most: usize) -> Result<Answer, String> {
    match ask_as(request, Agent::Probe { most }).await {
        Ok(answer) => Ok(answer),
        Err(Failed::NotTls) => Err("server gave HTTP response to HTTPS client".to_owned()),
        Err(Failed::Other(why)) => Err(why),
    }
}

/// Opens a connection.
pub(crate) async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let host = bare(host);
    let stream = TcpStream::connect((host, port)).await;
    stream.map_err(|error| {
        let place = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        format!("dial tcp {place}: {}", in_words(&error))
    })
}

/// Why there is no connection, as users know it from the kubelet's events.
fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
        _ => error.to_string(),
    }
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

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

async fn ask_as(request: &Request, agent: Agent) -> Result<Answer, Failed> {
    let stream = connect(request).await?;
    if !request.tls {
        return Ok(exchange(request, agent, stream).await?);
    }
    let other = |error: &dyn std::fmt::Display| Failed::Other(error.to_string());
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
    Ok(exchange(request, agent, stream).await?)
}

async fn connect(request: &Request) -> Result<TcpStream, String> {
    dial(&request.host, request.port).await
}

/// A connection under way. It ends with whoever asked, answered or not.
struct Conversation(JoinHandle<()>);

impl Drop for Conversation {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    request: &Request,
    agent: Agent,
    stream: S,
) -> Result<Answer, String> {
    let (mut sender, connection) = http1::handshake::<_, String>(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    let built = build(request, agent)?;
    let _conversation = Conversation(tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("a connection to a container ended: {error}");
        }
    }));
    let answer: http::Response<Incoming> = sender.send_request(built).await.map_err(|error| error.to_string())?;
    let location = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
    Ok(Answer {
        status: answer.status().as_u16(),
        location: location.map(str::to_owned),
        body: match agent {
            Agent::Lifecycle => Vec::new(),
            Agent::Probe { most } => read(answer.into_body(), most).await?,
        },
    })
}

/// The beginning of a body.
async fn read(mut body: Incoming, most: usize) -> Result<Vec<u8>, String> {
    let mut read = Vec::new();
    while read.len() < most {
        let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        let Some(frame) = frame else { break };
        if let Some(data) = frame.map_err(|error| error.to_string())?.data_ref() {
            read.extend(data.iter().take(most - read.len()));
        }
    }
    Ok(read)
}

fn build(request: &Request, agent: Agent) -> Result<http::Request<String>, String> {
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
    headers.insert(USER_AGENT, HeaderValue::from_static(agent.name()));
    if matches!(agent, Agent::Probe { .. }) {
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    }
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

    fn given(port: u16, tls: bool) -> Request {
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
        send(&given(port, false)).await.expect("answered");
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
        let mut secret = given(port, true);
        secret
            .headers
            .push(("authorization".to_owned(), "Bearer s3cret".to_owned()));
        send(&secret).await.expect("answered");
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
        assert!(send(&given(port, false)).await.is_err());
        let closed = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port")
            .local_addr()
            .expect("one")
            .port();
        assert!(send(&given(closed, false)).await.is_err());
        let mut odd = given(port, false);
        odd.headers = vec![("no header\n".to_owned(), "x".to_owned())];
        assert!(send(&odd).await.is_err());
        let mut odd = given(port, false);
        odd.path = "a b\n".to_owned();
        assert!(send(&odd).await.is_err());
    }

    #[tokio::test]
    async fn given_a_probe_then_its_answer_is_read_as_far_as_wanted() {
        let long = "HTTP/1.1 302 Found\r\nlocation: /there\r\ncontent-length: 10\r\n\r\n0123456789";
        let (port, heard) = server(long).await;
        let answer = ask(&given(port, false), 4).await.expect("answered");
        let expected = Answer {
            status: 302,
            location: Some("/there".to_owned()),
            body: b"0123".to_vec(),
        };
        assert_eq!(answer, expected);
        let heard = heard.await.expect("heard").to_lowercase();
        assert!(
            heard.contains("user-agent: kube-probe/") && heard.contains("accept: */*"),
            "{heard}"
        );
        let (port, _heard) = server("HTTP/1.1 200 OK\r\n\r\n").await;
        let error = ask(&given(port, true), 4).await.expect_err("no TLS");
        assert!(error.contains("HTTP response to HTTPS client"), "{error}");
        let error = dial("127.0.0.1", 1).await.expect_err("nobody is there");
        assert_eq!(error, "dial tcp 127.0.0.1:1: connect: connection refused");
    }
}
