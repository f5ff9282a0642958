//! What can hold back an object of any kind.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::plan::Phase;

/// An object of any kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "reason")]
pub enum General {
    /// The object is on its way out.
    Deleting,
    /// The object cannot be understood.
    Invalid {
        /// What is wrong with it.
        message: String,
    },
    /// The cache does not show all of our own writes yet.
    CacheBehind {
        /// The object that is waited for.
        object: String,
        /// Writes that are not visible.
        writes: usize,
    },
    /// It is done, and kept for a while.
    Done {
        /// When it is deleted; not at all when not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// The last writes failed.
    Failed {
        /// What they were for.
        phase: Phase,
        /// The object.
        object: String,
        /// The server's message.
        message: String,
    },
}

impl fmt::Display for General {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleting => write!(f, "It is being deleted; what it owns follows."),
            Self::Invalid { message } => write!(f, "It cannot be worked on: {message}."),
            Self::CacheBehind { object, writes } => {
                write!(f, "Own writes that are not visible yet: {writes}, {object} first.")
            }
            Self::Done { until: Some(until) } => write!(f, "It is done, and deleted at {until}."),
            Self::Done { until: None } => write!(f, "It is done."),
            Self::Failed { object, message, .. } => write!(f, "The last write of {object} failed: {message}"),
        }
    }
}
