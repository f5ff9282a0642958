//! Kubernetes and Helm, built once from the Go module proxy and kept in the cache folder by version.
//!
//! All of Kubernetes is one Go program that acts as the part it is called by (`kube-apiserver`, `kubelet`, `kubectl`, …).
//! Helm is built in a module with the default Kubernetes' dependencies, so that the two share what is compiled.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::progress::{Progress, Step};
use crate::{paths, shell};

/// The version that the test suite runs on.
pub const DEFAULT_VERSION: &str = "1.34.4";
const HELM_VERSION: &str = "3.19.5";

/// Versions that are known to work with the distribution's containerd, newest patch of each.
const KNOWN: &[&str] = &["1.33.6", DEFAULT_VERSION, "1.35.4"];

const PARTS: &[&str] = &[
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kubectl",
];
const PROGRAM: &str = include_str!("../kubernetes/main.go");
const ROOM_FOR_A_BUILD: u64 = 6 << 30;

/// The built programs of one Kubernetes version.
#[derive(Debug, Clone)]
pub struct Kubernetes {
    pub version: String,
    folder: PathBuf,
}

impl Kubernetes {
    /// Takes the programs from the cache, or builds them first.
    pub fn provide(version: &str, progress: &Progress) -> Result<Self> {
        let version = full_version(version)?;
        let folder = paths::cache()?.join("kubernetes").join(&version);
        let built = Self {
            version: version.clone(),
            folder,
        };
        if built.is_complete() {
            return Ok(built);
        }
        let _lock = lock(&built.folder)?;
        if !built.is_complete() {
            progress.step(&format!("Building Kubernetes {version} (once)"), |step| {
                built.build(step)
            })?;
        }
        Ok(built)
    }

    /// The path of a part, by the name Kubernetes gives it.
    pub fn part(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// Why a version that is not in the cache cannot be built here; none when it can.
    pub fn obstacle(version: &str) -> Result<Option<String>> {
        let version = full_version(version)?;
        let folder = paths::cache()?.join("kubernetes").join(&version);
        Ok(
            if (Self {
                version,
                folder: folder.clone(),
            })
            .is_complete()
            {
                None
            } else {
                obstacle_to_build(&folder)
            },
        )
    }

    fn is_complete(&self) -> bool {
        PARTS.iter().all(|part| self.part(part).exists())
    }

    fn build(&self, step: &Step) -> Result<()> {
        let module = GoModule::prepare(&self.folder.join("src"), &self.version)?;
        fs::write(module.folder.join("main.go"), PROGRAM)?;
        let mut numbers = self.version.split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        let version = &self.version;
        let stamp = format!(
            "-s -w -X k8s.io/component-base/version.gitVersion=v{version} -X k8s.io/component-base/version.gitMajor={major} \
             -X k8s.io/component-base/version.gitMinor={minor} -X k8s.io/client-go/pkg/version.gitVersion=v{version}"
        );
        let program = module.build(".", &stamp, step)?;
        let bin = self.folder.join("bin");
        fs::create_dir_all(&bin)?;
        fs::rename(program, bin.join("kubernetes"))?;
        for part in PARTS {
            let link = bin.join(part);
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink("kubernetes", link)?;
        }
        Ok(())
    }
}

/// Takes Helm from the cache, or builds it first.
pub fn helm(progress: &Progress) -> Result<PathBuf> {
    let folder = paths::cache()?.join("helm").join(HELM_VERSION);
    let program = folder.join("helm");
    if program.exists() {
        return Ok(program);
    }
    let _lock = lock(&folder)?;
    if !program.exists() {
        progress.step(&format!("Building Helm {HELM_VERSION} (once)"), |step| {
            let module = GoModule::prepare(&folder.join("src"), DEFAULT_VERSION)?;
            fs::rename(module.build("helm.sh/helm/v3/cmd/helm", "-s -w", step)?, &program).map_err(anyhow::Error::from)
        })?;
    }
    Ok(program)
}

/// A Go module that depends on one Kubernetes version with all its staging parts.
struct GoModule {
    folder: PathBuf,
}

impl GoModule {
    fn prepare(folder: &Path, version: &str) -> Result<Self> {
        if let Some(obstacle) = obstacle_to_build(folder) {
            bail!(obstacle);
        }
        fs::create_dir_all(folder)?;
        let module = Self {
            folder: folder.to_owned(),
        };
        let upstream = shell::run(&mut module.go(&["mod", "download", "-json", &format!("k8s.io/kubernetes@v{version}")]))
            .context("the Go module proxy did not deliver Kubernetes; check the network or `go env GOPROXY` (what is built already stays usable)")?;
        let download: serde_json::Value = serde_json::from_str(&upstream)?;
        let manifest = fs::read_to_string(download["GoMod"].as_str().context("go mod download named no go.mod")?)?;
        fs::write(folder.join("go.mod"), go_mod(&manifest, version)?)?;
        Ok(module)
    }

    fn go(&self, args: &[&str]) -> Command {
        let mut command = Command::new("go");
        command
            .args(args)
            .current_dir(&self.folder)
            .env("GOTOOLCHAIN", "local")
            .env("GOFLAGS", "-mod=mod -buildvcs=false");
        command
    }

    /// Builds one package; returns the program, still in the module's folder.
    fn build(&self, package: &str, stamp: &str, step: &Step) -> Result<PathBuf> {
        step.at(0, 0, "downloading modules");
        let packages = shell::run(&mut self.go(&["list", "-deps", package]))
            .context("the Go module proxy did not deliver all modules; check the network or `go env GOPROXY`")?;
        let total = packages.lines().count() as u64;
        let program = self.folder.join("program");
        let mut child = self
            .go(&["build", "-v", "-ldflags", stamp, "-o", "program", package])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut said = Vec::new();
        for line in BufReader::new(child.stderr.take().context("no standard error")?).lines() {
            let line = line?;
            said.push(line.clone());
            step.at(said.len() as u64, total, &line);
        }
        if !child.wait()?.success() {
            bail!("go build failed:\n{}", shell::tail(&said.join("\n"), 20));
        }
        Ok(program)
    }
}

fn obstacle_to_build(folder: &Path) -> Option<String> {
    if shell::find("go").is_none() {
        return Some(
            "Go is needed once to build Kubernetes and is not on the PATH: install Go 1.26 or newer".to_owned(),
        );
    }
    paths::lacks_room(folder, ROOM_FOR_A_BUILD)
        .map(|lack| format!("{lack}: the build of Kubernetes needs that much once"))
}

/// The module file: Kubernetes, kubectl and Helm, with every staging part of Kubernetes at the matching version.
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
    Ok(format!(
        "module kruise.local/kubernetes\n\n{go}\n\nrequire (\n\thelm.sh/helm/v3 v{HELM_VERSION}\n\tk8s.io/kubectl v0.{staging_version}\n\
         \tk8s.io/kubernetes v{version}\n)\n\nreplace (\n{replaced})\n"
    ))
}

/// `1.34` means the newest patch we know of; a full version is taken as it is.
pub fn full_version(wanted: &str) -> Result<String> {
    let wanted = wanted.trim_start_matches('v');
    let numbers: Vec<&str> = wanted.split('.').collect();
    if numbers.iter().any(|number| number.parse::<u32>().is_err()) {
        bail!("{wanted} is not a Kubernetes version such as 1.34 or {DEFAULT_VERSION}");
    }
    match numbers.len() {
        3 => Ok(wanted.to_owned()),
        2 => KNOWN
            .iter()
            .find(|known| known.starts_with(&format!("{wanted}.")))
            .map(|known| (*known).to_owned())
            .with_context(|| {
                format!(
                    "no known patch release of {wanted}: known are {}, or give all three numbers",
                    KNOWN.join(", ")
                )
            }),
        _ => bail!("{wanted} is not a Kubernetes version such as 1.34 or {DEFAULT_VERSION}"),
    }
}

/// Held while a folder is built, so that two commands do not build the same; freed by the kernel when the process ends.
fn lock(folder: &Path) -> Result<File> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let file = File::create(folder.join("lock"))?;
    file.lock()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_completed_or_refused() {
        assert_eq!(full_version("1.34").unwrap(), DEFAULT_VERSION);
        assert_eq!(full_version("v1.33.2").unwrap(), "1.33.2");
        for bad in ["", "1", "1.x", "1.19", "1.2.3.4", "latest"] {
            assert!(full_version(bad).is_err(), "{bad}");
        }
    }

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
}
