//! What a test needs of the API server and older ones do not have.
//!
//! A test that runs on any Kubernetes asks first and leaves out what cannot be there; the run tells at its end what was left out. The
//! default version has everything, so there nothing is.

use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

use anyhow::{Context, Result};

use crate::kubernetes::DEFAULT_VERSION;

/// Names the Kubernetes version that the tests run on, when it is not the default one.
pub const KUBERNETES: &str = "KRUISE_TEST_KUBERNETES";
/// Names the file that collects what is left out.
pub const LEFT_OUT: &str = "KRUISE_TEST_LEFT_OUT";

/// What came with some version of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Containers of a running Pod get other resources, through the subresource `resize`.
    Resize,
    /// `ValidatingAdmissionPolicy` in its first stable version.
    ValidatingAdmissionPolicy,
    /// `matchConditions` of webhooks in their first stable version.
    MatchConditions,
    /// Init containers that restart and stay.
    SidecarContainers,
    /// StatefulSets of Kubernetes whose ordinals begin anywhere, and whose Pods have a label with theirs.
    Ordinals,
    /// `matchLabelKeys` of topology spread constraints.
    MatchLabelKeys,
    /// Jobs that the API server's own controller leaves to somebody else: `managedBy`.
    JobManagedBy,
}

impl Feature {
    /// The number after `1.` of the first version that has it without being asked.
    fn since(self) -> u32 {
        match self {
            Self::Resize => 33,
            Self::JobManagedBy => 32,
            Self::ValidatingAdmissionPolicy | Self::MatchConditions => 30,
            Self::SidecarContainers => 29,
            Self::Ordinals => 28,
            Self::MatchLabelKeys => 27,
        }
    }

    fn is_in(self, version: &str) -> Result<bool> {
        let minor = version.split('.').nth(1).context("no minor version")?;
        Ok(minor.parse::<u32>()? >= self.since())
    }
}

/// The version that the tests run on.
pub fn version() -> String {
    std::env::var(KUBERNETES).unwrap_or_else(|_| DEFAULT_VERSION.to_owned())
}

/// Whether the API server lacks it. That the caller then leaves something out is told at the end of the run.
#[track_caller]
pub fn lacks(feature: Feature) -> bool {
    let version = version();
    if feature.is_in(&version).expect("a Kubernetes version") {
        return false;
    }
    let place = Location::caller();
    let line = format!(
        "{}:{}: {feature:?} came with Kubernetes 1.{}",
        place.file(),
        place.line(),
        feature.since()
    );
    eprintln!("left out: {line}");
    if let Some(file) = std::env::var_os(LEFT_OUT) {
        let written = OpenOptions::new()
            .append(true)
            .open(file)
            .and_then(|mut file| writeln!(file, "{line}"));
        written.expect("the list of what is left out can be written");
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_version_lacks_nothing_and_older_ones_do() {
        for feature in [
            Feature::Resize,
            Feature::ValidatingAdmissionPolicy,
            Feature::MatchConditions,
            Feature::SidecarContainers,
            Feature::JobManagedBy,
        ] {
            assert!(feature.is_in(DEFAULT_VERSION).unwrap(), "{feature:?}");
            assert!(!feature.is_in("1.28.15").unwrap(), "{feature:?}");
        }
        assert!(!Feature::Ordinals.is_in("1.27.16").unwrap());
        assert!(Feature::ValidatingAdmissionPolicy.is_in("1.32.13").unwrap());
        assert!(!Feature::Resize.is_in("1.32.13").unwrap());
        assert!(Feature::Resize.is_in("latest").is_err());
    }
}
