//! Whether what is kept is still good, and what to keep instead.

use super::{
    Artifacts, CertificateError,
    issue::{Ca, LIFE},
    x509::{certificates, certified_key, pem, trusted, validity},
};
use std::time::{Duration, SystemTime};

/// A CA has to be good for this long to sign once more.
const CA_MARGIN: Duration = Duration::from_hours(24 * 365);

/// The rules of one installation.
#[derive(Debug, Clone)]
pub(crate) struct Renewal {
    /// Host by which the API server calls us.
    pub(crate) host: String,
    /// How long before their end certificates are renewed.
    pub(crate) before: Duration,
    /// How long after a new CA has signed the old one stays in the bundle.
    pub(crate) keep_old_ca: Duration,
}

/// What to do with what is kept.
#[derive(Debug, PartialEq)]
pub(crate) enum Decision {
    /// It is good. Look again after this time at the latest.
    Keep(Option<Duration>),
    /// Keep this instead, for this reason.
    Replace(Box<Artifacts>, String),
}

impl Renewal {
    /// Decides about what is kept now; `shown` is what this replica shows to clients.
    pub(crate) fn decide(
        &self,
        kept: &Artifacts,
        shown: Option<&Artifacts>,
        now: SystemTime,
    ) -> Result<Decision, CertificateError> {
        // Asking for more than what a new certificate has would never be content.
        let before = self.before.min(LIFE / 2);
        let ca_margin = before.max(CA_MARGIN);
        let good = trusted(kept, &self.host, now + before).and_then(|trusted| {
            if trusted.ca_ends <= now + CA_MARGIN {
                return Err(CertificateError::NotTrusted("the CA ends within a year".to_owned()));
            }
            Ok(trusted)
        });
        let reason = match good {
            Ok(_) => return self.forget_old_ca(kept, now),
            Err(reason) => reason.to_string(),
        };
        let reusable = Ca::existing(kept)
            .ok()
            .filter(|_| first_ca_lasts(kept, now + ca_margin));
        let (ca, ca_bundle) = if let Some(ca) = reusable {
            (ca, kept.ca_bundle.clone())
        } else {
            let ca = Ca::new(now)?;
            let bundle = with_old_cas(&ca.cert_pem, kept, shown, now);
            (ca, bundle)
        };
        let (key, certificate) = ca.issue(&self.host, now)?;
        let artifacts = Artifacts {
            ca_key: ca.key_pem,
            ca_bundle,
            key,
            certificate,
        };
        Ok(Decision::Replace(Box::new(artifacts), reason))
    }

    /// Takes older CAs out of the bundle when nobody can show a certificate of theirs any more.
    fn forget_old_ca(&self, kept: &Artifacts, now: SystemTime) -> Result<Decision, CertificateError> {
        let bundle = certificates(&kept.ca_bundle)?;
        let certified = certified_key(kept)?;
        let (Some(leaf), [first, _, ..]) = (certified.cert.first(), bundle.as_slice()) else {
            return Ok(Decision::Keep(None));
        };
        let first_only = Artifacts {
            ca_bundle: pem(first),
            ..kept.clone()
        };
        if trusted(&first_only, &self.host, now).is_err() {
            // Somebody else's bundle, in an order of its own.
            return Ok(Decision::Keep(None));
        }
        let issued = validity(leaf)?.1 - LIFE;
        let age = now.duration_since(issued).unwrap_or_default();
        Ok(match self.keep_old_ca.checked_sub(age) {
            Some(rest) if !rest.is_zero() => Decision::Keep(Some(rest)),
            _ => Decision::Replace(Box::new(first_only), "the old CA is no longer needed".to_owned()),
        })
    }
}

fn first_ca_lasts(kept: &Artifacts, until: SystemTime) -> bool {
    let bundle = certificates(&kept.ca_bundle).unwrap_or_default();
    let first = bundle.first().and_then(|first| validity(first).ok());
    first.is_some_and(|(_, ends)| ends > until)
}

/// The new CA, then those that other replicas may still need: of what is kept, and of what we show.
fn with_old_cas(new: &[u8], kept: &Artifacts, shown: Option<&Artifacts>, now: SystemTime) -> Vec<u8> {
    let mut bundle = new.to_vec();
    let mut known = Vec::new();
    for artifacts in std::iter::once(kept).chain(shown) {
        for old in certificates(&artifacts.ca_bundle).unwrap_or_default() {
            let lasts = validity(&old).is_ok_and(|(_, ends)| ends > now);
            if lasts && !known.contains(&old) {
                bundle.extend(pem(&old));
                known.push(old);
            }
        }
    }
    bundle
}

#[cfg(test)]
mod tests;
