//! The certificates of the webhook server: where they are kept, when they are renewed, and when they are shown.
//!
//! **Kept.** The Secret has six keys (`ca-key.pem`, `ca-cert.pem`, `key.pem` = `tls.key`, `cert.pem` = `tls.crt`), the same as the original's, so that
//! either program can go on with what the other left. With store `fs` they are only in the certificate directory: for a single
//! replica. With gate `EnableExternalCerts` somebody else fills the Secret (`ca.crt`, `tls.crt`, `tls.key`) and we only read it.
//!
//! **Good.** Key and certificate belong together, the certificate chains to the CA in the Secret and is for our host, and all of it will still be
//! so at the time of renewal (180 days from now unless configured otherwise).
//!
//! **Renewed.** What is not good is replaced, by compare-and-swap on the Secret: of several replicas one wins and the others take its result. A CA that is
//! good for another year signs again, so that the CA bundle stays as it is; otherwise there is a new CA. New keys are ECDSA P-256 (the original's
//! are RSA 2048, which we use as long as they are good).
//!
//! **Changed without a gap.** A new CA is added to the bundle in front of the old one. API servers have to learn the bundle before they can accept
//! a certificate of the new CA, so each replica goes on showing the old certificate for a while ([`serving_state`]). The old CA leaves the bundle
//! some time later.

mod directory;
mod issue;
mod renewal;
mod serving_state;
mod store;
mod x509;

pub(crate) use directory::write as write_directory;
pub(crate) use issue::CertificateError;
pub(crate) use renewal::{Decision, Renewal};
pub(crate) use serving_state::ServingState;
pub(crate) use store::{Store, StoreError};
pub(crate) use x509::Trusted;

use kruise_api::names::object::cert_key;
use std::{collections::BTreeMap, fmt};

/// What a Secret or a directory holds, all in PEM.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Artifacts {
    /// Key of the first CA of the bundle; empty when we are not to sign.
    pub(crate) ca_key: Vec<u8>,
    /// The CA that signs, then older ones.
    pub(crate) ca_bundle: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) certificate: Vec<u8>,
}

impl Artifacts {
    /// Reads the layout of the Secret and the directory. What is missing is empty.
    pub(crate) fn read(mut get: impl FnMut(&str) -> Option<Vec<u8>>) -> Self {
        let mut first = |names: [&str; 2]| names.iter().find_map(|name| get(name)).unwrap_or_default();
        let key = first([cert_key::SERVER_KEY, cert_key::TLS_KEY]);
        let certificate = first([cert_key::SERVER_CERT, cert_key::TLS_CERT]);
        Self {
            ca_key: get(cert_key::CA_KEY).unwrap_or_default(),
            ca_bundle: get(cert_key::CA_CERT).unwrap_or_default(),
            key,
            certificate,
        }
    }

    /// Reads the layout of external certificates.
    pub(crate) fn read_external(mut get: impl FnMut(&str) -> Option<Vec<u8>>) -> Self {
        let mut get = |name| get(name).unwrap_or_default();
        Self {
            ca_key: get(cert_key::EXTERNAL_CA_KEY),
            ca_bundle: get(cert_key::EXTERNAL_CA_CERT),
            key: get(cert_key::TLS_KEY),
            certificate: get(cert_key::TLS_CERT),
        }
    }

    /// What a server needs: with the key of the CA somebody could make certificates that everybody trusts.
    pub(crate) fn without_ca_key(self) -> Self {
        Self {
            ca_key: Vec::new(),
            ..self
        }
    }

    /// The six entries of the Secret and the directory.
    pub(crate) fn entries(&self) -> BTreeMap<&'static str, &[u8]> {
        BTreeMap::from([
            (cert_key::CA_KEY, self.ca_key.as_slice()),
            (cert_key::CA_CERT, self.ca_bundle.as_slice()),
            (cert_key::SERVER_KEY, self.key.as_slice()),
            (cert_key::SERVER_CERT, self.certificate.as_slice()),
            (cert_key::TLS_KEY, self.key.as_slice()),
            (cert_key::TLS_CERT, self.certificate.as_slice()),
        ])
    }
}

impl fmt::Debug for Artifacts {
    /// Keys are never shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Artifacts")
            .field("ca_bundle", &String::from_utf8_lossy(&self.ca_bundle))
            .field("certificate", &String::from_utf8_lossy(&self.certificate))
            .finish_non_exhaustive()
    }
}
