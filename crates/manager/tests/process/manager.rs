//! The manager as a process: how it starts, what it shows, how it ends.

use crate::support::{Running, api_server, get_until, kubeconfig, refusal};
use std::net::TcpListener;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kruise-manager");

/// Arguments that let it run beside anything else on the machine.
const ANYWHERE: [&str; 3] = [
    "--metrics-addr=127.0.0.1:0",
    "--health-probe-addr=127.0.0.1:0",
    "--pprof-addr=127.0.0.1:0",
];

#[tokio::test(flavor = "multi_thread")]
async fn given_an_api_server_without_our_objects_then_it_shows_itself_but_does_not_get_ready_and_ends_with_zero() {
    let place = tempfile::tempdir().expect("directory");
    let config = kubeconfig(place.path(), api_server().await);
    let log = format!("--protection-log-path={}", place.path().join("log").display());
    let config = format!("--kubeconfig={config}");
    let mut manager = Running::start(
        PROGRAM,
        &[&ANYWHERE[..], &[&log, &config]].concat(),
        &[("WEBHOOK_PORT", &free_port())],
    );
    let metrics = manager.listens("--metrics-addr").await;
    let health = manager.listens("--health-probe-addr").await;
    let debug = manager.listens("--pprof-addr").await;

    manager.says("the API server is reached").await;
    assert_eq!(
        get_until(health, "/readyz/webhook-ready", 500),
        "the certificates of the webhooks are not ready yet\n"
    );
    assert_eq!(get_until(health, "/healthz/ping", 200), "ok");
    let text = get_until(metrics, "/metrics", 200);
    assert!(
        text.contains("kruise_build_info{component=\"kruise-manager\""),
        "{text}"
    );
    get_until(debug, "/debug/pprof/", 200);
    get_until(debug, "/debug/pprof/profile", 501);
    get_until(debug, "/debug/plan", 200);
    assert!(place.path().join("log/protection.log").exists());

    manager.signal("TERM");
    let (status, said) = manager.ends().await;
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("SIGTERM received, stopping"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn given_webhooks_that_cannot_be_set_up_in_time_then_it_ends_with_one_and_says_why() {
    let place = tempfile::tempdir().expect("directory");
    let config = format!("--kubeconfig={}", kubeconfig(place.path(), api_server().await));
    let log = format!("--protection-log-path={}", place.path().display());
    let soon = "--webhook-initialize-timeout=100ms";
    let args = [&ANYWHERE[..], &[&log, &config, soon]].concat();
    let (code, said) = refusal(PROGRAM, &args, &[("WEBHOOK_PORT", &free_port())]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("the webhooks were not ready within 100ms"), "{said}");

    let taken = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = taken.local_addr().expect("address").port().to_string();
    let (code, said) = refusal(PROGRAM, &args, &[("WEBHOOK_PORT", &port)]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains(&format!("cannot listen on port {port}")), "{said}");
}

/// A port that nobody has.
fn free_port() -> String {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    listener.local_addr().expect("address").port().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn given_a_server_that_never_answers_when_interrupted_then_it_ends_with_zero_at_once() {
    let place = tempfile::tempdir().expect("directory");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let config = kubeconfig(place.path(), silent.local_addr().expect("address"));
    let log = format!("--protection-log-path={}", place.path().display());
    let mut manager = Running::start(PROGRAM, &[&ANYWHERE[..], &[&log]].concat(), &[("KUBECONFIG", &config)]);
    let health = manager.listens("--health-probe-addr").await;
    let body = get_until(health, "/readyz", 500);
    assert!(
        body.contains("[-]webhook-ready failed: the certificates of the webhooks are not ready yet"),
        "{body}"
    );
    manager.signal("INT");
    let (status, said) = manager.ends().await;
    assert_eq!(status.code(), Some(0), "{said}");
}

#[tokio::test]
async fn given_no_api_server_then_it_ends_with_one_and_says_what_to_do() {
    let place = tempfile::tempdir().expect("directory");
    let closed = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("address");
    let config = format!("--kubeconfig={}", kubeconfig(place.path(), closed));
    let log = format!("--protection-log-path={}", place.path().display());
    let (code, said) = refusal(PROGRAM, &[&ANYWHERE[..], &[&log, &config]].concat(), &[]).await;
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains(&closed.to_string()) && said.contains("check that it runs"),
        "{said}"
    );

    let (code, said) = refusal(PROGRAM, &[&ANYWHERE[..], &[&log]].concat(), &[]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("set KUBECONFIG or give --kubeconfig"), "{said}");
}

#[tokio::test]
async fn given_a_port_in_use_then_flag_and_port_are_named_and_only_the_profiler_goes_on_without() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("address");
    for flag in ["--metrics-addr", "--health-probe-addr"] {
        let given = format!("{flag}={address}");
        let (code, said) = refusal(PROGRAM, &[&ANYWHERE[..], &[&given]].concat(), &[]).await;
        assert_eq!(code, 1, "{said}");
        assert!(
            said.contains(&given) && said.contains(&format!("port {} is already in use", address.port())),
            "{said}"
        );
    }
    let place = tempfile::tempdir().expect("directory");
    let config = format!("--kubeconfig={}", kubeconfig(place.path(), api_server().await));
    let log = format!("--protection-log-path={}", place.path().display());
    let pprof = format!("--pprof-addr={address}");
    let args = [&ANYWHERE[..], &[&pprof, &log, &config]].concat();
    let mut manager = Running::start(PROGRAM, &args, &[("WEBHOOK_PORT", &free_port())]);
    manager.says("going on without").await;
    manager.says("the API server is reached").await;
    manager.signal("TERM");
    assert_eq!(manager.ends().await.0.code(), Some(0));
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
    let table: [Refused; 6] = [
        (&["--no-such-flag"], &[], 2, "--no-such-flag"),
        (&["--metrics-addr=nowhere"], &[], 2, "nowhere"),
        (&["--feature-gates=NoSuchGate=true"], &[], 1, "NoSuchGate"),
        (&["--logging-format=xml"], &[], 1, "--logging-format=xml"),
        (
            &["--default-ttlseconds-for-always-nodeimage=2678401"],
            &[],
            1,
            "2678401",
        ),
        (&[], &[("WEBHOOK_PORT", "https")], 1, "WEBHOOK_PORT"),
    ];
    for (args, variables, expected, part) in table {
        let (code, said) = refusal(PROGRAM, args, variables).await;
        assert_eq!(code, expected, "{args:?} {said}");
        assert!(said.contains(part), "{args:?} {said}");
    }
}

#[tokio::test]
async fn given_a_boolean_and_its_value_as_two_words_then_it_warns_and_goes_on() {
    let place = tempfile::tempdir().expect("directory");
    let config = format!("--kubeconfig={}", kubeconfig(place.path(), api_server().await));
    let log = format!("--protection-log-path={}", place.path().display());
    let args = [&ANYWHERE[..], &["--enable-pprof", "false", &log, &config]].concat();
    let mut manager = Running::start(PROGRAM, &args, &[("WEBHOOK_PORT", &free_port())]);
    manager
        .says("--enable-pprof false: the value of a boolean needs an equals sign")
        .await;
    manager.says("the API server is reached").await;
    manager.signal("TERM");
    assert_eq!(manager.ends().await.0.code(), Some(0));
}

#[tokio::test]
async fn given_the_json_format_then_every_line_is_an_object_with_the_keys_of_klog() {
    let place = tempfile::tempdir().expect("directory");
    let config = format!("--kubeconfig={}", kubeconfig(place.path(), api_server().await));
    let log = format!("--protection-log-path={}", place.path().display());
    let args = [&ANYWHERE[..], &["--logging-format=json", "--v=4", &log, &config]].concat();
    let mut manager = Running::start(PROGRAM, &args, &[("WEBHOOK_PORT", &free_port())]);
    manager.says("the API server is reached").await;
    manager.signal("TERM");
    let (_, said) = manager.ends().await;
    for line in said.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).expect(line);
        let is_klog = entry["ts"].is_f64() && entry["caller"].is_string() && entry["msg"].is_string();
        // Errors have no verbosity.
        assert!(is_klog && (entry["v"].is_u64() || entry["v"].is_null()), "{line}");
    }
}
