//! What holds back pulls of images, and other work of the daemons.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Work that the daemons of nodes do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "reason")]
pub enum Images {
    /// Nodes pull, and others wait for their turn.
    Pulling {
        /// Nodes that pull.
        active: i32,
        /// Nodes that wait.
        waiting: i32,
        /// Nodes that may pull at the same time.
        parallelism: i32,
    },
    /// A Secret that is named is not there.
    SecretMissing {
        /// Its name.
        secret: String,
    },
    /// A Secret that is named is not for a registry.
    SecretNotForRegistry {
        /// Its name.
        secret: String,
    },
    /// The namespace that daemons read Secrets of is missing, or on its way out.
    NamespaceMissing {
        /// Its name.
        namespace: String,
    },
    /// The node's daemon has not answered.
    DaemonSilent {
        /// How long it is waited for.
        until: Timestamp,
    },
}

impl fmt::Display for Images {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pulling {
                active,
                waiting,
                parallelism,
            } => write!(
                f,
                "Nodes that pull: {active}, that wait: {waiting}; allowed at the same time: {parallelism}."
            ),
            Self::SecretMissing { secret } => write!(f, "Secret {secret} is not there; going on without it."),
            Self::SecretNotForRegistry { secret } => {
                write!(f, "Secret {secret} is not of a Docker type; going on without it.")
            }
            Self::NamespaceMissing { namespace } => {
                write!(
                    f,
                    "Namespace {namespace}, where daemons read pull Secrets, does not exist or is terminating; no node is asked."
                )
            }
            Self::DaemonSilent { until } => {
                write!(f, "The daemon of the node has not answered; waited for until {until}.")
            }
        }
    }
}
