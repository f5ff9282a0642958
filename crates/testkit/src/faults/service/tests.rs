use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::stream;
use http::Method;
use http_body::Frame;
use tokio::sync::mpsc;

use super::*;
use crate::faults::{Cut, When};

/// A server that counts what reaches it, and whose watches tell what is sent into the channel.
#[derive(Clone)]
struct Server {
    reached: Arc<AtomicU64>,
    events: Arc<tokio::sync::Mutex<Option<mpsc::UnboundedReceiver<&'static str>>>>,
}

impl Server {
    fn new() -> (Self, mpsc::UnboundedSender<&'static str>) {
        let (tell, events) = mpsc::unbounded_channel();
        let server = Self {
            reached: Arc::default(),
            events: Arc::new(tokio::sync::Mutex::new(Some(events))),
        };
        (server, tell)
    }

    fn reached(&self) -> u64 {
        self.reached.load(Ordering::Relaxed)
    }
}

impl Service<Request<Body>> for Server {
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.reached.fetch_add(1, Ordering::Relaxed);
        let events = self.events.clone();
        async move {
            let body = if request.uri().query() == Some("watch=1") {
                let events = events.lock().await.take().expect("one watch");
                let frames = stream::unfold(events, |mut events| async {
                    let text = events.recv().await?;
                    Some((Ok(Frame::data(Bytes::from(text))), events))
                });
                StreamBody::new(frames).boxed_unsync()
            } else {
                Full::from("{}").map_err(|never| match never {}).boxed_unsync()
            };
            Ok(Response::new(body))
        }
        .boxed()
    }
}

async fn send(service: &mut FaultService<Server>, method: Method, uri: &str) -> Result<Answer, BoxError> {
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .body(Body::empty())
        .expect("a request");
    service.call(request).await
}

async fn create(service: &mut FaultService<Server>) -> Result<u16, String> {
    let answer = send(service, Method::POST, "/api/v1/namespaces/n/pods").await;
    answer
        .map(|answer| answer.status().as_u16())
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn given_a_refusal_then_nothing_reaches_the_server_and_the_answer_looks_like_its_own() {
    let (faults, (server, _)) = (Faults::new(1), Server::new());
    let mut service = faults.layer().layer(server.clone());
    faults.inject(When::verb("create").on("pods").nth(2), Fault::Refuse(429));
    assert_eq!(create(&mut service).await, Ok(200));
    let answer = send(&mut service, Method::POST, "/api/v1/namespaces/n/pods")
        .await
        .expect("an answer");
    assert_eq!(answer.status().as_u16(), 429);
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    let status: kube::core::Status = serde_json::from_slice(&body).expect("a status");
    assert_eq!((status.code, status.reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(create(&mut service).await, Ok(200));
    assert_eq!(
        (server.reached(), faults.writes(), faults.count("create", "pods")),
        (2, 2, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn given_silence_then_nothing_reaches_the_server_and_no_answer_ever_comes() {
    let (faults, (server, _)) = (Faults::new(1), Server::new());
    let mut service = faults.layer().layer(server.clone());
    faults.inject(When::writes().times(1), Fault::Unanswered);
    let answer = tokio::time::timeout(Duration::from_hours(1), create(&mut service)).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!((server.reached(), faults.writes()), (0, 0));
    assert_eq!(create(&mut service).await, Ok(200));
}

#[tokio::test]
async fn given_a_lost_reply_then_the_server_has_done_it() {
    let (faults, (server, _)) = (Faults::new(1), Server::new());
    let mut service = faults.layer().layer(server.clone());
    faults.inject(When::writes().times(1), Fault::LoseReply);
    assert_eq!(
        create(&mut service).await,
        Err("connection reset before the answer".to_owned())
    );
    assert_eq!(server.reached(), 1);
    assert_eq!(create(&mut service).await, Ok(200), "only once");
}

#[tokio::test]
async fn given_a_crash_after_the_second_write_then_that_is_the_last_call_of_all() {
    let (faults, (server, _)) = (Faults::new(1), Server::new());
    let mut service = faults.layer().layer(server.clone());
    faults.crash_after_writes(2);
    assert_eq!(create(&mut service).await, Ok(200));
    assert!(
        send(&mut service, Method::GET, "/api/v1/pods").await.is_ok(),
        "reads do not count"
    );
    assert!(!faults.crashed());
    assert!(create(&mut service).await.is_err());
    faults.until_crashed().await;
    assert!(create(&mut service).await.is_err());
    assert!(send(&mut service, Method::GET, "/api/v1/pods").await.is_err());
    assert_eq!((server.reached(), faults.writes(), faults.reads()), (3, 2, 1));
}

#[tokio::test]
async fn given_chance_then_the_same_seed_gives_the_same_faults() {
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let faults = Faults::new(seed);
        let mut service = faults.layer().layer(Server::new().0);
        faults.inject(When::writes().with_probability(0.5), Fault::Refuse(409));
        let mut codes = Vec::new();
        for _ in 0..64 {
            codes.push(create(&mut service).await.expect("an answer"));
        }
        let refused = codes.iter().filter(|code| **code == 409).count();
        assert!((16..=48).contains(&refused), "{refused} of 64");
        runs.push(codes);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[tokio::test(start_paused = true)]
async fn given_a_delay_then_the_answer_is_late() {
    let faults = Faults::new(1);
    let mut service = faults.layer().layer(Server::new().0);
    faults.inject(When::any(), Fault::Delay(Duration::from_secs(3)));
    let begin = tokio::time::Instant::now();
    assert_eq!(create(&mut service).await, Ok(200));
    assert_eq!(begin.elapsed(), Duration::from_secs(3));
    faults.heal();
    assert_eq!(create(&mut service).await, Ok(200));
    assert_eq!(begin.elapsed(), Duration::from_secs(3));
}

struct Watching {
    faults: Faults,
    tell: mpsc::UnboundedSender<&'static str>,
    body: UnsyncBoxBody<Bytes, BoxError>,
}

async fn watching() -> Watching {
    let (faults, (server, tell)) = (Faults::new(1), Server::new());
    let mut service = faults.layer().layer(server);
    let answer = send(&mut service, Method::GET, "/api/v1/pods?watch=1")
        .await
        .expect("a watch");
    Watching {
        faults,
        tell,
        body: answer.into_body(),
    }
}

impl Watching {
    async fn next(&mut self) -> Option<Result<String, String>> {
        let frame = self.body.frame().await?;
        let text = |frame: Frame<Bytes>| String::from_utf8(frame.into_data().expect("data").to_vec()).expect("text");
        Some(frame.map(text).map_err(|error| error.to_string()))
    }

    fn nothing_yet(&mut self) -> bool {
        self.body.frame().now_or_never().is_none()
    }
}

#[tokio::test]
async fn given_events_in_pieces_then_they_are_told_line_by_line() {
    let mut watching = watching().await;
    for piece in ["one\ntw", "o\nthree\n"] {
        watching.tell.send(piece).expect("sent");
    }
    for line in ["one\n", "two\n", "three\n"] {
        assert_eq!(watching.next().await, Some(Ok(line.to_owned())));
    }
}

#[tokio::test]
async fn given_an_expired_cut_then_the_watch_ends_with_410_and_given_a_closed_one_then_silently() {
    for (cut, code) in [(Cut::Expired, Some(410)), (Cut::Closed, None)] {
        let mut watching = watching().await;
        watching.faults.cut_watches(Some("nodes"), cut);
        watching.tell.send("one\n").expect("sent");
        assert_eq!(
            watching.next().await,
            Some(Ok("one\n".to_owned())),
            "another resource is not cut"
        );
        watching.faults.cut_watches(Some("pods"), cut);
        if let Some(code) = code {
            let line = watching.next().await.expect("a line").expect("no error");
            let event: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            assert_eq!(
                (&event["type"], &event["object"]["code"]),
                (&json!("ERROR"), &json!(code))
            );
        }
        assert_eq!(watching.next().await, None);
    }
}

#[tokio::test]
async fn given_a_watch_that_is_opened_after_a_cut_then_it_lives() {
    let (faults, (server, tell)) = (Faults::new(1), Server::new());
    faults.cut_watches(None, Cut::Expired);
    let mut service = faults.layer().layer(server);
    let answer = send(&mut service, Method::GET, "/api/v1/pods?watch=1")
        .await
        .expect("a watch");
    let mut watching = Watching {
        faults,
        tell,
        body: answer.into_body(),
    };
    watching.tell.send("one\n").expect("sent");
    assert_eq!(watching.next().await, Some(Ok("one\n".to_owned())));
}

#[tokio::test]
async fn given_held_events_then_they_come_after_the_release() {
    let mut watching = watching().await;
    watching.faults.hold_watches();
    watching.tell.send("one\n").expect("sent");
    assert!(watching.nothing_yet());
    watching.faults.release_watches();
    assert_eq!(watching.next().await, Some(Ok("one\n".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn given_delayed_events_then_they_come_late() {
    let mut watching = watching().await;
    watching.faults.delay_watches(Duration::from_secs(5));
    let begin = tokio::time::Instant::now();
    watching.tell.send("one\n").expect("sent");
    assert_eq!(watching.next().await, Some(Ok("one\n".to_owned())));
    assert_eq!(begin.elapsed(), Duration::from_secs(5));
}

#[tokio::test]
async fn given_a_crash_then_open_watches_fail() {
    let mut watching = watching().await;
    watching.faults.crash();
    assert!(watching.next().await.expect("an item").is_err());
    assert_eq!(watching.next().await, None);
}
