//! What a workload waits for of its Pods' claims.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::PodNames;

/// Claims that hold up their Pods, or cannot follow their template. They are listed as Pods are: the first few, and how many more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "reason")]
pub enum Claims {
    /// Pods are not created, and do not start, while their claims are being deleted.
    ClaimsTerminating {
        /// The claims.
        claims: PodNames,
    },
    /// Pods are not created while the claims under their names go with what owned them before.
    ClaimsStale {
        /// The claims.
        claims: PodNames,
    },
    /// Claims under the wanted names are managed by somebody else; they are used and left as they are.
    ClaimsOfOthers {
        /// The claims.
        claims: PodNames,
    },
    /// Claims have no volume.
    ClaimsNotBound {
        /// The claims.
        claims: PodNames,
    },
    /// Claims are on their way to a new size.
    ClaimsGrowing {
        /// The claims.
        claims: PodNames,
    },
    /// Volumes have grown, and their file systems do so when their Pods start the next time.
    ClaimsNeedRestart {
        /// The claims.
        claims: PodNames,
    },
    /// A claim cannot follow its template.
    ClaimNotExpandable {
        /// The claim.
        claim: String,
        /// What forbids it.
        message: String,
    },
}

impl fmt::Display for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClaimsTerminating { claims } => {
                write!(f, "Claims that are being deleted, and that Pods wait for: {claims}.")
            }
            Self::ClaimsStale { claims } => {
                write!(
                    f,
                    "Pods are not created before claims of their predecessors are collected: {claims}."
                )
            }
            Self::ClaimsOfOthers { claims } => {
                write!(f, "Managed by somebody else, and left as they are: {claims}.")
            }
            Self::ClaimsNotBound { claims } => write!(f, "Claims without a volume: {claims}."),
            Self::ClaimsGrowing { claims } => write!(f, "Claims that do not have their new size yet: {claims}."),
            Self::ClaimsNeedRestart { claims } => {
                write!(
                    f,
                    "Claims whose file system grows when their Pod starts the next time: {claims}."
                )
            }
            Self::ClaimNotExpandable { claim, message } => {
                write!(f, "Claim {claim} cannot follow its template: {message}.")
            }
        }
    }
}
