//! The front door, as a newcomer walks through it: the commands of the README and of the tutorial on a cluster of its own, and what
//! happens to that cluster when things go wrong.

mod node {
    pub(super) mod first_steps;
    pub(super) mod installation;
    mod without_root;
}

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use kruise_testkit::instance::Instance;
use kruise_testkit::paths;
use kruise_testkit::process::wait_until;
use node::first_steps;
use node::installation::Installed;
use rustix::process::{Pid, Signal, kill_process_group};

/// A cluster name for this run; whatever is left of the cluster goes when the test ends.
struct Newcomer {
    name: String,
}

impl Newcomer {
    fn new() -> Self {
        Self {
            name: format!("front-{}", std::process::id()),
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
            // Cargo's own words would be between those that are looked at.
            .env("CARGO_TERM_QUIET", "true")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .status()
            .unwrap();
        let text = fs::read_to_string(out.path()).unwrap();
        if status.success() { Ok(text) } else { Err(text) }
    }

    fn ok(&self, script: &str) -> String {
        self.types(script)
            .unwrap_or_else(|text| panic!("`{script}` failed:\n{text}"))
    }

    fn interrupts_up_once_the_apiserver_runs(&self) {
        // A shell that runs this test in the background has it ignore Ctrl-C, and what it starts, too.
        let mut up = Command::new("env")
            .args([
                "--default-signal=INT",
                env!("CARGO_BIN_EXE_xtask"),
                "up",
                "--name",
                &self.name,
            ])
            .process_group(0)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let record = paths::state()
            .unwrap()
            .join("clusters")
            .join(&self.name)
            .join("processes/apiserver.json");
        assert!(
            wait_until(Duration::from_mins(1), || record.exists()),
            "the apiserver was not started"
        );
        kill_process_group(Pid::from_child(&up), Signal::INT).unwrap();
        assert!(!up.wait().unwrap().success(), "it was interrupted");
    }

    /// Ends a part of the cluster the hard way.
    fn kills(&self, part: &str) {
        let instance = Instance::open(&self.name).unwrap();
        let process = instance
            .processes()
            .running(part)
            .unwrap_or_else(|| panic!("{part} does not run"));
        process.signal(Signal::KILL);
        assert!(process.ends_within(Duration::from_secs(10)), "{part} survived");
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

/// The lines of the shell blocks of a page.
fn commands_of(page: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let mut commands = Vec::new();
    let mut inside = false;
    for line in text.lines() {
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
    let commands = commands_of("README.md");
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
    let text = newcomer.ok(&way_up.into_iter().cloned().collect::<Vec<_>>().join("\n"));
    for wanted in [
        "node3",
        "kruise-controller-manager",
        "CloneSet default/hello: 3 wanted, 3 there",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in:\n{text}");
    }
    first_steps::were_an_update_in_place(&text);
    let kubectl = |rest: &str| newcomer.ok(&format!("eval \"$(cargo xtask env)\"\nkubectl {rest}"));
    assert_eq!(
        kubectl("get pods -n kruise-system --no-headers | grep -c ' 1/1 *Running'").trim(),
        "5",
        "two managers and three daemons"
    );
    kubectl("delete cloneset hello --cascade=foreground");
    let text = newcomer.ok(&commands_of("docs/tutorial.md").join("\n"));
    first_steps::were_an_update_in_place(&text);
    kubectl("delete cloneset hello");
    kubectl("create deployment lasting --image=nginx:1.21 --replicas=3");
    kubectl("rollout status deployment/lasting --timeout=60s");
    let lasting = || kubectl("get pods -l app=lasting -o jsonpath='{.items[*].metadata.uid}'");
    let before = lasting();

    // A second `up` changes nothing.
    newcomer.ok("cargo xtask up");
    assert_eq!(lasting(), before);

    // What was installed does its work, while it is upgraded too, and can be removed. The next `up` installs it again.
    let installed = Installed::with_a_workload(&newcomer);
    installed.webhooks_work();
    installed.users_have_their_rights();
    installed.can_be_applied_again();
    installed.only_the_system_goes_on_without_a_manager();
    installed.can_be_removed_only_without_workloads();

    // Half of it dies; `up` repairs it and the Pods are still the same.
    for part in ["apiserver", "scheduler", "node1-kubelet", "node2-containerd"] {
        newcomer.kills(part);
    }
    assert!(newcomer.ok("cargo xtask status").contains("stopped apiserver"));
    newcomer.ok("cargo xtask up");
    assert_eq!(lasting(), before);

    // Its data is broken beyond repair; `up` makes a new one.
    newcomer.ok("cargo xtask down");
    let wal = Instance::open(&newcomer.name).unwrap().folder().join("etcd/member/wal");
    for file in fs::read_dir(wal).unwrap() {
        fs::write(file.unwrap().path(), b"broken").unwrap();
    }
    assert!(newcomer.ok("cargo xtask up").contains("is replaced"));
    assert_eq!(kubectl("get nodes --no-headers | grep -c ' Ready'").trim(), "3");

    // Somebody presses Ctrl-C while it starts; `up` goes on from there.
    newcomer.ok("cargo xtask down");
    newcomer.interrupts_up_once_the_apiserver_runs();
    newcomer.ok("cargo xtask up");
    assert_eq!(
        kubectl("get pods -n kruise-system --no-headers | grep -c ' 1/1 *Running'").trim(),
        "5"
    );

    for command in way_down {
        newcomer.ok(command);
    }
    assert!(
        !newcomer.ok("cargo xtask status").contains(&newcomer.name),
        "nothing is left"
    );
    assert!(!newcomer.ok("ip netns list; ip link").contains(&newcomer.name));
}

#[test]
fn given_no_way_to_the_module_proxy_when_kubernetes_must_be_built_then_the_message_says_what_to_check() {
    let home = tempfile::tempdir().unwrap();
    let xtask = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(args)
            .env("HOME", home.path())
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_STATE_HOME")
            .env("GOPROXY", "off")
            .env("GOMODCACHE", home.path().join("modules"))
            .env("GOCACHE", home.path().join("builds"))
            .output()
            .unwrap()
    };
    let output = xtask(&["up", "--name", "offline"]);
    let text = text_of(&output);
    // Should it have come up after all, nothing of it may stay.
    xtask(&["down", "--name", "offline", "--purge"]);
    assert!(!output.status.success() && text.contains("go env GOPROXY"), "{text}");
}

#[test]
fn given_a_full_disk_then_up_says_where_and_how_much_is_missing() {
    let home = tempfile::tempdir().unwrap();
    // The small disk is mounted for this one command only.
    let script = r#"mount -t tmpfs -o size=8m tmpfs "$HOME" && exec "$0" up --name full"#;
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_xtask")])
        .env("HOME", home.path())
        .env_remove("XDG_STATE_HOME")
        .env("XDG_CACHE_HOME", paths::cache().unwrap().parent().unwrap())
        .output()
        .unwrap();
    let text = text_of(&output);
    assert!(
        !output.status.success() && text.contains("8 MiB are free") && text.contains("1024 MiB are needed"),
        "{text}"
    );
}

fn text_of(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
