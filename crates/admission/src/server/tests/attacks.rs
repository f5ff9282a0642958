//! Peers that mean harm, while another is served.

use super::*;
use crate::{
    Request as Review, Verdict,
    descriptor::{Handler, Hook, Live, Needs, Reach, Resource},
};
use serde_json::json;
use std::sync::{Mutex, PoisonError};
use tokio::net::TcpSocket;

/// Few places, so that a test can take all of them.
const FEW: Limits = Limits {
    connections: 8,
    of_one_source: 6,
    idle: Duration::from_mins(1),
    age: Duration::from_mins(10),
    body: Duration::from_secs(1),
};
/// How long anybody who means well may have to wait.
const PATIENCE: Duration = Duration::from_mins(1);
/// Addresses that attacks come from; the others come from 127.0.0.1.
const ATTACKERS: [[u8; 4]; 2] = [[127, 0, 0, 2], [127, 0, 0, 3]];
/// More than there are places for both attackers together.
const CROWD: usize = 10;

async fn dial(port: u16, source: [u8; 4]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((source, 0).into()).unwrap();
    socket.connect(([127, 0, 0, 1], port).into()).await.unwrap()
}

/// Waits until the server has closed the connection.
async fn closed(mut stream: impl tokio::io::AsyncRead + Unpin) -> bool {
    let mut rest = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut rest)).await.is_ok()
}

/// Waits until no more connections are open.
async fn open_at_most(service: &Service, most: usize, attack: &str) {
    let deadline = Instant::now() + PATIENCE;
    while service.metrics.connections.get() > most.try_into().unwrap() {
        assert!(Instant::now() < deadline, "{attack}: connections stay open");
        tokio::task::yield_now().await;
    }
}

fn head(path: &str, length: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n")
}

/// A conversion of so many megabytes, whose answer is as large.
fn conversion(megabytes: usize) -> String {
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "x"},
        "spec": {"template": {"spec": {"text": "x".repeat(megabytes << 20)}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": [object]}})
    .to_string()
}

/// One who means well comes over a new connection, and gets answers to a small question and to a large one.
async fn another_is_served(port: u16, artifacts: &Artifacts, attack: &str) {
    let asked = async {
        let small = send(port, artifacts, post("/mutate-pod", "application/json", REVIEW)).await;
        let large = send(port, artifacts, post("/convert", "application/json", conversion(2))).await;
        [small, large].map(|(status, _)| status)
    };
    let answers = timeout(PATIENCE, asked).await;
    assert_eq!(answers, Ok([StatusCode::OK; 2]), "{attack}");
}

#[tokio::test]
async fn given_peers_that_take_all_they_can_then_another_is_served() {
    let artifacts = certificates();
    let attacks: [(&str, Option<String>); 6] = [
        ("no handshake", None),
        ("nothing said", Some(String::new())),
        ("half a head", Some("POST /mutate-pod HTTP/1.1\r\nHost: x\r\n".into())),
        ("half a small body", Some(head("/mutate-pod", 1000) + "{")),
        ("half a large body", Some(head("/mutate-pod", 7 << 20) + "{")),
        ("a large answer that nobody reads", {
            let conversion = conversion(12);
            Some(head("/convert", conversion.len()) + &conversion)
        }),
    ];
    for (attack, said) in attacks {
        let service = start_with(&artifacts, AT_ONCE, FEW, &[]).await;
        let said: Option<Arc<str>> = said.map(Into::into);
        let mut attackers = tokio::task::JoinSet::new();
        for source in ATTACKERS.into_iter().flat_map(|source| [source; CROWD]) {
            let (port, artifacts, said) = (service.port, artifacts.clone(), said.clone());
            attackers.spawn(async move {
                let stream = dial(port, source).await;
                let Some(said) = said else {
                    return std::future::pending().await;
                };
                // The server may close it for the next at any time; otherwise it is kept.
                if let Ok(mut stream) = shake_hands(stream, &artifacts, b"http/1.1").await
                    && stream.write_all(said.as_bytes()).await.is_ok()
                {
                    std::future::pending::<()>().await;
                }
            });
        }
        let deadline = Instant::now() + PATIENCE;
        while service.metrics.connections.get() < 8 {
            assert!(Instant::now() < deadline, "{attack}: there are places left");
            tokio::task::yield_now().await;
        }
        another_is_served(service.port, &artifacts, attack).await;
        // Those that had to go need a moment for it.
        open_at_most(&service, FEW.connections, attack).await;
        drop(attackers);
    }
}

#[tokio::test]
async fn given_bodies_that_never_arrive_on_one_connection_then_others_are_served() {
    let artifacts = certificates();
    let service = start_with(&artifacts, AT_ONCE, FEW, &[]).await;
    let stream = dial(service.port, ATTACKERS[0]).await;
    let stream = shake_hands(stream, &artifacts, b"h2").await.unwrap();
    let (sender, connection) = client2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut answers = Vec::new();
    for _ in 0..50 {
        let never = http_body_util::StreamBody::new(futures::stream::pending::<
            Result<hyper::body::Frame<Bytes>, std::convert::Infallible>,
        >());
        let request = post("/convert", "application/json", "").map(|_| never);
        let mut sender = sender.clone();
        answers.push(tokio::spawn(async move { sender.send_request(request).await }));
    }
    another_is_served(service.port, &artifacts, "streams").await;
    let first = timeout(PATIENCE, answers.swap_remove(0)).await.unwrap().unwrap();
    assert_eq!(first.unwrap().status(), StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn given_more_connections_than_one_source_may_have_then_its_longest_idle_one_is_closed() {
    let artifacts = certificates();
    let service = start_with(&artifacts, AT_ONCE, FEW, &[]).await;
    let mut streams = Vec::new();
    for _ in 0..=FEW.of_one_source {
        let stream = dial(service.port, ATTACKERS[0]).await;
        streams.push(shake_hands(stream, &artifacts, b"http/1.1").await.unwrap());
    }
    assert!(closed(streams.remove(0)).await);
    for stream in streams {
        let (mut sender, connection) = client1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        assert_eq!(
            sender.send_request(get("/healthz")).await.unwrap().status(),
            StatusCode::OK
        );
    }
}

#[tokio::test]
async fn given_an_idle_connection_then_it_is_closed_even_if_its_answer_was_not_read() {
    let artifacts = certificates();
    let limits = Limits {
        idle: Duration::from_millis(300),
        ..FEW
    };
    let service = start_with(&artifacts, AT_ONCE, limits, &[]).await;
    let conversion = conversion(12);
    let large = head("/convert", conversion.len()) + &conversion;
    for said in ["", &large] {
        let mut stream = connect(service.port, &artifacts, b"http/1.1").await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        open_at_most(&service, 0, "idle").await;
    }
    let stream = connect(service.port, &artifacts, b"h2").await.unwrap();
    let (_sender, connection) = client2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    timeout(PATIENCE, connection).await.unwrap().unwrap();
}

#[tokio::test]
async fn given_an_old_connection_then_it_is_asked_to_come_back() {
    let artifacts = certificates();
    let limits = Limits {
        age: Duration::ZERO,
        ..FEW
    };
    let service = start_with(&artifacts, AT_ONCE, limits, &[]).await;
    let stream = connect(service.port, &artifacts, b"http/1.1").await.unwrap();
    let (mut sender, connection) = client1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let response = sender.send_request(get("/healthz")).await.unwrap();
    assert_eq!(response.headers()[header::CONNECTION], "close");
    timeout(PATIENCE, connection).await.unwrap().unwrap().unwrap();
    let stream = connect(service.port, &artifacts, b"h2").await.unwrap();
    let (_sender, connection) = client2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    timeout(PATIENCE, connection).await.unwrap().unwrap();
}

/// Held by a test that wants no answer.
static GATE: Mutex<()> = Mutex::new(());

fn wait_for_the_gate(_: &Review<'_>, _: &Context) -> Verdict {
    drop(GATE.lock().unwrap_or_else(PoisonError::into_inner));
    Verdict::allow()
}

static GATED: [Descriptor; 1] = [Descriptor {
    resource: Resource::BuiltIn {
        group: "test",
        versions: &["v1"],
        plural: "gates",
    },
    mutate: Some(Hook {
        path: "/gated",
        alias: None,
        entries: &[],
        live: Live::Always,
        reach: Reach::All,
        handler: Handler::Now(wait_for_the_gate),
        reads: &[],
    }),
    validate: None,
    gates: Needs::Nothing,
    invalid: 422,
    controllers: &[],
    grants: &[],
}];

/// Not in the test itself: a lock is not held across waiting.
struct Shut(#[allow(dead_code)] std::sync::MutexGuard<'static, ()>);

#[tokio::test]
async fn given_an_answer_that_takes_too_long_then_504_in_time_and_its_memory_stays_in_use() {
    let artifacts = certificates();
    let limits = Limits {
        body: Duration::from_secs(10),
        ..Limits::default()
    };
    let service = start_with(&artifacts, AT_ONCE, limits, &GATED).await;
    let shut = Shut(GATE.lock().unwrap_or_else(PoisonError::into_inner));
    let review = REVIEW.replace("\"u\"", &format!("\"{}\"", "u".repeat(6 << 20)));
    let ask = |time: &str| {
        let path = format!("/gated?timeout={time}");
        let asked = send(
            service.port,
            &artifacts,
            post(&path, "application/json", review.clone()),
        );
        async { timeout(PATIENCE, asked).await.unwrap().0.as_u16() }
    };
    let mut answers = futures::future::join_all((0..8).map(|_| ask("5s"))).await;
    answers.sort_unstable();
    assert_eq!(answers, [503, 503, 504, 504, 504, 504, 504, 504], "six fit into memory");
    assert_eq!(ask("1s").await, 503, "and are there as long as somebody works on them");
    let (status, _) = send(
        service.port,
        &artifacts,
        post("/mutate-pod", "application/json", REVIEW),
    )
    .await;
    assert_eq!(status, StatusCode::OK, "small questions are answered");
    drop(shut);
    assert_eq!(ask("30s").await, 200);
}
