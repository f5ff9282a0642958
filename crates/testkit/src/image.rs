//! Container images made without a container engine: a few files become a layer, layers become an OCI image.
//!
//! The same content gives the same bytes and therefore the same digest, so that nothing is rolled out twice.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::shell;

/// Something with a place in the registry: a layer, a configuration or a manifest.
#[derive(Debug, Clone)]
pub struct Blob {
    pub digest: String,
    pub bytes: Vec<u8>,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        Self {
            digest: digest(&bytes),
            bytes,
        }
    }

    fn of(value: &Value) -> Self {
        Self::new(value.to_string().into_bytes())
    }

    fn described(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": self.digest, "size": self.bytes.len()})
    }
}

/// Files of an image, packed.
#[derive(Debug, Clone)]
pub struct Layer {
    blob: Blob,
    unpacked_digest: String,
}

/// Collects the files of a layer; paths are absolute inside the image.
#[allow(missing_debug_implementations)] // the archive has none
pub struct LayerBuilder {
    archive: tar::Builder<Vec<u8>>,
}

impl Default for LayerBuilder {
    fn default() -> Self {
        Self {
            archive: tar::Builder::new(Vec::new()),
        }
    }
}

impl LayerBuilder {
    pub fn folder(mut self, path: &str, mode: u32) -> Result<Self> {
        let mut header = header(tar::EntryType::Directory, mode);
        self.archive.append_data(&mut header, inside(path), std::io::empty())?;
        Ok(self)
    }

    pub fn file(mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<Self> {
        let mut header = header(tar::EntryType::Regular, mode);
        header.set_size(bytes.len() as u64);
        self.archive.append_data(&mut header, inside(path), bytes)?;
        Ok(self)
    }

    pub fn link(mut self, path: &str, target: &str) -> Result<Self> {
        let mut header = header(tar::EntryType::Symlink, 0o777);
        self.archive.append_link(&mut header, inside(path), target)?;
        Ok(self)
    }

    pub fn build(self) -> Result<Layer> {
        let unpacked = self.archive.into_inner()?;
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(&unpacked)?;
        Ok(Layer {
            blob: Blob::new(packer.finish()?),
            unpacked_digest: digest(&unpacked),
        })
    }
}

fn header(kind: tar::EntryType, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(0);
    header.set_mtime(0);
    header
}

fn inside(path: &str) -> &str {
    path.trim_start_matches('/')
}

/// An image, ready to be put into a registry.
#[derive(Debug, Clone)]
pub struct Image {
    layers: Vec<Layer>,
    config: Blob,
    manifest: Blob,
}

impl Image {
    pub const MANIFEST_TYPE: &'static str = "application/vnd.oci.image.manifest.v1+json";

    /// `runtime` holds the OCI run configuration, such as `{"Entrypoint": ["/manager"]}`.
    pub fn new(layers: Vec<Layer>, runtime: &Value) -> Self {
        let unpacked: Vec<&str> = layers.iter().map(|layer| layer.unpacked_digest.as_str()).collect();
        let config = Blob::of(&json!({
            "architecture": architecture(), "os": "linux", "config": runtime, "rootfs": {"type": "layers", "diff_ids": unpacked},
        }));
        let described: Vec<Value> = layers
            .iter()
            .map(|layer| layer.blob.described("application/vnd.oci.image.layer.v1.tar+gzip"))
            .collect();
        let manifest = Blob::of(&json!({
            "schemaVersion": 2, "mediaType": Self::MANIFEST_TYPE,
            "config": config.described("application/vnd.oci.image.config.v1+json"), "layers": described,
        }));
        Self {
            layers,
            config,
            manifest,
        }
    }

    pub fn digest(&self) -> &str {
        &self.manifest.digest
    }

    pub fn manifest(&self) -> &Blob {
        &self.manifest
    }

    /// Configuration and layers: what the manifest refers to.
    pub fn parts(&self) -> impl Iterator<Item = &Blob> {
        std::iter::once(&self.config).chain(self.layers.iter().map(|layer| &layer.blob))
    }

    /// Writes the image as an OCI archive that `skopeo`, `ctr` and `podman` can load.
    pub fn write_archive(&self, target: &Path, reference: &str) -> Result<()> {
        let mut layer = LayerBuilder::default().file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        for blob in self.parts().chain([&self.manifest]) {
            layer = layer.file(&format!("blobs/{}", blob.digest.replace(':', "/")), 0o644, &blob.bytes)?;
        }
        let mut entry = self.manifest.described(Self::MANIFEST_TYPE);
        entry["annotations"] =
            json!({"org.opencontainers.image.ref.name": reference, "io.containerd.image.name": reference});
        let index = json!({"schemaVersion": 2, "manifests": [entry]}).to_string();
        let archive = layer
            .file("index.json", 0o644, index.as_bytes())?
            .archive
            .into_inner()?;
        std::fs::write(target, archive).with_context(|| format!("cannot write {}", target.display()))
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(bytes)
        .iter()
        .fold(String::from("sha256:"), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// Small images with the names people use, made of busybox: `nginx` serves a page on port 80, `busybox` is a shell.
/// The file `/etc/image-id` tells which image a container runs.
pub fn stand_ins() -> Result<Vec<(&'static str, &'static str, Image)>> {
    let busybox = shell::find("busybox").context("busybox is missing")?;
    let mut base = LayerBuilder::default();
    for folder in [
        "bin", "etc", "proc", "sys", "dev", "usr", "usr/bin", "var", "root", "www",
    ] {
        base = base.folder(folder, 0o755)?;
    }
    base = base
        .folder("tmp", 0o1777)?
        .file("bin/busybox", 0o755, &std::fs::read(&busybox)?)?;
    for applet in shell::run(Command::new(&busybox).arg("--list"))?
        .lines()
        .filter(|name| *name != "busybox")
    {
        base = base.link(&format!("bin/{applet}"), "busybox")?;
    }
    let base = base
        .link("usr/bin/env", "/bin/env")?
        .file(
            "etc/passwd",
            0o644,
            b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
        )?
        .file("etc/group", 0o644, b"root:x:0:\nnogroup:x:65534:\n")?
        .file("www/index.html", 0o644, b"ok\n")?
        .file(
            "bin/nginx",
            0o755,
            b"#!/bin/sh\ntrap 'exit 0' TERM INT\nhttpd -f -p ${PORT:-80} -h /www & wait $!\n",
        )?
        .file(
            "bin/pause",
            0o755,
            b"#!/bin/sh\ntrap 'exit 0' TERM INT\nwhile true; do sleep 3600 & wait $!; done\n",
        )?
        .build()?;
    let wanted = [
        ("library/busybox", &["latest", "1.35", "1.36"][..], "/bin/sh"),
        ("library/nginx", &["latest", "1.20", "1.21", "1.25"][..], "/bin/nginx"),
        ("pause", &["3.10"][..], "/bin/pause"),
    ];
    let mut images = Vec::new();
    for (name, tags, command) in wanted {
        for tag in tags {
            let id = LayerBuilder::default()
                .file("etc/image-id", 0o644, format!("{name}:{tag}\n").as_bytes())?
                .build()?;
            let runtime = json!({"Cmd": [command], "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]});
            images.push((name, *tag, Image::new(vec![base.clone(), id], &runtime)));
        }
    }
    Ok(images)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(text: &str) -> Image {
        let layer = LayerBuilder::default()
            .folder("/etc", 0o755)
            .unwrap()
            .file("/etc/x", 0o644, text.as_bytes())
            .unwrap();
        Image::new(vec![layer.build().unwrap()], &json!({"Cmd": ["/x"]}))
    }

    #[test]
    fn given_equal_content_then_equal_digest() {
        assert_eq!(image("a").digest(), image("a").digest());
        assert_ne!(image("a").digest(), image("b").digest());
    }

    #[test]
    fn given_an_image_then_its_manifest_names_every_part_by_digest_and_size() {
        let image = image("a");
        let manifest: Value = serde_json::from_slice(&image.manifest().bytes).unwrap();
        let named: Vec<&str> = [&manifest["config"], &manifest["layers"][0]]
            .iter()
            .map(|part| part["digest"].as_str().unwrap())
            .collect();
        assert_eq!(
            named,
            image.parts().map(|part| part.digest.as_str()).collect::<Vec<_>>()
        );
        assert_eq!(
            digest(b""),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
