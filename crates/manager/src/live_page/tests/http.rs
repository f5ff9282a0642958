//! The page over a real connection, for readers with different rights.

use super::super::access::Access;
use super::super::answers::{Answers, router};
use super::{Cluster, Fixture, pod};
use kruise_runtime::{
    admin::Listener, cache::Change, flags::parse_bind, lease::Leadership, shutdown::CancellationToken,
};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};

/// For anything to happen.
const PATIENCE: Duration = Duration::from_secs(20);

struct Served {
    address: SocketAddr,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Served {
    async fn new(fixture: &Fixture, cluster: &Cluster) -> Self {
        let bind = parse_bind("127.0.0.1:0").unwrap();
        let listener = Listener::bind("--ui-addr", &bind).await.unwrap().unwrap();
        let address = listener.address().unwrap();
        let answers = Answers {
            hub: fixture.hub.clone(),
            access: Arc::new(Access::new(cluster.clone())),
            asked: None,
            leadership: Leadership::always(),
        };
        let stop = CancellationToken::new();
        let serving = listener.serve(router(answers), stop.clone());
        let sending = fixture.hub.clone().run(stop.clone());
        let tasks = vec![
            tokio::spawn(async move { serving.await.unwrap() }),
            tokio::spawn(async move {
                let Ok(()) = sending.await;
            }),
        ];
        Self { address, stop, tasks }
    }

    async fn ask(&self, path: &str, token: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        Answer {
            stream,
            text: String::new(),
        }
    }

    async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            timeout(PATIENCE, task).await.unwrap().unwrap();
        }
    }
}

struct Answer {
    stream: TcpStream,
    text: String,
}

impl Answer {
    /// Reads until it has this text, and returns all.
    async fn until(&mut self, wanted: &str) -> &str {
        while !self.text.contains(wanted) {
            let mut buffer = [0; 4096];
            let read = timeout(PATIENCE, self.stream.read(&mut buffer)).await;
            let read = read.unwrap_or_else(|_| panic!("no {wanted} in {}", self.text)).unwrap();
            assert!(read > 0, "no {wanted} in {}", self.text);
            self.text.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
        &self.text
    }

    /// Reads to the end.
    async fn whole(mut self) -> String {
        let mut rest = String::new();
        timeout(PATIENCE, self.stream.read_to_string(&mut rest))
            .await
            .unwrap()
            .unwrap();
        self.text + &rest
    }
}

#[tokio::test]
async fn given_readers_with_different_rights_then_each_sees_what_it_may_list() {
    let fixture = Fixture::new();
    fixture.set("shop", "web", 1);
    fixture.set("bank", "vault", 1);
    fixture.pods.feed(Change::Applied(pod("shop", "web-a", "web")));
    let rights = ["all clonesets *", "all pods *", "ann clonesets shop", "bob pods *"];
    let cluster = Cluster::new(&["all", "ann", "bob"], &rights);
    let served = Served::new(&fixture, &cluster).await;
    for (token, web, vault) in [("all", true, true), ("ann", true, false), ("bob", false, false)] {
        let mut answer = served.ask("/api/tables/workloads", token).await;
        let text = answer.until("event: whole").await;
        assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
        assert!(text.contains(&format!("\"reader\":\"{token}\"")), "{text}");
        assert_eq!(
            (text.contains("\"web\""), text.contains("\"vault\"")),
            (web, vault),
            "{token}: {text}"
        );
    }
    let mut chosen = served.ask("/api/tables/workloads?namespace=bank", "all").await;
    let text = chosen.until("event: whole").await;
    assert!(text.contains("\"vault\"") && !text.contains("\"web\""), "{text}");
    let page = "/api/workload?kind=CloneSet&namespace=shop&name=web";
    let mut all = served.ask(page, "all").await;
    assert!(all.until("event: whole").await.contains("\"web-a\""));
    let mut ann = served.ask(page, "ann").await;
    let text = ann.until("event: whole").await;
    assert!(text.contains("\"web\"") && !text.contains("\"web-a\""), "{text}");
    // Whoever may not see it cannot tell it from one that is not there.
    let hidden = served.ask(page, "bob").await.whole().await;
    let missing = served
        .ask("/api/workload?kind=CloneSet&namespace=shop&name=none", "bob")
        .await
        .whole()
        .await;
    assert!(hidden.starts_with("HTTP/1.1 404"), "{hidden}");
    let message = |text: &str| text.rsplit("\r\n").next().map(str::to_owned);
    assert_eq!(message(&hidden), message(&missing));
    served.stop().await;
}

#[tokio::test]
async fn given_nobody_or_a_stranger_then_there_is_no_answer_but_the_page_itself() {
    let fixture = Fixture::new();
    let served = Served::new(&fixture, &Cluster::default()).await;
    for path in [
        "/api/tables/workloads",
        "/api/workload?kind=CloneSet&name=web",
        "/api/reasons?kind=CloneSet&name=web",
    ] {
        for token in ["", "stranger"] {
            let answer = served.ask(path, token).await.whole().await;
            assert!(answer.starts_with("HTTP/1.1 401"), "{path}: {answer}");
            assert!(answer.to_lowercase().contains("www-authenticate: bearer"), "{answer}");
        }
    }
    for path in ["/", "/page.js", "/stream.js", "/page.css", "/icon.svg"] {
        let answer = served.ask(path, "").await.whole().await.to_lowercase();
        assert!(answer.starts_with("http/1.1 200"), "{path}: {answer}");
        assert!(
            answer.contains("content-security-policy: default-src 'none'; script-src 'self'"),
            "{answer}"
        );
        assert!(!answer.contains("unsafe"), "{path}");
    }
    for path in ["/../Cargo.toml", "/page.css/..", "/api"] {
        let answer = served.ask(path, "").await.whole().await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
    served.stop().await;
}

#[tokio::test]
async fn given_an_open_page_then_changes_arrive_and_a_stop_lets_readers_go() {
    let fixture = Fixture::new();
    fixture.set("shop", "web", 1);
    let cluster = Cluster::new(&["ann"], &["ann clonesets shop"]);
    let served = Served::new(&fixture, &cluster).await;
    let mut answer = served.ask("/api/tables/workloads", "ann").await;
    answer.until("event: whole").await;
    fixture.set("bank", "vault", 1);
    fixture.set("shop", "web", 2);
    let text = answer.until("\"ready\":2").await;
    assert!(!text.contains("vault"), "{text}");
    served.stop().await;
    assert!(answer.whole().await.contains("event: again"));
}

#[tokio::test]
async fn given_paths_and_methods_that_there_are_not_then_they_are_refused() {
    let fixture = Fixture::new();
    let cluster = Cluster::new(&["ann"], &["ann clonesets *"]);
    let served = Served::new(&fixture, &cluster).await;
    for path in [
        "/api/tables/secrets",
        "/api/workload?kind=Secret&namespace=shop&name=web",
        "/api/workload?kind=PodUnavailableBudget&namespace=shop&name=web",
    ] {
        let answer = served.ask(path, "ann").await.whole().await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
    let answer = served.ask("/api/workload?kind=CloneSet", "ann").await.whole().await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    served.stop().await;
}
