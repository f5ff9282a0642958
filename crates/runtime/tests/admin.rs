//! The admin endpoints over a real socket.

use axum::{Router, body::Body, extract::ConnectInfo, routing::get as get_route};
use bytes::Bytes;
use futures::stream;
use kruise_runtime::{
    admin::{Checks, Latch, Listener, Peer, Plans, metrics_router, plan_router, pprof_router},
    flags::parse_bind,
    metrics,
    shutdown::{CancellationToken, TaskError, Tasks},
};
use serde_json::{Value, json};
use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::{Mutex, mpsc},
    task::JoinHandle,
    time::timeout,
};

const LONG: Duration = Duration::from_secs(30);

struct Served {
    address: SocketAddr,
    stop: CancellationToken,
    ended: JoinHandle<Result<(), TaskError>>,
}

async fn serve(router: Router) -> Served {
    let bind = parse_bind("127.0.0.1:0").expect("address");
    let listener = Listener::bind("--addr", &bind)
        .await
        .expect("free port")
        .expect("listening");
    let address = listener.address().expect("address");
    let mut tasks = Tasks::new(CancellationToken::new());
    let stop = tasks.stop().clone();
    tasks.spawn("server", listener.serve(router, stop.clone()));
    let ended = tokio::spawn(tasks.run(LONG));
    Served { address, stop, ended }
}

/// Status line, headers and body of a GET.
async fn get(address: SocketAddr, path: &str) -> (u16, String, String) {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = timeout(LONG, exchange)
        .await
        .expect("an answer in time")
        .expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .expect("a status");
    (status, head.to_lowercase(), body.to_owned())
}

#[tokio::test]
async fn given_checks_then_health_and_readiness_answer_in_every_form() {
    let reached = Latch::default();
    let ready = Checks::ping().with_latch("api-server", &reached, "not reached yet");
    let served = serve(Checks::ping().router("healthz").merge(ready.router("readyz"))).await;
    let expect = async |path: &str, status: u16, body: &str| {
        let (seen, _, text) = get(served.address, path).await;
        assert_eq!((seen, text.as_str()), (status, body), "{path}");
    };

    expect("/healthz", 200, "ok").await;
    expect("/healthz/", 200, "ok").await;
    expect("/healthz?verbose", 200, "[+]ping ok\nhealthz check passed\n").await;
    expect("/healthz/ping", 200, "ok").await;
    expect("/healthz/other", 404, "there is no check other\n").await;
    expect(
        "/readyz",
        500,
        "[-]api-server failed: not reached yet\n[+]ping ok\nreadyz check failed\n",
    )
    .await;
    expect("/readyz/api-server", 500, "not reached yet\n").await;
    expect("/readyz?exclude=api-server", 200, "ok").await;
    expect(
        "/readyz?verbose=1&exclude=api-server",
        200,
        "[+]api-server excluded: ok\n[+]ping ok\nreadyz check passed\n",
    )
    .await;

    reached.set();
    expect("/readyz", 200, "ok").await;
    expect("/readyz/api-server", 200, "ok").await;
}

#[tokio::test]
async fn given_a_check_that_never_answers_then_the_endpoint_still_does() {
    let served = serve(Checks::default().with("slow", std::future::pending).router("readyz")).await;
    let (status, _, body) = get(served.address, "/readyz").await;
    assert_eq!(status, 500);
    assert!(body.contains("[-]slow failed: no answer within"), "{body}");
}

#[tokio::test]
async fn given_a_registry_then_metrics_are_prometheus_text() {
    let registry = metrics::registry("kruise-test", "0").expect("registry");
    let served = serve(metrics_router(registry)).await;
    let (status, head, body) = get(served.address, "/metrics").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    assert!(body.contains("# TYPE process_resident_memory_bytes gauge"), "{body}");
    assert_eq!(get(served.address, "/other").await.0, 404);
}

#[tokio::test]
async fn given_the_profiler_address_then_the_index_answers_and_profiles_are_declined() {
    let served = serve(pprof_router()).await;
    assert_eq!(get(served.address, "/debug/pprof/").await.0, 200);
    assert_eq!(get(served.address, "/debug/pprof").await.0, 200);
    assert_eq!(get(served.address, "/debug/pprof/profile?seconds=1").await.0, 501);
    assert_eq!(get(served.address, "/debug/pprof/heap").await.0, 501);
    let (status, _, body) = get(served.address, "/debug/pprof/cmdline").await;
    assert_eq!(status, 200);
    assert!(body.contains("admin"), "{body}");
}

#[tokio::test]
async fn given_controllers_that_explain_then_their_plans_are_shown_by_kind_namespace_and_name() {
    let plans = Plans::default();
    let served = serve(plan_router(plans.clone())).await;
    plans.add(
        "CloneSet",
        "cloneset-controller",
        Arc::new(|key| (&*key.name == "web").then(|| json!({"idle": true}))),
    );
    plans.add(
        "CloneSet",
        "other-controller",
        Arc::new(|key| Some(json!(key.to_string()))),
    );
    plans.add(
        "NodeImage",
        "nodeimage-controller",
        Arc::new(|key| Some(json!(key.to_string()))),
    );
    plans.add("Pod", "broken-controller", Arc::new(|_| panic!("as the test wants it")));
    let answer = async |path: &str| {
        let (status, _, body) = get(served.address, path).await;
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    };
    let both = json!({"cloneset-controller": {"idle": true}, "other-controller": "shop/web"});
    assert_eq!(answer("/debug/plan/cloneset/shop/web").await, (200, both.clone()));
    assert_eq!(answer("/debug/plan/CloneSet/shop/web").await, (200, both));
    let one = json!({"other-controller": "shop/db"});
    assert_eq!(answer("/debug/plan/cloneset/shop/db").await, (200, one));
    let of_cluster = json!({"nodeimage-controller": "node1"});
    assert_eq!(answer("/debug/plan/nodeimage/node1").await, (200, of_cluster));
    let kinds = json!({
        "cloneset": ["cloneset-controller", "other-controller"], "nodeimage": ["nodeimage-controller"], "pod": ["broken-controller"],
    });
    assert_eq!(answer("/debug/plan").await, (200, kinds));
    assert_eq!(answer("/debug/plan/job/shop/web").await.0, 404);
    let (status, why) = answer("/debug/plan/pod/shop/web").await;
    assert_eq!((status, why), (500, json!("broken-controller panicked, see the log\n")));
}

#[tokio::test]
async fn given_a_connection_that_says_nothing_when_stopped_then_the_server_ends_all_the_same() {
    let served = serve(Checks::ping().router("healthz")).await;
    let _silent = TcpStream::connect(served.address).await.expect("connected");
    assert_eq!(get(served.address, "/healthz").await.0, 200);
    served.stop.cancel();
    let ended = timeout(LONG, served.ended)
        .await
        .expect("ends in time")
        .expect("no panic");
    assert_eq!(ended, Ok(()));
    assert!(
        TcpStream::connect(served.address).await.is_err(),
        "nobody listens any more"
    );
}

/// An address of this machine that is not the loopback; nothing where there is none.
fn own_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent; the kernel only chooses the way.
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[tokio::test]
async fn given_an_address_for_everybody_then_plans_are_shown_to_this_machine_only() {
    let bind = parse_bind(":0").expect("address");
    let listener = Listener::bind("--addr", &bind)
        .await
        .expect("free port")
        .expect("listening");
    let port = listener.address().expect("address").port();
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    let router = pprof_router().merge(plan_router(Plans::default()));
    tokio::spawn(listener.serve(router, stop));
    let here = SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(get(here, "/debug/plan").await.0, 200);
    if let Some(elsewhere) = own_address() {
        let elsewhere = SocketAddr::new(elsewhere, port);
        assert_eq!(get(elsewhere, "/debug/plan").await.0, 403);
        assert_eq!(get(elsewhere, "/debug/plan/cloneset/n/web").await.0, 403);
        assert_eq!(get(elsewhere, "/debug/pprof/").await.0, 200);
    }
}

#[tokio::test]
async fn given_hundreds_of_idle_connections_then_the_next_one_is_served_and_the_oldest_are_closed() {
    let served = serve(Checks::ping().router("healthz")).await;
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(TcpStream::connect(served.address).await.expect("a connection"));
        if idle.len() % 50 == 0 {
            assert_eq!(get(served.address, "/healthz").await.0, 200);
        }
    }
    let mut byte = [0];
    let oldest = timeout(LONG, idle[0].read(&mut byte)).await.expect("closed in time");
    assert_eq!(oldest.unwrap_or(0), 0, "nothing but the end");
}

#[tokio::test]
async fn given_a_handler_that_lets_a_connection_stay_then_hundreds_of_others_do_not_end_it() {
    let (tell, told) = mpsc::channel(1);
    let told = Arc::new(Mutex::new(Some(told)));
    let stream = get_route(move |ConnectInfo(peer): ConnectInfo<Peer>| async move {
        let told = told.lock().await.take().expect("asked once");
        let state = (told, peer.stay());
        Body::from_stream(stream::unfold(state, |(mut told, stay)| async move {
            let bytes: Bytes = told.recv().await?;
            Some((Ok::<_, Infallible>(bytes), (told, stay)))
        }))
    });
    let served = serve(Router::new().route("/stream", stream)).await;
    let mut reader = TcpStream::connect(served.address).await.expect("a connection");
    let request = b"GET /stream HTTP/1.1\r\nHost: test\r\n\r\n";
    reader.write_all(request).await.expect("sent");
    tell.send("first".into()).await.expect("somebody reads");
    let mut came = Vec::new();
    read_until(&mut reader, &mut came, "first").await;
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(TcpStream::connect(served.address).await.expect("a connection"));
    }
    let mut byte = [0];
    let ended = timeout(LONG, idle[0].read(&mut byte)).await.expect("closed in time");
    assert_eq!(ended.unwrap_or(0), 0, "those who may not stay make room");
    tell.send("second".into()).await.expect("somebody still reads");
    read_until(&mut reader, &mut came, "second").await;
}

async fn read_until(stream: &mut TcpStream, came: &mut Vec<u8>, words: &str) {
    while !String::from_utf8_lossy(came).contains(words) {
        let read = timeout(LONG, stream.read_buf(came)).await.expect("in time");
        assert!(read.expect("readable") > 0, "it ends before {words}");
    }
}
