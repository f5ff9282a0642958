//! The front door, as a newcomer walks through it: the commands of the README on a cluster of its own, and what happens to that
//! cluster when things go wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kruise_testkit::instance::Instance;
use kruise_testkit::kubernetes::{self, DEFAULT_VERSION, Kubernetes};
use kruise_testkit::progress::Progress;
use rustix::process::Signal;

/// A cluster name for this run; whatever is left of the cluster goes when the test ends.
struct Newcomer {
    name: String,
    path: String,
}

impl Newcomer {
    fn new() -> Self {
        let programs = Kubernetes::provide(DEFAULT_VERSION, &Progress::quiet())
            .unwrap()
            .part("kubectl");
        let helm = kubernetes::helm(&Progress::quiet()).unwrap();
        let folders = [programs.parent().unwrap(), helm.parent().unwrap()].map(|folder| folder.display().to_string());
        let path = format!("{}:{}", folders.join(":"), std::env::var("PATH").unwrap());
        Self {
            name: format!("front-{}", std::process::id()),
            path,
        }
    }

    /// Runs commands as typed into a shell, stopping at the first that fails; returns all that was printed.
    fn types(&self, script: &str) -> Result<String, String> {
        let out = tempfile::NamedTempFile::new().unwrap();
        let log = out.reopen().unwrap();
        let status = Command::new("bash")
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(root())
            .env("KRUISE_CLUSTER", &self.name)
            .env("PATH", &self.path)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .status()
            .unwrap();
        let said = fs::read_to_string(out.path()).unwrap();
        if status.success() { Ok(said) } else { Err(said) }
    }

    fn ok(&self, script: &str) -> String {
        self.types(script)
            .unwrap_or_else(|said| panic!("`{script}` failed:\n{said}"))
    }

    /// Ends a part of the cluster the hard way.
    fn kills(&self, part: &str) {
        let instance = Instance::open(&self.name).unwrap();
        let process = instance
            .processes()
            .running(part)
            .unwrap_or_else(|| panic!("{part} does not run"));
        process.signal(Signal::KILL);
        assert!(
            process.ends_within(std::time::Duration::from_secs(10)),
            "{part} survived"
        );
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        if let Ok(instance) = Instance::open(&self.name) {
            let _ = instance.down(true);
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The lines of the README's shell blocks.
fn readme_commands() -> Vec<String> {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut commands = Vec::new();
    let mut inside = false;
    for line in readme.lines() {
        match (line.trim(), inside) {
            ("```sh", _) => inside = true,
            ("```", _) => inside = false,
            (command, true) => commands.push(command.to_owned()),
            _ => {}
        }
    }
    commands
}

const TEST_COMMAND: &str = "cargo xtask test";

#[test]
fn given_a_fresh_clone_when_the_readme_is_followed_then_every_command_works_and_the_cluster_survives_accidents() {
    let newcomer = Newcomer::new();
    let commands = readme_commands();
    assert!(
        commands.iter().any(|command| command == TEST_COMMAND),
        "the README names the test command"
    );
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    assert_eq!(ci.lines().last(), Some(TEST_COMMAND), "CI runs what the README says");

    let (way_down, way_up): (Vec<&String>, Vec<&String>) = commands
        .iter()
        .filter(|command| *command != TEST_COMMAND)
        .partition(|command| command.contains("xtask down"));
    assert!(!way_up.is_empty() && !way_down.is_empty());
    let said = newcomer.ok(&way_up.into_iter().cloned().collect::<Vec<_>>().join("\n"));
    for wanted in [
        "node3",
        "kruise-controller-manager",
        "deployment \"web\" successfully rolled out",
    ] {
        assert!(said.contains(wanted), "{wanted} is not in:\n{said}");
    }
    let kubectl = |rest: &str| newcomer.ok(&format!("export KUBECONFIG=$(cargo xtask kubeconfig)\nkubectl {rest}"));
    assert_eq!(
        kubectl("get pods -n kruise-system --no-headers | grep -c ' 1/1 *Running'").trim(),
        "5",
        "two managers and three daemons"
    );
    let web = kubectl("get pods -l app=web -o jsonpath='{.items[*].metadata.uid}'");

    // A second `up` changes nothing.
    newcomer.ok("cargo xtask up");
    assert_eq!(
        kubectl("get pods -l app=web -o jsonpath='{.items[*].metadata.uid}'"),
        web
    );

    // Half of it dies; `up` repairs it and the Pods are still the same.
    for part in ["apiserver", "scheduler", "node1-kubelet", "node2-containerd"] {
        newcomer.kills(part);
    }
    assert!(newcomer.ok("cargo xtask status").contains("stopped apiserver"));
    newcomer.ok("cargo xtask up");
    assert_eq!(
        kubectl("get pods -l app=web -o jsonpath='{.items[*].metadata.uid}'"),
        web
    );

    // Its data is broken beyond repair; `up` makes a new one.
    newcomer.ok("cargo xtask down");
    let wal = Instance::open(&newcomer.name).unwrap().folder().join("etcd/member/wal");
    for file in fs::read_dir(wal).unwrap() {
        fs::write(file.unwrap().path(), b"broken").unwrap();
    }
    assert!(newcomer.ok("cargo xtask up").contains("is replaced"));
    assert_eq!(kubectl("get nodes --no-headers | grep -c ' Ready'").trim(), "3");

    for command in way_down {
        newcomer.ok(command);
    }
    assert!(
        !newcomer.ok("cargo xtask status").contains(&newcomer.name),
        "nothing is left"
    );
    assert!(!newcomer.ok("ip netns list; ip link").contains(&newcomer.name));
}
