//! Looking at certificates: whom they are for, how long they last, who signed them.

use super::{Artifacts, CertificateError};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use rustls::{
    crypto::ring::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    sign::CertifiedKey,
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage, anchor_from_trusted_cert};

/// All certificates of a PEM text, in their order.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| CertificateError::Pem(error.to_string()))
}

/// The key of a PEM text, in whatever encoding.
pub(super) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, CertificateError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| CertificateError::Pem(error.to_string()))
}

/// Certificate and key as the server shows them. Fails when they do not belong together.
pub(super) fn certified_key(artifacts: &Artifacts) -> Result<Arc<CertifiedKey>, CertificateError> {
    let chain = certificates(&artifacts.certificate)?;
    if chain.is_empty() {
        return Err(CertificateError::Missing);
    }
    let key = any_supported_type(&private_key(&artifacts.key)?).map_err(CertificateError::Key)?;
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match().map_err(CertificateError::Key)?;
    Ok(Arc::new(certified))
}

/// A certificate chain that clients accept.
#[derive(Debug)]
pub(crate) struct Trusted {
    pub(crate) certified: Arc<CertifiedKey>,
    /// The CA that signed it.
    pub(crate) ca: CertificateDer<'static>,
    /// When the certificate or its CA ends, whichever comes first.
    pub(crate) ends: SystemTime,
    pub(crate) ca_ends: SystemTime,
}

/// Whether a client that trusts the bundle accepts the certificate for this host at this time.
pub(crate) fn trusted(artifacts: &Artifacts, host: &str, at: SystemTime) -> Result<Trusted, CertificateError> {
    let certified = certified_key(artifacts)?;
    trusted_by(&certified, &artifacts.ca_bundle, host, at)
}

/// As [`trusted`], for a certificate and a bundle that are not of the same place.
pub(super) fn trusted_by(
    certified: &Arc<CertifiedKey>,
    bundle: &[u8],
    host: &str,
    at: SystemTime,
) -> Result<Trusted, CertificateError> {
    let [leaf, intermediates @ ..] = certified.cert.as_slice() else {
        return Err(CertificateError::Missing);
    };
    let wrong = |error: webpki::Error| CertificateError::NotTrusted(error.to_string());
    let end_entity = EndEntityCert::try_from(leaf).map_err(wrong)?;
    let name = ServerName::try_from(host.to_owned()).map_err(|_| CertificateError::Host(host.to_owned()))?;
    end_entity.verify_is_valid_for_subject_name(&name).map_err(wrong)?;
    let time = UnixTime::since_unix_epoch(at.duration_since(UNIX_EPOCH).unwrap_or_default());
    let mut reason = CertificateError::NotTrusted("there is no CA".to_owned());
    for ca in certificates(bundle)? {
        let ca_ends = ends(&ca)?;
        let anchors = [anchor_from_trusted_cert(&ca).map_err(wrong)?];
        let verified = end_entity.verify_for_usage(
            ALL_VERIFICATION_ALGS,
            &anchors,
            intermediates,
            time,
            KeyUsage::server_auth(),
            None,
            None,
        );
        match verified.map(|_| ()) {
            Ok(()) if ca_ends <= at => reason = CertificateError::NotTrusted("the CA has ended".to_owned()),
            Ok(()) => {
                return Ok(Trusted {
                    certified: certified.clone(),
                    ends: ends(leaf)?.min(ca_ends),
                    ca,
                    ca_ends,
                });
            }
            Err(error) => reason = wrong(error),
        }
    }
    Err(reason)
}

/// When a certificate ends.
pub(super) fn ends(certificate: &CertificateDer<'_>) -> Result<SystemTime, CertificateError> {
    Ok(validity(certificate)?.1)
}

/// When a certificate begins and ends.
pub(super) fn validity(certificate: &CertificateDer<'_>) -> Result<(SystemTime, SystemTime), CertificateError> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
        .map_err(|error| CertificateError::NotTrusted(error.to_string()))?;
    let time = |stamp: i64| UNIX_EPOCH + Duration::from_secs(u64::try_from(stamp).unwrap_or_default());
    let validity = parsed.validity();
    Ok((
        time(validity.not_before.timestamp()),
        time(validity.not_after.timestamp()),
    ))
}

/// A certificate as PEM.
pub(super) fn pem(certificate: &CertificateDer<'_>) -> Vec<u8> {
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    let base64 = BASE64.encode(certificate);
    let mut rest = base64.as_str();
    while let Some((line, following)) = rest.split_at_checked(64) {
        text.push_str(line);
        text.push('\n');
        rest = following;
    }
    if !rest.is_empty() {
        text.push_str(rest);
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text.into_bytes()
}
