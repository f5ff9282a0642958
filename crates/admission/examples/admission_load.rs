//! How fast the webhook server answers: `cargo run --release -p kruise-admission --example admission_load`.
//!
//! The server runs as a child process, so that its CPU time can be told from ours. Requests are creations of a Pod of a CloneSet with two containers, over
//! TLS on the loopback, on connections that stay open:
//!
//! 1. one connection, one request after the other;
//! 2. eight connections, 5,000 requests per second in even steps. Times count from when a request was due, so that a late one is not forgiven.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use kruise_admission::Alone;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const RATE: u32 = 5_000;
const CONNECTIONS: u32 = 8;
const WARM_UP: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(8);

fn main() {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        serve();
        return;
    }
    let server = Server::start();
    let request = Arc::new(request());
    println!("request: {} bytes", request.len());

    let mut connection = server.connect();
    closed_loop(&mut connection, &request, WARM_UP);
    let cpu = server.cpu();
    let times = closed_loop(&mut connection, &request, MEASURED);
    report("1 connection, one by one", &server, cpu, times);

    steady(&server, &request, WARM_UP);
    let cpu = server.cpu();
    let times = steady(&server, &request, MEASURED);
    report(&format!("{CONNECTIONS} connections, {RATE}/s"), &server, cpu, times);
}

/// The child process: tells its port and CA, and answers until its input ends. Two threads, as in the manager.
fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let stop = CancellationToken::new();
        let config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
        let client = kube::Client::try_from(config).unwrap();
        let server = Alone::start(client, stop.clone()).await.unwrap();
        println!(
            "{}",
            json!({"port": server.port, "ca": String::from_utf8(server.ca_bundle.clone()).unwrap()})
        );
        tokio::task::spawn_blocking(move || {
            let _ = std::io::stdin().read(&mut [0]);
            stop.cancel();
        });
        server.wait().await.unwrap();
    });
}

struct Server {
    child: Child,
    port: u16,
    config: Arc<ClientConfig>,
}

impl Server {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(told["ca"].as_str().unwrap().as_bytes());
        roots.add(ca.unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            child,
            port: u16::try_from(told["port"].as_u64().unwrap()).unwrap(),
            config: Arc::new(config),
        }
    }

    fn connect(&self) -> Connection {
        let tcp = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        tcp.set_nodelay(true).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let tls = ClientConnection::new(self.config.clone(), name).unwrap();
        Connection {
            stream: StreamOwned::new(tls, tcp),
            answer: Vec::new(),
        }
    }

    /// CPU time of the server so far, of all its threads.
    fn cpu(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let nanoseconds: u64 = tasks
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
            .filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok())
            .sum();
        Duration::from_nanos(nanoseconds)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

struct Connection {
    stream: StreamOwned<ClientConnection, TcpStream>,
    answer: Vec<u8>,
}

impl Connection {
    /// Sends a request and reads the whole answer, which has to be a patch.
    fn ask(&mut self, request: &[u8]) {
        self.stream.write_all(request).unwrap();
        self.stream.flush().unwrap();
        self.answer.clear();
        let mut part = [0; 4096];
        loop {
            let read = self.stream.read(&mut part).unwrap();
            assert!(read > 0, "the server closed the connection");
            self.answer.extend_from_slice(&part[..read]);
            if let Some(whole) = whole_length(&self.answer)
                && self.answer.len() >= whole
            {
                break;
            }
        }
        assert!(self.answer.starts_with(b"HTTP/1.1 200"));
        assert!(find(&self.answer, b"JSONPatch").is_some());
    }
}

fn whole_length(answer: &[u8]) -> Option<usize> {
    let head = find(answer, b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&answer[..head]).ok()?;
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    Some(head + length.parse::<usize>().ok()?)
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

fn closed_loop(connection: &mut Connection, request: &[u8], time: Duration) -> Vec<Duration> {
    let start = Instant::now();
    let mut times = Vec::new();
    while start.elapsed() < time {
        let begin = Instant::now();
        connection.ask(request);
        times.push(begin.elapsed());
    }
    times
}

fn steady(server: &Server, request: &Arc<Vec<u8>>, time: Duration) -> Vec<Duration> {
    let step = Duration::from_secs(1) * CONNECTIONS / RATE;
    let start = Instant::now() + Duration::from_millis(50);
    let threads: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let (mut connection, request) = (server.connect(), request.clone());
            // The handshake is not part of it.
            connection.ask(&request);
            thread::spawn(move || {
                let mut due = start + step * number / CONNECTIONS;
                let mut times = Vec::new();
                while due < start + time {
                    if let Some(wait) = due.checked_duration_since(Instant::now()) {
                        thread::sleep(wait);
                    }
                    connection.ask(&request);
                    times.push(due.elapsed());
                    due += step;
                }
                times
            })
        })
        .collect();
    threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
}

fn report(what: &str, server: &Server, cpu_before: Duration, mut times: Vec<Duration>) {
    let cpu = server.cpu().saturating_sub(cpu_before) / u32::try_from(times.len()).unwrap();
    times.sort_unstable();
    let at = |per_mille: usize| times[(times.len() - 1) * per_mille / 1000].as_secs_f64() * 1e3;
    println!(
        "{what}: {} requests, p50 {:.3} ms, p99 {:.3} ms, p99.9 {:.3} ms, worst {:.3} ms, CPU {:.4} ms per request",
        times.len(),
        at(500),
        at(990),
        at(999),
        at(1000),
        cpu.as_secs_f64() * 1e3
    );
}

/// The creation of a Pod with two containers, as an API server sends it.
fn request() -> Vec<u8> {
    let container = |name: &str, image: &str| {
        json!({
            "name": name,
            "image": image,
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "env": [
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                {"name": "LOG_LEVEL", "value": "info"},
                {"name": "UPSTREAM", "value": "http://backend.shop.svc:8080/api/v1"},
            ],
            "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "256Mi"}},
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/app"},
                {"name": "kube-api-access-x2v7k", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
            ],
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 5, "successThreshold": 1, "failureThreshold": 3},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
            "securityContext": {"capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true, "allowPrivilegeEscalation": false},
        })
    };
    let pod = json!({
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "generateName": "shop-",
            "namespace": "shop",
            "creationTimestamp": null,
            "labels": {"app": "shop", "tier": "web", "pod-template-hash": "6d4cf56db6"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
            "ownerReferences": [{
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "shop",
                "uid": "5f0c7a1e-7a3e-4a39-9d0b-6f2f2b9f0d11", "controller": true, "blockOwnerDeletion": true,
            }],
            "managedFields": [{
                "manager": "kruise-manager", "operation": "Update", "apiVersion": "v1", "time": "2024-05-01T10:00:00Z", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}, "f:tier": {}}}, "f:spec": {"f:containers": {
                    "k:{\"name\":\"main\"}": {".": {}, "f:image": {}, "f:env": {}, "f:resources": {}},
                    "k:{\"name\":\"proxy\"}": {".": {}, "f:image": {}, "f:env": {}, "f:resources": {}},
                }, "f:volumes": {".": {}}}},
            }],
        },
        "spec": {
            "volumes": [
                {"name": "config", "configMap": {"name": "shop", "defaultMode": 420}},
                {"name": "kube-api-access-x2v7k", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                    {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
                ]}},
            ],
            "containers": [container("main", "registry.example.com/shop/web:1.25.3"), container("proxy", "registry.example.com/mesh/proxy:2.1.0")],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "shop",
            "serviceAccount": "shop",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "priority": 0,
            "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {},
    });
    let review = json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "b1c5cd2e-5ac0-4f5e-8f3c-0f6c2b1c9a55",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "requestResource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "shop",
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kruise-system:kruise-manager", "uid": "0d7c4f6c", "groups": ["system:serviceaccounts", "system:authenticated"]},
            "object": pod,
            "oldObject": null,
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kruise-manager"},
        },
    });
    let body = review.to_string();
    let head = format!(
        "POST /mutate-pod?timeout=10s HTTP/1.1\r\nHost: kruise-webhook-service.kruise-system.svc:443\r\nUser-Agent: kube-apiserver-admission\r\n\
         Content-Length: {}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n",
        body.len()
    );
    format!("{head}{body}").into_bytes()
}
