//! The certificates and kubeconfigs of a local cluster: one authority, one certificate per part.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, date_time_ymd,
};
use serde_json::json;

/// The authority of one cluster and the folder with all that it signed.
#[derive(Debug)]
pub struct Pki {
    folder: PathBuf,
}

impl Pki {
    /// Opens the folder, making the authority and the key for service account tokens when they are missing.
    pub fn open(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let pki = Self {
            folder: folder.to_owned(),
        };
        if !pki.file("ca.key").exists() {
            let key = KeyPair::generate()?;
            pki.save("ca.crt", &authority().self_signed(&key)?.pem())?;
            pki.save("ca.key", &key.serialize_pem())?;
        }
        if !pki.file("sa.key").exists() {
            let key = KeyPair::generate()?;
            pki.save("sa.pub", &key.public_key_pem())?;
            pki.save("sa.key", &key.serialize_pem())?;
        }
        Ok(pki)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Signs a certificate that serves under `names` (host names and addresses) and identifies `user` in `group`.
    pub fn issue(&self, name: &str, user: &str, group: Option<&str>, names: &[&str]) -> Result<()> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        for each in names {
            params.subject_alt_names.push(match each.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName((*each).try_into()?),
            });
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2060, 1, 1);
        let authority_key = KeyPair::from_pem(&self.read("ca.key")?)?;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &Issuer::from_params(&authority(), &authority_key))?;
        self.save(&format!("{name}.crt"), &certificate.pem())?;
        self.save(&format!("{name}.key"), &key.serialize_pem())
    }

    /// Writes a kubeconfig that needs no other file. It is JSON, which is YAML too.
    pub fn kubeconfig(&self, target: &Path, cluster: &str, server: &str, certificate: &str) -> Result<()> {
        let data = |name: &str| self.read(name).map(|text| STANDARD.encode(text));
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": cluster,
            "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": data("ca.crt")?}}],
            "users": [{"name": cluster, "user": {
                "client-certificate-data": data(&format!("{certificate}.crt"))?, "client-key-data": data(&format!("{certificate}.key"))?}}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
        });
        write_private(target, &serde_json::to_string_pretty(&config)?)
    }

    fn read(&self, name: &str) -> Result<String> {
        let file = self.file(name);
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    }

    fn save(&self, name: &str, text: &str) -> Result<()> {
        write_private(&self.file(name), text)
    }
}

fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "kruise-local");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2060, 1, 1);
    params
}

fn write_private(file: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let _ = fs::remove_file(file);
    let mut open = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    std::io::Write::write_all(&mut open, text.as_bytes()).with_context(|| format!("cannot write {}", file.display()))
}
