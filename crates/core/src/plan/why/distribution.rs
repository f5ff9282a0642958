//! What keeps the copies of a ResourceDistribution from namespaces.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::PodNames;

/// Copies that are not there. Namespaces are listed as Pods are: the first few, and how many more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "reason")]
pub enum Distribution {
    /// Namespaces are missing, or on their way out.
    NamespacesMissing {
        /// The namespaces.
        namespaces: PodNames,
    },
    /// Objects of the same kind and name are in the way, and are left alone.
    ForeignObjects {
        /// The object, by kind and name.
        object: String,
        /// The namespaces.
        namespaces: PodNames,
    },
    /// The API server refused copies.
    CopiesRefused {
        /// What it said last.
        message: String,
        /// The namespaces.
        namespaces: PodNames,
    },
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NamespacesMissing { namespaces } => {
                write!(f, "Namespaces that do not exist or are terminating: {namespaces}.")
            }
            Self::ForeignObjects { object, namespaces } => write!(
                f,
                "There is another {object} already, which is left alone, in: {namespaces}."
            ),
            Self::CopiesRefused { message, namespaces } => {
                write!(
                    f,
                    "Copies that could not be written: {namespaces}. The last error: {message}"
                )
            }
        }
    }
}
