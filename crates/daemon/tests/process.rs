//! The daemon as a process: how it starts, what it shows, how it ends.

#[path = "../../manager/tests/process/support.rs"]
mod support;

use kruise_cri::fake::FakeRuntime;
use std::{net::TcpListener, path::Path};
use support::{Running, api_server, get_until, kubeconfig, refusal};

const PROGRAM: &str = env!("CARGO_BIN_EXE_kruise-daemon");
const ANYWHERE: [&str; 2] = ["--addr=127.0.0.1:0", "--pprof-addr=127.0.0.1:0"];
const NODE: (&str, &str) = ("NODE_NAME", "node1");

/// A container runtime, and the flag that names its socket.
fn runtime(folder: &Path) -> (FakeRuntime, String) {
    let socket = folder.join("runtime.sock");
    (
        FakeRuntime::start(&socket),
        format!("--socket-file={}", socket.display()),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn given_an_api_server_then_it_is_healthy_shows_metrics_and_ends_with_zero() {
    let place = tempfile::tempdir().expect("directory");
    let config = format!("--kubeconfig={}", kubeconfig(place.path(), api_server().await));
    let (_runtime, socket) = runtime(place.path());
    let mut daemon = Running::start(PROGRAM, &[&ANYWHERE[..], &[&config, &socket]].concat(), &[NODE]);
    let address = daemon.listens("--addr").await;
    let pprof = daemon.listens("--pprof-addr").await;
    assert_eq!(get_until(address, "/healthz", 200), "ok");
    let text = get_until(address, "/metrics", 200);
    assert!(text.contains("kruise_build_info{component=\"kruise-daemon\""), "{text}");
    assert!(text.contains("process_resident_memory_bytes "), "{text}");
    get_until(pprof, "/debug/pprof/", 200);
    daemon.signal("TERM");
    let (status, text) = daemon.ends().await;
    assert_eq!(status.code(), Some(0), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn given_a_server_that_never_answers_then_it_is_not_healthy_and_still_ends_with_zero() {
    let place = tempfile::tempdir().expect("directory");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let config = kubeconfig(place.path(), silent.local_addr().expect("address"));
    let (_runtime, socket) = runtime(place.path());
    let args = [&ANYWHERE[..], &[&socket]].concat();
    let mut daemon = Running::start(PROGRAM, &args, &[NODE, ("KUBECONFIG", &config)]);
    let address = daemon.listens("--addr").await;
    let body = get_until(address, "/healthz", 500);
    assert_eq!(body, "check apiServerReached failed, err: not reached yet");
    daemon.signal("TERM");
    assert_eq!(daemon.ends().await.0.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn given_no_container_runtime_then_it_ends_with_one_and_says_where_it_looked() {
    let place = tempfile::tempdir().expect("directory");
    let config = kubeconfig(place.path(), api_server().await);
    let socket = format!("--socket-file={}/nothing.sock", place.path().display());
    let args = [&ANYWHERE[..], &[&socket]].concat();
    let (code, text) = refusal(PROGRAM, &args, &[NODE, ("KUBECONFIG", &config)]).await;
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("not found container runtime sock") && text.contains("nothing.sock"),
        "{text}"
    );
}

#[tokio::test]
async fn given_a_port_in_use_then_it_ends_with_one_also_for_the_profiler() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("address");
    for flag in ["--addr", "--pprof-addr"] {
        let given = format!("{flag}={address}");
        let (code, text) = refusal(PROGRAM, &[&ANYWHERE[..], &[&given]].concat(), &[NODE]).await;
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(&given) && text.contains("already in use"), "{text}");
    }
}

/// Arguments, environment, exit code, and what the message contains.
type Refused = (
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
    i32,
    &'static str,
);

#[tokio::test]
async fn given_what_makes_no_sense_then_it_does_not_start() {
    let table: [Refused; 4] = [
        (&[], &[], 1, "NODE_NAME"),
        (&["--no-such-flag"], &[NODE], 2, "--no-such-flag"),
        (&["--feature-gates=NoSuchGate=true"], &[NODE], 1, "NoSuchGate"),
        (&ANYWHERE, &[NODE], 1, "set KUBECONFIG or give --kubeconfig"),
    ];
    for (args, variables, expected, part) in table {
        let (code, text) = refusal(PROGRAM, args, variables).await;
        assert_eq!(code, expected, "{args:?} {text}");
        assert!(text.contains(part), "{args:?} {text}");
    }
}
