//! What holds an object back, for machines and, as a sentence, for people.
//!
//! Reasons that hold for many Pods name the first few and count the rest ([`PodNames`]), so that a plan for thousands
//! of Pods stays readable.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Phase;

/// Why not more is done now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "reason")]
pub enum Why {
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
    /// Pods wait for somebody to act on a lifecycle hook.
    HookWaiting {
        /// The hook.
        hook: Hook,
        /// The Pods.
        pods: PodNames,
    },
    /// New Pods wait until old ones of the same name, whose claims they take over, are gone.
    NameTaken {
        /// The Pods.
        pods: PodNames,
    },
    /// New Pods wait for a node.
    NotScheduled {
        /// The Pods.
        pods: PodNames,
    },
    /// Pods are not ready, or not for long enough.
    NotAvailable {
        /// The Pods.
        pods: PodNames,
    },
    /// A Pod is not changed before its grace period ends.
    InGrace {
        /// The Pods.
        pods: PodNames,
        /// When the first grace period ends.
        until: Timestamp,
    },
    /// Containers have not been restarted with their new image, environment or resources.
    WaitingForContainers {
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
    /// What a Pod carries about its update cannot be read.
    Unreadable {
        /// The Pods.
        pods: PodNames,
        /// What is wrong.
        message: String,
    },
    /// Pods cannot be read at all. As long as it is not known what they are, none is created or deleted.
    PodsUnreadable {
        /// The Pods.
        pods: PodNames,
    },
    /// Pods are left alone for a while, because their last update failed.
    BackOff {
        /// The Pods.
        pods: PodNames,
    },
    /// A PodUnavailableBudget refuses updates.
    BudgetRefused {
        /// The Pods.
        pods: PodNames,
    },
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

/// A moment at which a Pod waits for somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Hook {
    /// Before the Pod is deleted: somebody has to remove its labels or finalizers.
    PreDelete,
    /// Before it is updated in place: the same.
    PreUpdate,
    /// After it was updated in place: somebody has to put them back.
    PostUpdate,
    /// Before a new Pod counts as available: somebody has to put them on.
    PreNormal,
}

impl Hook {
    fn explained(self) -> (&'static str, &'static str) {
        match self {
            Self::PreDelete => ("preDelete", "to be removed before the deletion"),
            Self::PreUpdate => ("inPlaceUpdate", "to be removed before the update"),
            Self::PostUpdate => ("inPlaceUpdate", "to be put back after the update"),
            Self::PreNormal => ("preNormal", "to be put on"),
        }
    }
}

/// Pods by name: the first few, and how many more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodNames {
    /// The first few, in the order in which they were added.
    pub names: Vec<String>,
    /// How many more there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl PodNames {
    const SHOWN: usize = 10;

    /// Adds a Pod.
    pub fn push(&mut self, name: &str) {
        if self.names.len() < Self::SHOWN {
            self.names.push(name.to_owned());
        } else {
            self.more += 1;
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.names.len() + self.more
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl<'a> FromIterator<&'a str> for PodNames {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        let mut pods = Self::default();
        for name in names {
            pods.push(name);
        }
        pods
    }
}

/// `a, b and 3 more`.
impl fmt::Display for PodNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join(", "))?;
        if self.more > 0 {
            write!(f, " and {} more", self.more)?;
        }
        Ok(())
    }
}

/// `1 Pod`, `2 Pods`.
struct Count(i32);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Pod{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

impl fmt::Display for Why {
    #[expect(clippy::too_many_lines, reason = "one sentence each, and nothing else")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleting => write!(f, "It is being deleted; what it owns follows."),
            Self::Invalid { message } => write!(f, "It cannot be worked on: {message}."),
            Self::CacheBehind { object, writes } => {
                write!(f, "Own writes that are not visible yet: {writes}, {object} first.")
            }
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
            Self::HookWaiting { hook, pods } => {
                let (name, what) = hook.explained();
                write!(
                    f,
                    "Waiting for the {name} hook, whose labels or finalizers have {what}: {pods}."
                )
            }
            Self::NameTaken { pods } => {
                write!(
                    f,
                    "Coming back with their claims once the old Pods of these names are gone: {pods}."
                )
            }
            Self::NotScheduled { pods } => write!(f, "Without a node: {pods}."),
            Self::NotAvailable { pods } => write!(f, "Not available: {pods}."),
            Self::InGrace { pods, until } => write!(f, "In the grace period, the first until {until}: {pods}."),
            Self::WaitingForContainers { pods } => {
                write!(f, "Containers do not run yet as the update wants them: {pods}.")
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
            Self::Unreadable { pods, message } => write!(f, "Not worked on, because of {message}: {pods}."),
            Self::PodsUnreadable { pods } => {
                write!(f, "No Pod is created or deleted while these cannot be read: {pods}.")
            }
            Self::BackOff { pods } => write!(f, "Left alone for a while, because the last update failed: {pods}."),
            Self::BudgetRefused { pods } => write!(f, "A PodUnavailableBudget refuses the update of {pods}."),
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
            Self::Done { until: Some(until) } => write!(f, "It is done, and deleted at {until}."),
            Self::Done { until: None } => write!(f, "It is done."),
            Self::Failed { object, message, .. } => write!(f, "The last write of {object} failed: {message}"),
        }
    }
}
