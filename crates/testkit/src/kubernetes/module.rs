//! The Go module that Kubernetes and Helm are built in.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{DEFAULT_VERSION, HELM_VERSION};
use crate::progress::Step;
use crate::shell;

/// A Go module that depends on one Kubernetes version with all its staging parts.
#[derive(Debug)]
pub(super) struct GoModule {
    pub(super) folder: PathBuf,
    /// The Go toolchain that the version is built with, as the environment variable `GOTOOLCHAIN` names it.
    toolchain: String,
}

impl GoModule {
    pub(super) fn prepare(folder: &Path, version: &str) -> Result<Self> {
        if let Some(obstacle) = super::obstacle_to_build(folder) {
            bail!(obstacle);
        }
        fs::create_dir_all(folder)?;
        let mut module = Self {
            folder: folder.to_owned(),
            toolchain: "local".to_owned(),
        };
        let upstream = shell::run(&mut module.go(&["mod", "download", "-json", &format!("k8s.io/kubernetes@v{version}")]))
            .context("the Go module proxy did not deliver Kubernetes; check the network or `go env GOPROXY` (what is built already stays usable)")?;
        let download: serde_json::Value = serde_json::from_str(&upstream)?;
        let manifest = fs::read_to_string(download["GoMod"].as_str().context("go mod download named no go.mod")?)?;
        fs::write(folder.join("go.mod"), go_mod(&manifest, version)?)?;
        let source = download["Dir"].as_str().context("go mod download named no folder")?;
        if let Ok(named) = fs::read_to_string(Path::new(source).join(".go-version")) {
            module.toolchain = format!("go{}", named.trim());
        }
        Ok(module)
    }

    fn go(&self, args: &[&str]) -> Command {
        let mut command = Command::new("go");
        command
            .args(args)
            .current_dir(&self.folder)
            .env("GOTOOLCHAIN", &self.toolchain)
            .env("GOFLAGS", "-mod=mod -buildvcs=false");
        command
    }

    /// Builds one package; returns the program, still in the module's folder.
    pub(super) fn build(&self, package: &str, stamp: &str, step: &Step) -> Result<PathBuf> {
        step.at(0, 0, "downloading modules");
        let packages = shell::run(&mut self.go(&["list", "-deps", package])).with_context(|| {
            format!(
                "the Go module proxy did not deliver all modules and the toolchain {}; check the network or `go env GOPROXY`",
                self.toolchain
            )
        })?;
        let packages: BTreeSet<&str> = packages.lines().collect();
        let total = packages.len() as u64;
        let program = self.folder.join("program");
        let mut child = self
            .go(&["build", "-v", "-ldflags", stamp, "-o", "program", package])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut done = 0;
        let mut complaints = Vec::new();
        for line in BufReader::new(child.stderr.take().context("no standard error")?).lines() {
            let line = line?;
            if is_progress(&line, &packages) {
                done += 1;
                step.at(done, total, &line);
            } else {
                complaints.push(line);
            }
        }
        if !child.wait()?.success() {
            // The first error is the cause, those that follow often come from it.
            complaints.truncate(30);
            bail!("go build ({}) failed:\n{}", self.toolchain, complaints.join("\n"));
        }
        Ok(program)
    }
}

/// Tells what `go build -v` says about its way, which are the names of packages, from what is wrong.
fn is_progress(line: &str, packages: &BTreeSet<&str>) -> bool {
    packages.contains(line) || line.starts_with("go: downloading ")
}

/// The module file: Kubernetes and kubectl, with every staging part of Kubernetes at the matching version. Helm is beside the
/// version it is built with only: what it needs is too new for older ones.
fn go_mod(kubernetes: &str, version: &str) -> Result<String> {
    let staging_version = version
        .strip_prefix("1.")
        .with_context(|| format!("{version} is not a 1.x version"))?;
    let go = kubernetes
        .lines()
        .find(|line| line.starts_with("go "))
        .context("Kubernetes' go.mod names no Go version")?;
    let mut staging: Vec<&str> = kubernetes
        .lines()
        .filter_map(|line| line.trim().split_once(" v0.0.0"))
        .filter(|(name, rest)| name.starts_with("k8s.io/") && (rest.is_empty() || rest.starts_with(' ')))
        .map(|(name, _)| name)
        .collect();
    staging.sort_unstable();
    staging.dedup();
    let replaced: String = staging
        .iter()
        .map(|name| format!("\t{name} => {name} v0.{staging_version}\n"))
        .collect();
    let helm = if version == DEFAULT_VERSION {
        format!("\thelm.sh/helm/v3 v{HELM_VERSION}\n")
    } else {
        String::new()
    };
    Ok(format!(
        "module kruise.local/kubernetes\n\n{go}\n\nrequire (\n{helm}\tk8s.io/kubectl v0.{staging_version}\n\
         \tk8s.io/kubernetes v{version}\n)\n\nreplace (\n{replaced})\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_the_upstream_module_then_every_staging_part_is_pinned_to_the_same_version() {
        let upstream = "module k8s.io/kubernetes\n\ngo 1.24.0\n\nrequire (\n\tk8s.io/api v0.0.0\n\tk8s.io/klog/v2 v2.130.1\n\tk8s.io/utils v0.0.0-2025\n\tk8s.io/kubectl v0.0.0 // indirect\n)\n";
        let ours = go_mod(upstream, "1.34.4").unwrap();
        assert!(
            ours.contains("k8s.io/api => k8s.io/api v0.34.4")
                && ours.contains("k8s.io/kubectl => k8s.io/kubectl v0.34.4"),
            "{ours}"
        );
        assert!(
            !ours.contains("klog") && !ours.contains("utils") && ours.contains("\ngo 1.24.0\n"),
            "{ours}"
        );
    }

    #[test]
    fn given_an_older_version_then_helm_is_not_beside_it() {
        let upstream = "module k8s.io/kubernetes\n\ngo 1.20\n";
        assert!(go_mod(upstream, DEFAULT_VERSION).unwrap().contains("helm.sh/helm"));
        assert!(!go_mod(upstream, "1.28.15").unwrap().contains("helm.sh/helm"));
    }

    #[test]
    fn given_a_build_that_fails_then_what_the_compiler_says_is_told_from_names_of_packages() {
        let packages = BTreeSet::from([
            "internal/abi",
            "k8s.io/kubernetes/cmd/kubelet/app",
            "kruise.local/kubernetes",
        ]);
        let output = "go: downloading k8s.io/api v0.28.15\ninternal/abi\nkruise.local/kubernetes\n# kruise.local/kubernetes\n\
                    ./main.go:33:37: too many arguments in call to kubelet.NewKubeletCommand\nk8s.io/kubernetes/cmd/kubelet/app";
        let wrong: Vec<&str> = output.lines().filter(|line| !is_progress(line, &packages)).collect();
        assert_eq!(
            wrong,
            [
                "# kruise.local/kubernetes",
                "./main.go:33:37: too many arguments in call to kubelet.NewKubeletCommand"
            ]
        );
    }
}
