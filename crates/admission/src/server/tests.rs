mod attacks;

use super::*;
use crate::{
    Context,
    certificates::{Artifacts, Decision, Renewal, ServingState},
    descriptor::{Descriptor, descriptors},
    metrics::Metrics,
};
use bytes::Bytes;
use http::{Request, StatusCode, Version, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1 as client1, http2 as client2};
use kruise_api::gates::Gates;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use std::time::{Instant, SystemTime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::{TlsConnector, client::TlsStream as ClientStream};

/// A server on a free port, and who may stop it.
struct Service {
    port: u16,
    certificate: Arc<ServingCertificate>,
    metrics: Metrics,
    stop: CancellationToken,
    running: Running,
}

fn certificates() -> Artifacts {
    let renewal = Renewal {
        host: "127.0.0.1".into(),
        before: Duration::from_hours(24),
        keep_old_ca: Duration::ZERO,
    };
    match renewal.decide(&Artifacts::default(), None, SystemTime::now()).unwrap() {
        Decision::Replace(artifacts, _) => *artifacts,
        Decision::Keep(_) => panic!("kept"),
    }
}

fn show(certificate: &ServingCertificate, artifacts: &Artifacts) {
    let mut serving = ServingState::new("127.0.0.1".into(), Duration::ZERO);
    let (shown, _) = serving.injected(artifacts, SystemTime::now(), Instant::now()).unwrap();
    certificate.set(shown.unwrap().certified.clone());
}

async fn start(artifacts: &Artifacts, drain: DrainOptions) -> Service {
    start_with(artifacts, drain, Limits::default(), &[]).await
}

/// A server with these limits, and with further paths.
async fn start_with(
    artifacts: &Artifacts,
    drain: DrainOptions,
    limits: Limits,
    further: &'static [Descriptor],
) -> Service {
    let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
    let gates = Gates::default();
    let config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
    let context = Context::new(kube::Client::try_from(config).unwrap(), gates, true, &metrics);
    let dispatch = Dispatch::new(descriptors().chain(further), context, metrics.clone());
    let certificate = Arc::new(ServingCertificate::default());
    show(&certificate, artifacts);
    let server = Server::bind(0, Arc::new(dispatch), certificate.clone(), limits)
        .await
        .unwrap();
    let stop = CancellationToken::new();
    Service {
        port: server.port().unwrap(),
        certificate,
        metrics,
        stop: stop.clone(),
        running: server.start(stop, drain).unwrap(),
    }
}

const AT_ONCE: DrainOptions = DrainOptions {
    linger: Duration::ZERO,
    timeout: Duration::from_secs(10),
};

async fn connect(port: u16, artifacts: &Artifacts, protocol: &[u8]) -> std::io::Result<ClientStream<TcpStream>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    shake_hands(stream, artifacts, protocol).await
}

async fn shake_hands(
    stream: TcpStream,
    artifacts: &Artifacts,
    protocol: &[u8],
) -> std::io::Result<ClientStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(&artifacts.ca_bundle) {
        roots.add(ca.unwrap()).unwrap();
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    TlsConnector::from(Arc::new(config))
        .connect(ServerName::try_from("127.0.0.1").unwrap(), stream)
        .await
}

fn post(path: &str, content_type: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(format!("https://127.0.0.1{path}"))
        .header(header::CONTENT_TYPE, content_type)
        .header(header::HOST, "127.0.0.1")
        .body(Full::new(body.into()))
        .unwrap()
}

fn get(path: &str) -> Request<Full<Bytes>> {
    let mut request = post(path, "text/plain", "");
    *request.method_mut() = http::Method::GET;
    request
}

async fn send(port: u16, artifacts: &Artifacts, request: Request<Full<Bytes>>) -> (StatusCode, Bytes) {
    let stream = connect(port, artifacts, b"http/1.1").await.unwrap();
    let (mut sender, connection) = client1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request).await.unwrap();
    let status = response.status();
    (status, response.into_body().collect().await.unwrap().to_bytes())
}

const REVIEW: &str = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u"}}"#;

#[tokio::test]
async fn requests_are_answered_as_the_contract_says() {
    let artifacts = certificates();
    let service = start(&artifacts, AT_ONCE).await;
    let conversion = r#"{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u"}}"#;
    let json = "application/json";
    let table = [
        (get("/healthz"), 200, Some("")),
        (get("/nothing"), 404, None),
        (get("/mutate-pod"), 405, None),
        (post("/mutate-pod", json, REVIEW), 200, None),
        (post("/mutate-pod?timeout=10s", json, REVIEW), 200, None),
        (
            post("/mutate-pod", "application/json; charset=utf-8", REVIEW),
            400,
            None,
        ),
        (post("/mutate-pod", "text/plain", REVIEW), 400, None),
        (post("/mutate-pod", json, ""), 400, None),
        (post("/mutate-pod", json, &b"\xff\xfe"[..]), 400, None),
        (post("/mutate-pod", json, vec![b'['; 7 * 1024 * 1024]), 400, None),
        (post("/convert", json, conversion), 200, None),
        (post("/convert", json, "{}"), 400, None),
        (post("/convert", "text/plain", conversion), 400, None),
        (post("/convert", json, vec![b'['; 8 * 1024 * 1024]), 400, None),
    ];
    for (request, code, body) in table {
        let what = format!("{} {} {:?}", request.method(), request.uri(), request.headers());
        let (status, answer) = send(service.port, &artifacts, request).await;
        assert_eq!(status.as_u16(), code, "{what}: {answer:?}");
        if let Some(body) = body {
            assert_eq!(answer, body, "{what}");
        }
    }
}

#[tokio::test]
async fn given_http2_then_requests_are_answered_too() {
    let artifacts = certificates();
    let mut service = start(&artifacts, AT_ONCE).await;
    let stream = connect(service.port, &artifacts, b"h2").await.unwrap();
    let (mut sender, connection) = client2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    for _ in 0..3 {
        let response = sender
            .send_request(post("/mutate-pod", "application/json", REVIEW))
            .await
            .unwrap();
        assert_eq!(
            (response.status(), response.version()),
            (StatusCode::OK, Version::HTTP_2)
        );
    }
    service.stop.cancel();
    service.running.ended().await.unwrap();
}

#[tokio::test]
async fn given_a_body_that_is_announced_as_too_large_then_413_without_reading_it() {
    let artifacts = certificates();
    let service = start(&artifacts, AT_ONCE).await;
    for (path, length, code) in [
        ("/mutate-pod", 7 * 1024 * 1024 + 1, "413"),
        ("/convert", 32 * 1024 * 1024 + 1, "413"),
    ] {
        let mut stream = connect(service.port, &artifacts, b"http/1.1").await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, format!("HTTP/1.1 {code}").as_bytes(), "{path}");
    }
}

#[tokio::test]
async fn given_a_body_without_length_that_grows_too_large_then_413() {
    let artifacts = certificates();
    let service = start(&artifacts, AT_ONCE).await;
    let mut stream = connect(service.port, &artifacts, b"http/1.1").await.unwrap();
    let head =
        "POST /mutate-pod HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = [
        format!("{:x}\r\n", 64 * 1024).as_bytes(),
        &vec![b' '; 64 * 1024],
        b"\r\n",
    ]
    .concat();
    let mut answer = [0; 12];
    for _ in 0..120 {
        // The server may close while we still send.
        if stream.write_all(&chunk).await.is_err() {
            break;
        }
    }
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn given_a_new_certificate_then_new_connections_see_it_and_open_ones_go_on() {
    let (first, second) = (certificates(), certificates());
    let service = start(&first, AT_ONCE).await;
    let stream = connect(service.port, &first, b"http/1.1").await.unwrap();
    let (mut open, connection) = client1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    show(&service.certificate, &second);
    assert!(
        connect(service.port, &first, b"http/1.1").await.is_err(),
        "the old CA is no longer enough"
    );
    assert_eq!(send(service.port, &second, get("/healthz")).await.0, StatusCode::OK);
    let response = open.send_request(get("/healthz")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

#[tokio::test]
async fn given_a_stop_then_requests_are_taken_for_a_moment_and_asked_to_close() {
    let artifacts = certificates();
    let drain = DrainOptions {
        linger: Duration::from_secs(1),
        timeout: Duration::from_secs(10),
    };
    let mut service = start(&artifacts, drain).await;
    let stream = connect(service.port, &artifacts, b"http/1.1").await.unwrap();
    let (mut open, connection) = client1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let response = open
        .send_request(post("/mutate-pod", "application/json", REVIEW))
        .await
        .unwrap();
    assert_eq!(response.headers().get(header::CONNECTION), None);
    response.into_body().collect().await.unwrap();
    service.stop.cancel();
    // The flag is set by a task of its own: ask until it is seen, on connections that are still taken.
    let deadline = Instant::now() + Duration::from_millis(900);
    loop {
        assert!(Instant::now() < deadline, "no answer asked to close");
        open.ready().await.unwrap();
        let response = open
            .send_request(post("/mutate-pod", "application/json", REVIEW))
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let closing = response.headers().get(header::CONNECTION).cloned();
        response.into_body().collect().await.unwrap();
        if let Some(closing) = closing {
            assert_eq!(closing, "close");
            break;
        }
    }
    assert_eq!(
        send(service.port, &artifacts, get("/healthz")).await.0,
        StatusCode::OK,
        "new connections too"
    );
    service.running.ended().await.unwrap();
    assert!(
        connect(service.port, &artifacts, b"http/1.1").await.is_err(),
        "then it is over"
    );
    assert_eq!(service.metrics.connections.get(), 0);
}

#[tokio::test]
async fn given_a_stop_while_a_request_arrives_then_it_is_still_answered() {
    let artifacts = certificates();
    let mut service = start(&artifacts, AT_ONCE).await;
    let mut stream = connect(service.port, &artifacts, b"http/1.1").await.unwrap();
    let head = format!(
        "POST /mutate-pod HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        REVIEW.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // So the server says that it has begun to read the body.
    let mut begun = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    stream.read_exact(&mut begun).await.unwrap();
    assert!(begun.starts_with(b"HTTP/1.1 100"));
    service.stop.cancel();
    stream.write_all(REVIEW.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    service.running.ended().await.unwrap();
}

#[tokio::test]
async fn given_noise_instead_of_tls_then_the_server_goes_on() {
    let artifacts = certificates();
    let service = start(&artifacts, AT_ONCE).await;
    for noise in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 2000],
        b"\x16\x03\x01\x00\x05hello",
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", service.port)).await.unwrap();
        stream.write_all(noise).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
    }
    assert_eq!(send(service.port, &artifacts, get("/healthz")).await.0, StatusCode::OK);
}
