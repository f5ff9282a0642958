//! What a PodUnavailableBudget keeps from happening.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::PodNames;

/// A budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "reason")]
pub enum Budgets {
    /// No further Pod may become unavailable.
    Exhausted {
        /// Pods that must stay available.
        desired: i32,
        /// Pods that are.
        available: i32,
        /// Pods that were granted a place and are not seen to go yet.
        granted: PodNames,
    },
    /// Pods that it would cover belong to another budget.
    OfOthers {
        /// The Pods.
        pods: PodNames,
    },
}

impl fmt::Display for Budgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted {
                desired,
                available,
                granted,
            } => {
                write!(
                    f,
                    "No Pod may be disturbed now: available {available}, at least {desired} have to be."
                )?;
                if !granted.is_empty() {
                    write!(f, " Granted a moment ago: {granted}.")?;
                }
                Ok(())
            }
            Self::OfOthers { pods } => write!(f, "Counted here, but protected by another budget: {pods}."),
        }
    }
}
