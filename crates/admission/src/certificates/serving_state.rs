//! Which certificate is shown to clients, and which CAs they are told to trust.
//!
//! A certificate is shown at once when clients can accept it already: it is the first one, or it comes from a CA that they were told of. Otherwise the
//! new bundle is handed out first, together with the CA of the certificate that is shown, and the exchange waits. After it, the
//! old CA stays in the bundle for as long again, because other replicas exchange theirs at another moment.

use super::{
    Artifacts, CertificateError, Trusted,
    x509::{certificates, certified_key, pem, trusted, trusted_by},
};
use rustls::pki_types::CertificateDer;
use std::time::{Duration, Instant, SystemTime};

/// What is shown now.
#[derive(Debug)]
pub(crate) struct ServingState {
    host: String,
    /// How long a bundle is handed out before a certificate relies on it.
    overlap: Duration,
    shown: Option<Shown>,
    /// What is to be shown next, and since when its bundle is handed out.
    next: Option<(Artifacts, Instant)>,
    /// A CA that was in use until recently, and until when it is handed out.
    retired: Option<(CertificateDer<'static>, Instant)>,
}

#[derive(Debug)]
struct Shown {
    /// With the bundle that came with it, or after it.
    artifacts: Artifacts,
    trusted: Trusted,
}

impl ServingState {
    pub(crate) fn new(host: String, overlap: Duration) -> Self {
        Self {
            host,
            overlap,
            shown: None,
            next: None,
            retired: None,
        }
    }

    /// What is shown now.
    pub(crate) fn shown(&self) -> Option<&Artifacts> {
        self.shown.as_ref().map(|shown| &shown.artifacts)
    }

    /// The CA bundle to hand out, given what is kept.
    pub(crate) fn bundle(&mut self, kept: &Artifacts, now: Instant) -> Vec<u8> {
        self.retired.take_if(|(_, until)| *until <= now);
        let mut bundle = kept.ca_bundle.clone();
        let mut known = certificates(&bundle).unwrap_or_default();
        let shown = self.shown.as_ref().map(|shown| &shown.trusted.ca);
        for old in shown.into_iter().chain(self.retired.as_ref().map(|(ca, _)| ca)) {
            if !known.contains(old) {
                if !bundle.ends_with(b"\n") {
                    bundle.push(b'\n');
                }
                bundle.extend(pem(old));
                known.push(old.clone());
            }
        }
        bundle
    }

    /// To be called when the bundle has been injected. Returns what to show from now on, if that is something new, and when to come back.
    pub(crate) fn injected(
        &mut self,
        kept: &Artifacts,
        wall: SystemTime,
        now: Instant,
    ) -> Result<(Option<&Trusted>, Option<Duration>), CertificateError> {
        let until_retired =
            |retired: &Option<(_, Instant)>| retired.as_ref().map(|(_, until)| until.duration_since(now));
        let Some(shown) = &mut self.shown else {
            return self.show(kept, wall).map(|trusted| (Some(trusted), None));
        };
        if shown.artifacts.certificate == kept.certificate && shown.artifacts.key == kept.key {
            shown.artifacts = kept.clone();
            self.next = None;
            return Ok((None, until_retired(&self.retired)));
        }
        let accepted = trusted_by(&certified_key(kept)?, &shown.artifacts.ca_bundle, &self.host, wall).is_ok();
        let still_good = trusted(&shown.artifacts, &self.host, wall).is_ok();
        if !accepted && still_good {
            let since = match &self.next {
                Some((next, since)) if next == kept => *since,
                _ => now,
            };
            let waited = now.duration_since(since);
            if waited < self.overlap {
                self.next = Some((kept.clone(), since));
                return Ok((None, Some(self.overlap.saturating_sub(waited))));
            }
        }
        let old = shown.trusted.ca.clone();
        if !certificates(&kept.ca_bundle)?.contains(&old) {
            self.retired = Some((old, now + self.overlap));
        }
        self.next = None;
        let wake = until_retired(&self.retired);
        self.show(kept, wall).map(|trusted| (Some(trusted), wake))
    }

    fn show(&mut self, artifacts: &Artifacts, wall: SystemTime) -> Result<&Trusted, CertificateError> {
        let trusted = trusted(artifacts, &self.host, wall)?;
        let shown = self.shown.insert(Shown {
            trusted,
            artifacts: artifacts.clone(),
        });
        Ok(&shown.trusted)
    }
}

#[cfg(test)]
mod tests;
