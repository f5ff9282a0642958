//! The cluster that a test runs on.
//!
//! `cargo xtask test` starts one control plane for all test binaries of the run and names it in `KRUISE_TEST_KUBECONFIG`.
//! A test binary that is run by itself starts its own. Either way it is gone afterwards, also when a test panics or the run is
//! killed: a guard process holds the other end of a pipe and clears up when the pipe closes.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::control_plane::{self, ControlPlane, Place, Ports};
use crate::kubernetes::{DEFAULT_VERSION, Kubernetes};
use crate::packages::{self, Install};
use crate::process::Processes;
use crate::progress::Progress;
use crate::{features, paths};

/// Names the kubeconfig of a control plane with simulated nodes only.
pub const KUBECONFIG: &str = "KRUISE_TEST_KUBECONFIG";
/// Names the kubeconfig of a cluster with real nodes and the product installed.
pub const NODES_KUBECONFIG: &str = "KRUISE_TEST_NODES_KUBECONFIG";

/// A control plane on the loopback address that lives as long as this value.
#[derive(Debug)]
pub struct TestControlPlane {
    folder: PathBuf,
    place: Place,
    kubernetes: Kubernetes,
    guard: Child,
}

impl TestControlPlane {
    /// One of the version that the tests run on.
    pub fn start(progress: &Progress) -> Result<Self> {
        Self::of_version(&features::version(), progress)
    }

    /// One of any version.
    pub fn of_version(version: &str, progress: &Progress) -> Result<Self> {
        packages::ensure(packages::CONTROL_PLANE, false, Install::Allowed, progress)?;
        let kubernetes = Kubernetes::provide(version, progress)?;
        let folder = paths::state()?.join("tests").join(unused_name());
        control_plane::purge(&folder)?;
        fs::create_dir_all(&folder)?;
        let mut this = Self {
            guard: guard(&folder)?,
            place: Place::Loopback(Ports::free()?),
            kubernetes,
            folder,
        };
        progress.step("Starting a control plane for tests", |_| this.start_missing())?;
        Ok(this)
    }

    /// One for a single test, which changes what belongs to the whole cluster.
    pub async fn of_its_own() -> Result<Self> {
        tokio::task::spawn_blocking(|| Self::start(&Progress::quiet())).await?
    }

    /// Ends the apiserver the hard way and starts it again; returns when it answers.
    pub fn restart_apiserver(&mut self) -> Result<()> {
        let processes = Processes::below(&self.folder)?;
        if let Some(process) = processes.running("apiserver") {
            process.signal(Signal::KILL);
            process.ends_within(Duration::from_secs(10));
        }
        self.start_missing()
    }

    fn start_missing(&mut self) -> Result<()> {
        let processes = Processes::below(&self.folder)?;
        let control_plane = ControlPlane {
            folder: &self.folder,
            name: "test",
            place: &self.place,
            kubernetes: &self.kubernetes,
            processes: &processes,
        };
        let started = control_plane.start();
        self.guard_all(&processes)?;
        started
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// The end of a part's log, to be shown when tests fail.
    pub fn last_words(&self, part: &str) -> String {
        Processes::below(&self.folder)
            .map(|processes| processes.last_words(part))
            .unwrap_or_default()
    }

    fn guard_all(&mut self, processes: &Processes) -> Result<()> {
        let pipe = self.guard.stdin.as_mut().context("the guard has no pipe")?;
        for process in processes.parts().iter().filter_map(|part| processes.running(part)) {
            writeln!(pipe, "{} {}", process.pid, process.started())?;
        }
        Ok(())
    }
}

/// One process may have several.
fn unused_name() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}

impl Drop for TestControlPlane {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Waits for its pipe to close, then ends the processes it was told of, if they are still the same ones.
const GUARD: &str = r#"
pids=
while read -r pid started; do pids="$pids $pid:$started"; done
for each in $pids; do
    pid=${each%%:*}
    set -- "$1" $(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null)
    [ "${21}" = "${each##*:}" ] && kill -KILL "$pid"
done
rm -rf "$1"
"#;

fn guard(folder: &Path) -> Result<Child> {
    let mut command = Command::new("sh");
    command
        .args(["-c", GUARD, "guard"])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0);
    command
        .spawn()
        .context("cannot start the guard of the test control plane")
}

/// The kubeconfig of the control plane that this test binary uses.
pub fn kubeconfig() -> PathBuf {
    static OWN: OnceLock<TestControlPlane> = OnceLock::new();
    match std::env::var_os(KUBECONFIG) {
        Some(shared) => shared.into(),
        None => OWN
            .get_or_init(|| TestControlPlane::start(&Progress::shown()).expect("a control plane for the tests"))
            .kubeconfig(),
    }
}

/// A client of the control plane that this test binary uses.
pub async fn client() -> kube::Client {
    client_of(&kubeconfig()).await
}

/// A client of that control plane for somebody, who has no other rights than those that a test gives.
pub async fn client_as(user: &str) -> kube::Client {
    let mut config = config_of(&kubeconfig()).await;
    config.auth_info.impersonate = Some(user.to_owned());
    kube::Client::try_from(config).expect("a client")
}

/// The kubeconfig of the cluster with real nodes.
pub fn nodes_kubeconfig() -> PathBuf {
    std::env::var_os(NODES_KUBECONFIG)
        .unwrap_or_else(|| panic!("{NODES_KUBECONFIG} is not set: run node tests with `cargo xtask test --level node`"))
        .into()
}

/// A client of the cluster with real nodes.
pub async fn nodes_client() -> kube::Client {
    client_of(&nodes_kubeconfig()).await
}

/// A kubectl that talks to the control plane of this test binary.
pub fn kubectl() -> Command {
    let kubernetes = Kubernetes::provide(DEFAULT_VERSION, &Progress::shown()).expect("a kubectl");
    let mut command = Command::new(kubernetes.part("kubectl"));
    command.arg("--kubeconfig").arg(kubeconfig());
    command
}

async fn client_of(kubeconfig: &Path) -> kube::Client {
    kube::Client::try_from(config_of(kubeconfig).await).expect("a client")
}

async fn config_of(kubeconfig: &Path) -> kube::Config {
    let config = kube::config::Kubeconfig::read_from(kubeconfig).expect("a readable kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default()).await;
    config.expect("a usable kubeconfig")
}
