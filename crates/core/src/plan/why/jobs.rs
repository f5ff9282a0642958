//! What holds back jobs: those that run on nodes, by the clock, and in Pods that are there.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::PodNames;

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "reason")]
pub enum Jobs {
    /// Pods run, and other nodes wait for their turn.
    JobRunning {
        /// Pods that run.
        active: i32,
        /// Nodes that wait.
        waiting: i32,
        /// Pods that may run at the same time.
        parallelism: i64,
    },
    /// Its user paused it.
    JobPaused,
    /// Its failure policy paused it.
    PausedByFailure {
        /// The Pods that failed.
        pods: PodNames,
    },
    /// Its failure policy or its deadline ended it, and it is never complete.
    JobFailed,
    /// There is no node for it.
    NoNodeFits,
    /// Nodes on which it does not run.
    NodesUnfit {
        /// Why not.
        cause: String,
        /// The nodes.
        nodes: PodNames,
    },
    /// Waits for its next time.
    NextRun {
        /// The time.
        at: Timestamp,
    },
    /// Its schedule has no next time.
    NeverDue,
    /// So many times were missed that nothing is started.
    MissedTooMany,
    /// A time was missed and is too long ago.
    MissedTooLate {
        /// The time.
        at: Timestamp,
    },
    /// An earlier job still runs, and no other may beside it.
    StillRuns {
        /// The jobs.
        jobs: PodNames,
        /// The time for which one is due.
        due: Timestamp,
    },
    /// Pods count as failed, and the job waits for their end all the same.
    FailedNotEnded {
        /// The Pods.
        pods: PodNames,
    },
    /// Containers run in Pods, and other Pods wait for their turn.
    ContainersRunning {
        /// Pods in which they run or are about to.
        running: i32,
        /// Pods that wait.
        waiting: i32,
        /// Pods in which they may run at the same time.
        parallelism: i32,
    },
    /// There is no Pod for it.
    NoPodChosen,
    /// It asks for more Pods than there are.
    TooFewPods {
        /// Pods that there are.
        matched: i32,
        /// Pods that it asks for.
        replicas: i32,
    },
    /// Pods have a container of one of these names from elsewhere.
    NameTaken {
        /// The names.
        containers: Vec<String>,
        /// The Pods.
        pods: PodNames,
    },
    /// Containers cannot start.
    CannotStart {
        /// Why not, in one word.
        cause: String,
        /// The Pods.
        pods: PodNames,
    },
    /// Containers failed.
    ContainersFailed {
        /// The Pods.
        pods: PodNames,
    },
}

impl fmt::Display for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JobRunning {
                active,
                waiting,
                parallelism,
            } => write!(
                f,
                "Pods that run: {active}, nodes that wait for their turn: {waiting}; allowed at the same time: {parallelism}."
            ),
            Self::JobPaused => write!(f, "It is paused by spec.paused; its deadline does not count meanwhile."),
            Self::PausedByFailure { pods } => write!(
                f,
                "Its failure policy paused it; delete the failed Pods or change the policy: {pods}."
            ),
            Self::JobFailed => write!(f, "It has failed."),
            Self::NoNodeFits => write!(f, "No node fits; a job without nodes is never complete."),
            Self::NodesUnfit { cause, nodes } => write!(f, "Not on these nodes, because {cause}: {nodes}."),
            Self::NextRun { at } => write!(f, "The next start is at {at}."),
            Self::NeverDue => write!(f, "Its schedule names no time within five years; it is never started."),
            Self::MissedTooMany => write!(
                f,
                "More than 100 start times were missed, so nothing is started; set or lower spec.startingDeadlineSeconds."
            ),
            Self::MissedTooLate { at } => write!(f, "The start at {at} was missed, and it is too late for it."),
            Self::StillRuns { jobs, due } => {
                write!(
                    f,
                    "The start of {due} waits for the end of {jobs} (concurrencyPolicy Forbid)."
                )
            }
            Self::FailedNotEnded { pods } => write!(
                f,
                "Restarted more often than restartLimit and counted as failed, but they have not ended: {pods}."
            ),
            Self::ContainersRunning {
                running,
                waiting,
                parallelism,
            } => write!(
                f,
                "Pods in which its containers run: {running}, Pods that wait for their turn: {waiting}; allowed at the same time: {parallelism}."
            ),
            Self::NoPodChosen => write!(f, "No Pod is chosen; it waits for one that its selector matches."),
            Self::TooFewPods { matched, replicas } => write!(
                f,
                "It asks for {replicas} Pods and there are {matched}; without the others it never succeeds."
            ),
            Self::NameTaken { containers, pods } => write!(
                f,
                "Left out, because they have a container of one of its names ({}) from elsewhere: {pods}.",
                containers.join(", ")
            ),
            Self::CannotStart { cause, pods } => write!(f, "Containers cannot start ({cause}) in {pods}."),
            Self::ContainersFailed { pods } => write!(
                f,
                "Containers failed in {pods}; as long as they have not failed in every Pod the job goes on until its deadline."
            ),
        }
    }
}
