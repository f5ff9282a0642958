//! Making certificates.

use super::{
    Artifacts,
    x509::{certificates, private_key, validity},
};
use kruise_api::names::object::WEBHOOK_CA_COMMON_NAME;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData as _, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::{
    net::IpAddr,
    time::{Duration, SystemTime},
};
use time::OffsetDateTime;

/// Ten years: how long CAs and certificates last.
pub(super) const LIFE: Duration = Duration::from_hours(24 * 3650);
/// A CA begins a little in the past, for API servers whose clock is behind.
pub(super) const CLOCK_SKEW: Duration = Duration::from_hours(1);

/// Why certificates cannot be used or made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error("there is no certificate")]
    Missing,
    #[error("not in PEM format: {0}")]
    Pem(String),
    #[error("the key cannot be used: {0}")]
    Key(rustls::Error),
    #[error("not accepted by clients: {0}")]
    NotTrusted(String),
    #[error("{0:?} is neither a host name nor an address")]
    Host(String),
    #[error("cannot make a certificate: {0}")]
    Issue(#[from] rcgen::Error),
}

/// A CA that can sign.
pub(super) struct Ca {
    pub(super) key_pem: Vec<u8>,
    pub(super) cert_pem: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
    begins: SystemTime,
}

impl Ca {
    /// A new CA.
    pub(super) fn new(now: SystemTime) -> Result<Self, CertificateError> {
        let key = KeyPair::generate()?;
        let begins = now - CLOCK_SKEW;
        let mut params = params(WEBHOOK_CA_COMMON_NAME, begins, now + LIFE);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            key_pem: key.serialize_pem().into_bytes(),
            cert_pem: certificate.pem().into_bytes(),
            issuer: Issuer::new(params, key),
            begins,
        })
    }

    /// The CA that comes first in the bundle, when there is its key.
    pub(super) fn existing(artifacts: &Artifacts) -> Result<Self, CertificateError> {
        let key = signing_key(&artifacts.ca_key)?;
        let bundle = certificates(&artifacts.ca_bundle)?;
        let certificate = bundle.first().ok_or(CertificateError::Missing)?;
        if !is_key_of(&key, certificate) {
            return Err(CertificateError::NotTrusted(
                "the key of the CA is another one".to_owned(),
            ));
        }
        Ok(Self {
            key_pem: artifacts.ca_key.clone(),
            cert_pem: artifacts.ca_bundle.clone(),
            issuer: Issuer::from_ca_cert_der(certificate, key)?,
            begins: validity(certificate)?.0,
        })
    }

    /// Signs a new certificate for this host, and for `localhost`, by which the readiness check comes. Returns key and certificate.
    pub(super) fn issue(&self, host: &str, now: SystemTime) -> Result<(Vec<u8>, Vec<u8>), CertificateError> {
        let key = KeyPair::generate()?;
        let mut params = params(host, self.begins, now + LIFE);
        let name = |name: &str| Ok::<_, CertificateError>(SanType::DnsName(name.try_into()?));
        let host = match host.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => name(host)?,
        };
        params.subject_alt_names = vec![name("localhost")?, host];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok((key.serialize_pem().into_bytes(), certificate.pem().into_bytes()))
    }
}

fn params(common_name: &str, begins: SystemTime, ends: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = OffsetDateTime::from(begins);
    params.not_after = OffsetDateTime::from(ends);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params
}

/// A key for signing. The original writes RSA keys without the wrapping that the library asks for.
fn signing_key(pem: &[u8]) -> Result<KeyPair, CertificateError> {
    let key = match private_key(pem)? {
        PrivateKeyDer::Pkcs1(rsa) => wrapped_rsa(rsa.secret_pkcs1_der()).into(),
        key => key,
    };
    Ok(KeyPair::try_from(&key)?)
}

/// PKCS#8 around PKCS#1: version 0, algorithm `rsaEncryption`, the key.
fn wrapped_rsa(pkcs1: &[u8]) -> PrivatePkcs8KeyDer<'static> {
    const HEAD: &[u8] = &[
        0x02, 0x01, 0x00, 0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
    ];
    let mut content = HEAD.to_vec();
    content.extend(der(0x04, pkcs1));
    der(0x30, &content).into()
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len().to_be_bytes();
    let digits: Vec<u8> = length.into_iter().skip_while(|digit| *digit == 0).collect();
    match digits.as_slice() {
        [] => out.push(0),
        [short] if *short < 0x80 => out.push(*short),
        digits => {
            out.push(0x80 | digits.len() as u8);
            out.extend_from_slice(digits);
        }
    }
    out.extend_from_slice(content);
    out
}

fn is_key_of(key: &KeyPair, certificate: &CertificateDer<'_>) -> bool {
    let Ok((_, parsed)) = x509_parser::parse_x509_certificate(certificate) else {
        return false;
    };
    parsed.public_key().raw == key.subject_public_key_info()
}
