//! EphemeralJob: adds ephemeral containers to running Pods and follows them to their end. There is only v1alpha1.
//!
//! A missing selector is kept apart from an empty one: nothing instead of every Pod of the namespace.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::raw::Raw;
use crate::registry::{Column, KindInfo, VersionInfo};
use crate::shared::conditions::JobCondition;

/// The registry's entry.
pub const KIND: KindInfo = KindInfo {
    short_names: &["ejob"],
    ..KindInfo::of::<v1alpha1::EphemeralJob>(&[VersionInfo::of::<v1alpha1::EphemeralJob>(COLUMNS)])
};

const COLUMNS: &[Column] = &[
    Column::string("STATUS", ".status.phase"),
    Column::integer("MATCH", ".status.match"),
    Column::integer("SUCCEED", ".status.succeeded"),
    Column::integer("FAILED", ".status.failed"),
    Column::integer("RUNNING", ".status.running"),
    Column::integer("WAITING", ".status.waiting"),
    Column::AGE,
];

/// Containers to add to Pods, kept as they were written.
pub type EphemeralContainers = Raw<Vec<k8s_openapi::api::core::v1::EphemeralContainer>>;

/// Version v1alpha1.
pub mod v1alpha1 {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

    use super::{EphemeralContainers, EphemeralJobStatus};

    kind! {
        /// Adds ephemeral containers to running Pods.
        pub struct EphemeralJob {
            group: apps, version: v1alpha1, plural: "ephemeraljobs", scope: Namespaced,
            spec: EphemeralJobSpec, status: EphemeralJobStatus,
        }
    }

    api! {
        /// What to run in which Pods.
        pub struct EphemeralJobSpec {
            /// The Pods of this namespace to add the containers to.
            required selector: Option<LabelSelector>,
            /// How many of these Pods, the oldest first; all when not given.
            replicas: Option<i32>,
            /// Most Pods in which the containers run at the same time; 1 when not given.
            parallelism: Option<i32>,
            /// The containers to add.
            required template: EphemeralContainerTemplate,
            /// True holds the job back: running containers go on, no new ones are added.
            paused: bool,
            /// Seconds after which the job fails if it is still active.
            active_deadline_seconds: Option<i64>,
            /// Seconds after its end when the job is deleted; 1800 when not given.
            ttl_seconds_after_finished: Option<i32>,
        }

        /// The containers to add.
        pub struct EphemeralContainerTemplate {
            /// The containers; `terminationMessagePolicy` and `imagePullPolicy` have to be given.
            required ephemeral_containers: EphemeralContainers,
        }
    }
}

words! {
    /// Where an EphemeralJob stands.
    pub enum EphemeralJobPhase {
        /// No Pod matches, or no container runs yet.
        Waiting,
        /// Containers run.
        Running,
        /// All containers succeeded.
        Succeeded,
        /// All containers failed, or the deadline has passed.
        Failed,
        /// Held by `spec.paused`.
        Paused,
        /// The job itself is wrong.
        Error,
        /// Nothing of the above.
        Unknown,
    }
}

api! {
    /// How far the job has come.
    pub struct EphemeralJobStatus {
        /// `Initialized`, `MatchedEmpty`, `JobSucceeded`, `JobFailed` or `JobError`, as far as they have come.
        conditions: Vec<JobCondition>,
        /// When the controller first saw the job.
        start_time: Option<Time>,
        /// When the job ended.
        completion_time: Option<Time>,
        /// `Waiting`, `Running`, `Succeeded`, `Failed`, `Paused`, `Error` or `Unknown`.
        phase: EphemeralJobPhase,
        /// Pods that are chosen.
        #[serde(rename = "match")]
        always matched: i32,
        /// Pods in which a container runs.
        always running: i32,
        /// Pods in which all containers succeeded.
        always succeeded: i32,
        /// Pods in which the containers wait to start.
        always waiting: i32,
        /// Pods in which a container failed.
        always failed: i32,
    }
}
