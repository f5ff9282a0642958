//! Kubernetes and Helm, built once from the Go module proxy and kept in the cache folder by version.
//!
//! All of Kubernetes is one Go program that acts as the part it is called by (`kube-apiserver`, `kubelet`, `kubectl`, …).
//! Every version is built with the Go toolchain it names itself, which comes from the module proxy, too: older ones do not
//! compile with the Go of today. Helm is built in a module with the default Kubernetes' dependencies, so that the two share
//! what is compiled.

mod module;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::progress::{Progress, Step};
use crate::{paths, shell};
use module::GoModule;

/// The version that the test suite runs on.
pub const DEFAULT_VERSION: &str = "1.34.4";
const HELM_VERSION: &str = "3.19.5";

/// The patch release that a version without one means: the newest that can be had together with its parts and its Go toolchain.
const KNOWN: &[&str] = &[
    "1.24.17",
    "1.26.11",
    "1.27.4",
    "1.28.15",
    "1.29.15",
    "1.30.14",
    "1.32.5",
    "1.33.13",
    DEFAULT_VERSION,
    "1.35.8",
];

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
        let built = Self::in_cache(version)?;
        if built.is_complete() {
            return Ok(built);
        }
        let _lock = lock(&built.folder)?;
        if !built.is_complete() {
            progress.step(&format!("Building Kubernetes {} (once)", built.version), |step| {
                built.build(step)
            })?;
        }
        Ok(built)
    }

    /// The path of a part, by the name Kubernetes gives it.
    pub fn part(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// Whether a version is in the cache.
    pub fn is_built(version: &str) -> Result<bool> {
        Ok(Self::in_cache(version)?.is_complete())
    }

    /// Why a version that is not in the cache cannot be built here; none when it can.
    pub fn obstacle(version: &str) -> Result<Option<String>> {
        let wanted = Self::in_cache(version)?;
        Ok(if wanted.is_complete() {
            None
        } else {
            obstacle_to_build(&wanted.folder)
        })
    }

    fn in_cache(version: &str) -> Result<Self> {
        let version = full_version(version)?;
        let folder = paths::cache()?.join("kubernetes").join(&version);
        Ok(Self { version, folder })
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

fn obstacle_to_build(folder: &Path) -> Option<String> {
    if shell::find("go").is_none() {
        return Some(
            "Go is needed once to build Kubernetes and is not on the PATH: install Go 1.21 or newer".to_owned(),
        );
    }
    paths::lacks_room(folder, ROOM_FOR_A_BUILD)
        .map(|lack| format!("{lack}: the build of Kubernetes needs that much once"))
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
pub(crate) fn lock(folder: &Path) -> Result<File> {
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
}
