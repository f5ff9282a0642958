//! The image registry of a cluster: the distribution's `docker-registry`, filled by writing its storage folder.
//!
//! Nodes look up `docker.io` and `registry.k8s.io` here, so that manifests with everyday image names work offline.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::image::{Blob, Image};
use crate::network::{CONTROL_PLANE, Network};
use crate::process::{Processes, wait_until};
use crate::shell;

const PORT: u16 = 5000;

/// The registry whose storage lies in `folder`.
#[derive(Debug)]
pub struct Registry {
    folder: PathBuf,
}

impl Registry {
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// Puts an image under `name:tag`; content that is there already is not written again.
    pub fn put(&self, name: &str, tag: &str, image: &Image) -> Result<()> {
        let repository = self.folder.join("docker/registry/v2/repositories").join(name);
        for blob in image.parts() {
            self.store(blob)?;
            link(&repository.join("_layers"), blob)?;
        }
        let manifest = image.manifest();
        self.store(manifest)?;
        link(&repository.join("_manifests/revisions"), manifest)?;
        let tag = repository.join("_manifests/tags").join(tag);
        link(&tag.join("index"), manifest)?;
        write(&tag.join("current/link"), manifest.digest.as_bytes())
    }

    /// Starts the registry on the control plane's network and waits until it answers.
    pub fn start(&self, processes: &Processes, network: &Network) -> Result<()> {
        let program = shell::find("docker-registry")
            .or_else(|| shell::find("registry"))
            .context("docker-registry is missing")?;
        let config = self.folder.join("config.yml");
        let text = format!(
            "version: 0.1\nlog: {{level: warn}}\nstorage: {{filesystem: {{rootdirectory: {}}}, cache: {{}}, delete: {{enabled: true}}}}\n\
             http: {{addr: {CONTROL_PLANE}:{PORT}}}\n",
            self.folder.display()
        );
        write(&config, text.as_bytes())?;
        processes.start(
            "registry",
            network
                .on_control_plane(program)
                .arg("serve")
                .arg(&config)
                .env("OTEL_TRACES_EXPORTER", "none"),
        )?;
        let answers = || {
            shell::succeeds(network.on_control_plane("busybox").args([
                "wget",
                "-q",
                "-O",
                "/dev/null",
                &format!("http://{CONTROL_PLANE}:{PORT}/v2/"),
            ]))
        };
        if !wait_until(Duration::from_secs(20), || {
            processes.running("registry").is_none() || answers()
        }) || !answers()
        {
            bail!(
                "the image registry does not answer; its last words:\n{}",
                processes.last_words("registry")
            );
        }
        Ok(())
    }

    fn store(&self, blob: &Blob) -> Result<()> {
        let hash = hash(blob)?;
        let data = self
            .folder
            .join("docker/registry/v2/blobs/sha256")
            .join(&hash[..2])
            .join(hash)
            .join("data");
        if data.exists() {
            Ok(())
        } else {
            write(&data, &blob.bytes)
        }
    }
}

/// Tells containerd where to look for images: `folder` is its `config_path`.
pub fn write_mirrors(folder: &Path) -> Result<()> {
    let here = format!("http://{CONTROL_PLANE}:{PORT}");
    for host in ["docker.io", "registry.k8s.io"] {
        let text = format!("server = \"{here}\"\n[host.\"{here}\"]\n  capabilities = [\"pull\", \"resolve\"]\n");
        write(&folder.join(host).join("hosts.toml"), text.as_bytes())?;
    }
    Ok(())
}

fn link(folder: &Path, blob: &Blob) -> Result<()> {
    write(
        &folder.join("sha256").join(hash(blob)?).join("link"),
        blob.digest.as_bytes(),
    )
}

fn hash(blob: &Blob) -> Result<&str> {
    blob.digest
        .strip_prefix("sha256:")
        .with_context(|| format!("{} is not a sha256 digest", blob.digest))
}

/// Writes beside and renames, so that a reader never meets half a file.
fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    let folder = file.parent().context("a file without a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let beside = file.with_extension("new");
    fs::write(&beside, bytes)
        .and_then(|()| fs::rename(&beside, file))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Pushes an image to a registry elsewhere, with `skopeo`.
pub fn push(image: &Image, reference: &str) -> Result<()> {
    if shell::find("skopeo").is_none() {
        bail!("skopeo is needed to push {reference}: run `apt-get install skopeo`");
    }
    let folder = tempfile::tempdir()?;
    let archive = folder.path().join("image.tar");
    image.write_archive(&archive, reference)?;
    let source = format!("oci-archive:{}", archive.display());
    shell::run(Command::new("skopeo").args(["copy", "--insecure-policy", &source, &format!("docker://{reference}")]))
        .map(drop)
}
