//! What holds back a workload: its own strategy, its budgets, and what its last writes met.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Count, PodNames};

/// A workload that scales or updates its Pods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "reason")]
pub enum Rollout {
    /// The rollout is paused.
    Paused {
        /// Pods that would be updated.
        outdated: i32,
    },
    /// Pods are updated when the user deletes them.
    OnDelete {
        /// Pods that are not at the update revision.
        outdated: i32,
    },
    /// The partition keeps Pods at the old revision.
    Partition {
        /// Pods it keeps.
        keeps: i32,
    },
    /// New Pods wait: `scaleStrategy.maxUnavailable` allows no more that are not available.
    ScaleUpLimited {
        /// Pods that are missing.
        missing: i32,
        /// Pods that may be created now.
        limit: i32,
    },
    /// Pods to be updated wait: `maxUnavailable` allows no more that are not available.
    UpdateBudget {
        /// Pods that may be unavailable.
        allowed: i32,
        /// Pods that are.
        unavailable: i32,
        /// Pods that wait.
        waiting: i32,
    },
    /// Ready Pods to be deleted wait: too few are available.
    DeleteBudget {
        /// Ready Pods that may be deleted now.
        allowed: i32,
        /// Pods that wait.
        waiting: PodNames,
    },
    /// Scaling in waits for Pods that are already chosen for deletion.
    DeletionsUnderWay {
        /// Those Pods.
        pods: PodNames,
    },
    /// New Pods wait until old ones of the same name, whose claims they take over, are gone.
    NameTaken {
        /// The Pods.
        pods: PodNames,
    },
    /// Pods are replaced, because the change is not possible in place.
    Recreating {
        /// The Pods.
        pods: PodNames,
        /// What forbids an update in place: a field of the template, or another reason.
        because: String,
    },
    /// Pods cannot be updated: the change is not possible in place, and nothing else is allowed.
    NotInPlace {
        /// The Pods.
        pods: PodNames,
        /// What forbids an update in place.
        because: String,
    },
    /// Pods are left alone for a while, because their last update failed.
    BackOff {
        /// The Pods.
        pods: PodNames,
    },
    /// A PodUnavailableBudget refuses updates or deletions.
    BudgetRefused {
        /// The Pods.
        pods: PodNames,
    },
}

impl fmt::Display for Rollout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused { outdated } => write!(f, "The rollout is paused; not updated: {}.", Count(*outdated)),
            Self::OnDelete { outdated } => {
                write!(
                    f,
                    "Replaced when somebody deletes them (type OnDelete): {}.",
                    Count(*outdated)
                )
            }
            Self::Partition { keeps } => write!(f, "The partition keeps {} at the old revision.", Count(*keeps)),
            Self::ScaleUpLimited { missing, limit } => {
                let missing = Count(*missing);
                write!(
                    f,
                    "Missing: {missing}; scaleStrategy.maxUnavailable lets {limit} be created now."
                )
            }
            Self::UpdateBudget {
                allowed,
                unavailable,
                waiting,
            } => {
                let waiting = Count(*waiting);
                write!(
                    f,
                    "Still to be updated: {waiting}; unavailable now: {unavailable}, allowed: {allowed}."
                )
            }
            Self::DeleteBudget { allowed, waiting } => {
                write!(
                    f,
                    "Ready, and not deleted because maxUnavailable lets only {allowed} go now: {waiting}."
                )
            }
            Self::DeletionsUnderWay { pods } => write!(f, "Scaling in waits for the deletion of {pods}."),
            Self::NameTaken { pods } => {
                write!(
                    f,
                    "Coming back with their claims once the old Pods of these names are gone: {pods}."
                )
            }
            Self::Recreating { pods, because } => {
                write!(
                    f,
                    "Replaced, because an update in place is not possible ({because}): {pods}."
                )
            }
            Self::NotInPlace { pods, because } => {
                let reason = format!("an update in place is not possible ({because})");
                write!(
                    f,
                    "Not updated, because {reason} and the policy allows nothing else: {pods}."
                )
            }
            Self::BackOff { pods } => write!(f, "Left alone for a while, because the last update failed: {pods}."),
            Self::BudgetRefused { pods } => {
                write!(f, "A PodUnavailableBudget refuses to have these disturbed: {pods}.")
            }
        }
    }
}
