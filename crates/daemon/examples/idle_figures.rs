//! What the daemon costs on a node where nothing changes: memory, CPU, writes.
//!
//! `cargo build --release -p kruise-daemon && cargo run --release -p kruise-daemon --example idle_figures [SECONDS]`
//!
//! The daemon runs as a process beside a control plane of its own and a container runtime that does nothing; its node has thirty Pods.
//! It is looked at from outside, after ten seconds to settle.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kruise_cri::fake::FakeRuntime;
use kruise_testkit::cluster;
use kruise_testkit::process::wait_until;

const PODS: usize = 30;
const SETTLE: Duration = Duration::from_secs(10);
const DEFAULT_SECONDS: u64 = 120;

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(DEFAULT_SECONDS));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = root.join("target/release/kruise-daemon");
    assert!(
        program.exists(),
        "build it first: cargo build --release -p kruise-daemon"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = FakeRuntime::start(&folder.path().join("containerd.sock"));
    for kind in ["nodeimages", "containerrecreaterequests"] {
        let file = root.join(format!("config/crds/apps.kruise.io_{kind}.yaml"));
        kubectl(&["apply", "--server-side", "-f", &file.display().to_string()], "");
    }
    kubectl(
        &["wait", "--for=condition=Established", "crd/nodeimages.apps.kruise.io"],
        "",
    );
    let pods: String = (0..PODS)
        .map(|number| {
            format!(
                "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: idle-{number}, namespace: default}}\n\
                 spec: {{nodeName: figures, containers: [{{name: main, image: none}}]}}\n"
            )
        })
        .collect();
    kubectl(&["apply", "--server-side", "-f", "-"], &pods);

    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|free| free.local_addr())
        .expect("a port")
        .port();
    let child = Command::new(&program)
        .args([
            format!("--addr=127.0.0.1:{port}"),
            "--enable-pprof=false".to_owned(),
            format!("--kubeconfig={}", cluster::kubeconfig().display()),
            format!("--socket-file={}", runtime.socket().display()),
        ])
        .env("NODE_NAME", "figures")
        .stderr(Stdio::null())
        .spawn()
        .expect("the daemon starts");
    let daemon = Daemon(child);
    assert!(
        wait_until(Duration::from_mins(1), || get(port, "/healthz").ends_with("ok")),
        "the daemon is not healthy"
    );
    std::thread::sleep(SETTLE);
    let (cpu, writes, began) = (cpu(&daemon), writes(port), Instant::now());
    std::thread::sleep(time);
    let elapsed = began.elapsed().as_secs_f64();
    let used = self::cpu(&daemon) - cpu;
    println!("resident memory        {:8.1} MB (goal 20)", memory(&daemon) / 1e6);
    println!("CPU                    {:8.3} % (goal 0.1)", 100.0 * used / elapsed);
    let per_hour = (self::writes(port) - writes) * 3600.0 / elapsed;
    // Each of the three watches is begun anew every two minutes, as it should be; that is all that is read.
    println!("writes                 {per_hour:8.1} per hour (goal 6)");
}

fn kubectl(args: &[&str], input: &str) {
    let mut child = cluster::kubectl()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("kubectl");
    child
        .stdin
        .take()
        .expect("its input")
        .write_all(input.as_bytes())
        .expect("written");
    assert!(child.wait().expect("its end").success(), "kubectl {args:?}");
}

fn get(port: u16, path: &str) -> String {
    let mut answer = String::new();
    if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
        let _ = write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        );
        let _ = stream.read_to_string(&mut answer);
    }
    answer
}

/// Writes to the API server so far.
fn writes(port: u16) -> f64 {
    let text = get(port, "/metrics");
    let counted = text
        .lines()
        .filter(|line| line.starts_with("rest_client_requests_total{"));
    let counted = counted.filter(|line| !line.contains("method=\"GET\""));
    counted
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .sum()
}

/// Seconds of CPU so far.
fn cpu(daemon: &Daemon) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.0.id())).expect("its threads");
    let nanoseconds: f64 = tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
        .filter_map(|text| text.split(' ').next()?.parse::<f64>().ok())
        .sum();
    nanoseconds / 1e9
}

/// Resident memory, in bytes.
fn memory(daemon: &Daemon) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.0.id())).expect("its status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    line.and_then(|kilobytes| kilobytes.parse::<f64>().ok())
        .expect("its memory")
        * 1024.0
}
