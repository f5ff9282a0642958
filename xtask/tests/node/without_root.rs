//! The cluster that somebody gets who is not root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kruise_testkit::paths;
use tempfile::TempDir;

use super::first_steps;
use crate::{root, text_of};

const CLUSTER: &str = "plain";

/// A user without any rights, with a home, and a clone of the repository that lies there with its programs.
struct Nobody {
    home: TempDir,
}

impl Nobody {
    fn new() -> Self {
        let this = Self {
            home: tempfile::tempdir().unwrap(),
        };
        let cache = this.home.path().join(".cache/kruise-rs");
        for folder in [&this.programs(), &this.clone_of_repository(), &cache] {
            fs::create_dir_all(folder).unwrap();
        }
        copy(&paths::cache().unwrap().join("kubernetes"), &cache);
        copy(&paths::cache().unwrap().join("helm"), &cache);
        for folder in ["charts", "docs"] {
            copy(&root().join(folder), &this.clone_of_repository());
        }
        let beside = Path::new(env!("CARGO_BIN_EXE_xtask")).parent().unwrap();
        for program in [
            "xtask",
            "kruise-manager",
            "kruise-sim-nodes",
            "kruise-local-storage",
            "kubectl-kruise",
        ] {
            copy(&beside.join(program), &this.programs());
        }
        let mut owner = Command::new("chown");
        let status = owner.args(["-R", "65534:65534"]).arg(this.home.path()).status();
        assert!(status.unwrap().success());
        this
    }

    fn programs(&self) -> PathBuf {
        self.home.path().join("programs")
    }

    fn clone_of_repository(&self) -> PathBuf {
        self.home.path().join("clone")
    }

    /// Runs commands as typed into a shell, stopping at the first that fails.
    fn types(&self, script: &str) -> Output {
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-ec", script])
            .current_dir(self.home.path())
            .env("HOME", self.home.path())
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_STATE_HOME")
            .env("XTASK_ROOT", self.clone_of_repository())
            // The programs lie there ready: what cargo would build is what was copied.
            .env("CARGO", "true")
            .env("PATH", format!("{}:/usr/bin:/bin", self.programs().display()))
            .output()
            .unwrap()
    }
}

impl Drop for Nobody {
    /// Whatever failed, nothing goes on running.
    fn drop(&mut self) {
        self.types(&format!("xtask down --name {CLUSTER} --purge"));
    }
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success(), "cannot copy {}", from.display());
}

#[test]
fn given_no_root_then_the_cluster_has_simulated_nodes_and_a_manager_beside_it_and_says_so() {
    let nobody = Nobody::new();
    let up = nobody.types(&format!("xtask up --name {CLUSTER}"));
    assert!(
        up.status.success() && text_of(&up).contains("simulated nodes only"),
        "{}",
        text_of(&up)
    );
    let refused = nobody.types("xtask up --name other --nodes 2");
    assert!(
        !refused.status.success() && text_of(&refused).contains("real nodes need root"),
        "{}",
        text_of(&refused)
    );
    let look = nobody.types(&format!(
        "eval \"$(xtask env --name {CLUSTER})\"; kubectl create deployment plain --image=nginx --replicas=4; \
         kubectl rollout status deployment/plain --timeout=60s; kubectl get nodes; xtask status"
    ));
    assert!(
        look.status.success()
            && text_of(&look).contains("successfully rolled out")
            && text_of(&look).contains("running manager"),
        "{}",
        text_of(&look)
    );
    // What `up` says last can be typed as it is.
    let first_steps = nobody.types(&format!(
        "eval \"$(xtask env --name {CLUSTER})\"; cd {}; {}",
        nobody.clone_of_repository().display(),
        first_steps::proposed(&text_of(&up)).join("; ")
    ));
    assert!(first_steps.status.success(), "{}", text_of(&first_steps));
    first_steps::were_an_update_in_place(&text_of(&first_steps));
    let down = nobody.types(&format!("xtask down --name {CLUSTER} --purge; xtask status"));
    assert!(
        down.status.success() && text_of(&down).contains("no local clusters"),
        "{}",
        text_of(&down)
    );
}
