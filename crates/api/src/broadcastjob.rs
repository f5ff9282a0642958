//! BroadcastJob: one Pod on every fitting node, run to completion. Both versions have the same shape.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::raw::PodTemplate;
use crate::registry::{Column, KindInfo, VersionInfo};
use crate::shared::IntOrPercent;
use crate::shared::completion::CompletionPolicy;
use crate::shared::conditions::JobCondition;

/// The registry's entry.
pub const KIND: KindInfo = KindInfo {
    short_names: &["bcj"],
    ..KindInfo::of::<v1beta1::BroadcastJob>(&[
        VersionInfo::of::<v1alpha1::BroadcastJob>(COLUMNS),
        VersionInfo::of::<v1beta1::BroadcastJob>(COLUMNS),
    ])
};

const COLUMNS: &[Column] = &[
    Column::integer("Desired", ".status.desired"),
    Column::integer("Active", ".status.active"),
    Column::integer("Succeeded", ".status.succeeded"),
    Column::integer("Failed", ".status.failed"),
    Column::AGE,
];

/// Version v1alpha1.
pub mod v1alpha1 {
    use super::{BroadcastJobSpec, BroadcastJobStatus};

    kind! {
        /// Runs one Pod to completion on every node that fits.
        pub struct BroadcastJob {
            group: apps, version: v1alpha1, plural: "broadcastjobs", scope: Namespaced,
            spec: BroadcastJobSpec, status: BroadcastJobStatus,
        }
    }
}

/// Version v1beta1.
pub mod v1beta1 {
    use super::{BroadcastJobSpec, BroadcastJobStatus};

    kind! {
        /// Runs one Pod to completion on every node that fits.
        pub struct BroadcastJob {
            group: apps, version: v1beta1, plural: "broadcastjobs", scope: Namespaced,
            spec: BroadcastJobSpec, status: BroadcastJobStatus,
        }
    }
}

words! {
    /// What happens when a Pod fails.
    pub enum FailurePolicyType {
        /// The job fails and its active Pods are deleted.
        FailFast,
        /// The other nodes go on.
        Continue,
        /// No new Pods until the job is resumed.
        Pause,
    }

    /// Where a BroadcastJob stands.
    pub enum BroadcastJobPhase {
        /// Pods are being made or run.
        Running = "running",
        /// Held by `spec.paused` or the failure policy.
        Paused = "paused",
        /// Every fitting node has run its Pod.
        Completed = "completed",
        /// Ended by the failure policy or the deadline.
        Failed = "failed",
    }
}

api! {
    /// What to run, how many at a time, and when to stop.
    pub struct BroadcastJobSpec {
        /// Most Pods that run at the same time, as a number or a percentage of the fitting nodes; all when not given.
        parallelism: Option<IntOrPercent>,
        /// The Pod to run on each node; its `restartPolicy` must be `OnFailure` or `Never`.
        required template: PodTemplate,
        /// When the job is done and when it is removed.
        completion_policy: CompletionPolicy,
        /// True holds the job back: running Pods go on, no new ones are made.
        paused: bool,
        /// What happens when a Pod fails.
        failure_policy: FailurePolicy,
    }

    /// What happens when a Pod fails.
    pub struct FailurePolicy {
        /// `FailFast` ends the job, `Continue` goes on with other nodes, `Pause` waits for a person.
        #[serde(rename = "type")]
        type_: FailurePolicyType,
        /// Restarts of a Pod's containers after which it counts as failed.
        restart_limit: i32,
    }

    /// How far the job has come.
    pub struct BroadcastJobStatus {
        /// `Complete` or `Failed`, once the job has ended.
        conditions: Vec<JobCondition>,
        /// When the controller first saw the job.
        start_time: Option<Time>,
        /// When the job ended.
        completion_time: Option<Time>,
        /// Pods that are running or waiting to run.
        always active: i32,
        /// Pods that succeeded.
        always succeeded: i32,
        /// Pods that failed.
        always failed: i32,
        /// Nodes that fit.
        always desired: i32,
        /// `running`, `paused`, `completed` or `failed`.
        phase: BroadcastJobPhase,
    }
}
