//! etcd, apiserver, controller-manager and scheduler as processes of this machine.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::kubernetes::Kubernetes;
use crate::network::{CONTROL_PLANE, KUBERNETES_SERVICE, Network, SERVICES};
use crate::pki::Pki;
use crate::process::{Processes, wait_until};
use crate::shell;

/// Where the control plane listens.
#[derive(Debug, Clone)]
pub enum Place {
    /// On free ports of the loopback address: needs no root, has room for simulated nodes only.
    Loopback(Ports),
    /// In a network of its own, reachable by real nodes.
    Network(Network),
}

/// The loopback ports of one control plane.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Ports {
    etcd: u16,
    etcd_peer: u16,
    apiserver: u16,
}

impl Ports {
    /// Ports that are free now, and are nobody's by chance while a part is restarted: the system takes the near end of connections from 32768 on.
    pub fn free() -> Result<Self> {
        // Where others do not look first: another process, or another control plane of this one that is just being started.
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let calls = CALLS.fetch_add(1, Ordering::Relaxed);
        let begin = 20_000 + u16::try_from((std::process::id() * 12 + calls * 3) % 12_000)?;
        let mut free = (begin..32_768)
            .chain(20_000..begin)
            .filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
        let mut next = || free.next().context("no free ports");
        Ok(Self {
            etcd: next()?,
            etcd_peer: next()?,
            apiserver: next()?,
        })
    }
}

/// For scheduler and controller-manager: their own limits, meant to protect servers that many share, would be all that a benchmark measures.
const UNHURRIED: [&str; 2] = ["--kube-api-qps=2000", "--kube-api-burst=4000"];

/// The parts, in the order in which they start; they end in the opposite order.
pub const PARTS: &[&str] = &["etcd", "apiserver", "controller-manager", "scheduler"];

/// The control plane of one cluster, whose files lie in `folder`.
#[derive(Debug)]
pub struct ControlPlane<'a> {
    pub folder: &'a Path,
    pub name: &'a str,
    pub place: &'a Place,
    pub kubernetes: &'a Kubernetes,
    pub processes: &'a Processes,
}

impl ControlPlane<'_> {
    /// Starts what is not running and waits until the apiserver is ready.
    pub fn start(&self) -> Result<()> {
        let pki = Pki::open(&self.folder.join("pki"))?;
        self.issue(&pki)?;
        self.processes.start("etcd", &mut self.etcd())?;
        self.processes.start("apiserver", &mut self.apiserver(&pki))?;
        self.wait_ready()?;
        self.processes
            .start("controller-manager", &mut self.controller_manager(&pki))?;
        self.processes.start("scheduler", &mut self.scheduler())?;
        Ok(())
    }

    /// What a client outside the cluster connects to.
    pub fn server(&self) -> String {
        match self.place {
            Place::Loopback(ports) => format!("https://127.0.0.1:{}", ports.apiserver),
            Place::Network(network) => format!("https://{}", network.address()),
        }
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    fn issue(&self, pki: &Pki) -> Result<()> {
        if !pki.file("apiserver.crt").exists() {
            let mut names = vec![
                "kubernetes",
                "kubernetes.default",
                "kubernetes.default.svc",
                "localhost",
                "127.0.0.1",
                KUBERNETES_SERVICE,
                CONTROL_PLANE,
            ];
            let outside = match self.place {
                Place::Loopback(_) => None,
                Place::Network(network) => Some(network.address()),
            };
            names.extend(outside.as_deref());
            pki.issue("apiserver", "kube-apiserver", None, &names)?;
            pki.issue("admin", "admin", Some("system:masters"), &[])?;
            pki.issue("controller-manager", "system:kube-controller-manager", None, &[])?;
            pki.issue("scheduler", "system:kube-scheduler", None, &[])?;
        }
        let server = self.server();
        pki.kubeconfig(&self.kubeconfig(), &format!("kruise-{}", self.name), &server, "admin")?;
        for part in ["controller-manager", "scheduler"] {
            pki.kubeconfig(&self.folder.join(format!("{part}.kubeconfig")), part, &server, part)?;
        }
        Ok(())
    }

    fn etcd(&self) -> Command {
        let (client, peer) = self.etcd_ports();
        let client = format!("http://127.0.0.1:{client}");
        let mut command = self.command("etcd");
        command.arg("--data-dir").arg(self.folder.join("etcd")).args([
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
        ]);
        // A local cluster that is lost with the machine's power is made anew: durability would only cost time.
        command.args([
            "--listen-peer-urls",
            &format!("http://127.0.0.1:{peer}"),
            "--unsafe-no-fsync",
            // The older logger of etcd 3.4 can bring it down under load.
            "--logger=zap",
            "--quota-backend-bytes",
            "8589934592",
        ]);
        command
    }

    fn apiserver(&self, pki: &Pki) -> Command {
        let (bind, port) = match self.place {
            Place::Loopback(ports) => ("127.0.0.1", ports.apiserver),
            Place::Network(_) => ("0.0.0.0", 443),
        };
        let file = |name: &str| pki.file(name).display().to_string();
        let mut command = self.command(self.kubernetes.part("kube-apiserver"));
        command.args([
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_ports().0),
            format!("--bind-address={bind}"),
            format!("--secure-port={port}"),
            format!("--advertise-address={KUBERNETES_SERVICE}"),
            "--endpoint-reconciler-type=none".into(),
            format!("--service-cluster-ip-range={SERVICES}"),
            format!("--client-ca-file={}", file("ca.crt")),
            format!("--tls-cert-file={}", file("apiserver.crt")),
            format!("--tls-private-key-file={}", file("apiserver.key")),
            format!("--service-account-key-file={}", file("sa.pub")),
            format!("--service-account-signing-key-file={}", file("sa.key")),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            "--authorization-mode=Node,RBAC".into(),
            "--allow-privileged=true".into(),
            // There is no kube-proxy: webhooks are called at the addresses of their Pods.
            "--enable-aggregator-routing=true".into(),
            format!("--kubelet-client-certificate={}", file("admin.crt")),
            format!("--kubelet-client-key={}", file("admin.key")),
            format!("--kubelet-certificate-authority={}", file("ca.crt")),
            "--kubelet-preferred-address-types=InternalIP".into(),
            "--enable-admission-plugins=NodeRestriction".into(),
        ]);
        command
    }

    fn controller_manager(&self, pki: &Pki) -> Command {
        let file = |name: &str| pki.file(name).display().to_string();
        let mut command = self.command(self.kubernetes.part("kube-controller-manager"));
        command.args([
            format!(
                "--kubeconfig={}",
                self.folder.join("controller-manager.kubeconfig").display()
            ),
            format!("--service-account-private-key-file={}", file("sa.key")),
            format!("--root-ca-file={}", file("ca.crt")),
            format!("--cluster-signing-cert-file={}", file("ca.crt")),
            format!("--cluster-signing-key-file={}", file("ca.key")),
            "--use-service-account-credentials=true".into(),
            "--leader-elect=false".into(),
            "--secure-port=0".into(),
        ]);
        command.args(UNHURRIED);
        command
    }

    fn scheduler(&self) -> Command {
        let mut command = self.command(self.kubernetes.part("kube-scheduler"));
        let kubeconfig = self.folder.join("scheduler.kubeconfig");
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(["--leader-elect=false", "--secure-port=0"])
            .args(UNHURRIED);
        command
    }

    fn wait_ready(&self) -> Result<()> {
        let mut ended = None;
        let ready = wait_until(Duration::from_mins(2), || {
            ended = ["etcd", "apiserver"]
                .into_iter()
                .find(|part| self.processes.running(part).is_none());
            ended.is_some() || self.answers()
        });
        match ended {
            Some(part) => bail!(
                "{part} ended while starting; its last words ({}):\n{}",
                self.processes.log(part).display(),
                self.processes.last_words(part)
            ),
            None if !ready => bail!(
                "the apiserver is not ready after two minutes; its last words:\n{}",
                self.processes.last_words("apiserver")
            ),
            None => Ok(()),
        }
    }

    /// Whether the apiserver says that it is ready.
    pub fn answers(&self) -> bool {
        let mut ask = Command::new(self.kubernetes.part("kubectl"));
        shell::succeeds(ask.arg("--kubeconfig").arg(self.kubeconfig()).args([
            "get",
            "--raw=/readyz",
            "--request-timeout=3s",
        ]))
    }

    fn etcd_ports(&self) -> (u16, u16) {
        match self.place {
            Place::Loopback(ports) => (ports.etcd, ports.etcd_peer),
            Place::Network(_) => (2379, 2380),
        }
    }

    fn command(&self, program: impl Into<PathBuf>) -> Command {
        let mut command = match self.place {
            Place::Loopback(_) => Command::new(program.into()),
            Place::Network(network) => network.on_control_plane(program),
        };
        // An eighth of the API server's time under load went into marking garbage; with more memory it has to do that less often.
        // With 50,000 Pods that alone would fill the machine, so there is a limit from which on it does it more often.
        command.env("GOGC", "400").env("GOMEMLIMIT", "6GiB");
        command
    }
}

/// Ends the parts of a control plane, the apiserver's clients first.
pub fn stop(processes: &Processes) {
    for part in PARTS.iter().rev() {
        processes.stop(part, Duration::from_secs(10));
    }
}

/// Removes what a stopped control plane leaves on the disk.
pub fn purge(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}
