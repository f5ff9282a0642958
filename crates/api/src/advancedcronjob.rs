//! AdvancedCronJob: starts a Job, a BroadcastJob or an ImageListPullJob by the clock. v1beta1 adds the
//! ImageListPullJob.
//!
//! The API server empties the metadata of the two kruise templates, as it always did; only that of a Job template
//! reaches the jobs.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use crate::broadcastjob::BroadcastJobSpec;
use crate::registry::{Column, KindInfo, VersionInfo};

/// The registry's entry.
pub const KIND: KindInfo = KindInfo {
    short_names: &["acj"],
    ..KindInfo::of::<v1beta1::AdvancedCronJob>(&[
        VersionInfo::of::<v1alpha1::AdvancedCronJob>(COLUMNS),
        VersionInfo::of::<v1beta1::AdvancedCronJob>(COLUMNS),
    ])
};

const COLUMNS: &[Column] = &[
    Column::string("Schedule", ".spec.schedule"),
    Column::string("Type", ".status.type"),
    Column::date("LastScheduleTime", ".status.lastScheduleTime"),
    Column::AGE,
];

/// Version v1alpha1.
pub mod v1alpha1 {
    use super::{AdvancedCronJobStatus, BroadcastJobTemplate, ConcurrencyPolicy, JobTemplate};

    kind! {
        /// Starts a Job or a BroadcastJob by the clock.
        pub struct AdvancedCronJob {
            group: apps, version: v1alpha1, plural: "advancedcronjobs", scope: Namespaced,
            spec: AdvancedCronJobSpec, status: AdvancedCronJobStatus,
        }
    }

    api! {
        /// When to start what.
        pub struct AdvancedCronJobSpec {
            /// When to start: minute, hour, day of month, month, day of week, or `@daily` and the like.
            #[schema(extend("minLength" = 0))]
            required schedule: String,
            /// Time zone of the schedule, such as `Europe/Berlin`; that of the manager when not given.
            time_zone: Option<String>,
            /// Seconds by which a start may be late; a later one is left out.
            starting_deadline_seconds: Option<i64>,
            /// What to do while an earlier job still runs: `Allow` both, `Forbid` the new one, `Replace` the old one.
            #[schema(extend("enum" = ["Allow", "Forbid", "Replace"]))]
            concurrency_policy: ConcurrencyPolicy,
            /// True starts no more jobs; those that run go on.
            paused: Option<bool>,
            /// How many jobs that succeeded are kept.
            successful_jobs_history_limit: Option<i32>,
            /// How many jobs that failed are kept.
            failed_jobs_history_limit: Option<i32>,
            /// The job to start; exactly one of the templates.
            required template: CronJobTemplate,
        }

        /// The job to start; exactly one of the templates.
        pub struct CronJobTemplate {
            /// Starts a Job.
            job_template: JobTemplate,
            /// Starts a BroadcastJob.
            broadcast_job_template: Option<BroadcastJobTemplate>,
        }
    }
}

/// Version v1beta1.
pub mod v1beta1 {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::{AdvancedCronJobStatus, BroadcastJobTemplate, ConcurrencyPolicy, JobTemplate};
    use crate::imagelistpulljob::ImageListPullJobSpec;

    kind! {
        /// Starts a Job, a BroadcastJob or an ImageListPullJob by the clock.
        pub struct AdvancedCronJob {
            group: apps, version: v1beta1, plural: "advancedcronjobs", scope: Namespaced,
            spec: AdvancedCronJobSpec, status: AdvancedCronJobStatus,
        }
    }

    api! {
        /// When to start what.
        pub struct AdvancedCronJobSpec {
            /// When to start: minute, hour, day of month, month, day of week, or `@daily` and the like.
            #[schema(extend("minLength" = 0))]
            required schedule: String,
            /// Time zone of the schedule, such as `Europe/Berlin`; that of the manager when not given.
            time_zone: Option<String>,
            /// Seconds by which a start may be late; a later one is left out.
            starting_deadline_seconds: Option<i64>,
            /// What to do while an earlier job still runs: `Allow` both, `Forbid` the new one, `Replace` the old one.
            #[schema(extend("enum" = ["Allow", "Forbid", "Replace"]))]
            concurrency_policy: ConcurrencyPolicy,
            /// True starts no more jobs; those that run go on.
            paused: Option<bool>,
            /// How many jobs that succeeded are kept.
            successful_jobs_history_limit: Option<i32>,
            /// How many jobs that failed are kept.
            failed_jobs_history_limit: Option<i32>,
            /// The job to start; exactly one of the templates.
            required template: CronJobTemplate,
        }

        /// The job to start; exactly one of the templates.
        pub struct CronJobTemplate {
            /// Starts a Job.
            job_template: JobTemplate,
            /// Starts a BroadcastJob.
            broadcast_job_template: Option<BroadcastJobTemplate>,
            /// Starts an ImageListPullJob; needs `concurrencyPolicy` `Forbid` or `Replace`.
            image_list_pull_job_template: Option<ImageListPullJobTemplate>,
        }

        /// The ImageListPullJob to start.
        pub struct ImageListPullJobTemplate {
            /// Kept for old objects; the API server empties it.
            metadata: Option<ObjectMeta>,
            /// Which images to pull, where and how.
            spec: ImageListPullJobSpec,
        }
    }
}

/// The Job to start, kept as it was written.
pub type JobTemplate = crate::raw::Raw<k8s_openapi::api::batch::v1::JobTemplateSpec>;

words! {
    /// What to do when it is time and an earlier job still runs.
    pub enum ConcurrencyPolicy {
        /// Both run.
        Allow,
        /// The new one is not started.
        Forbid,
        /// The old one is deleted.
        Replace,
    }

    /// The kind of job that is started.
    pub enum CronJobTemplateKind {
        /// A Job of Kubernetes.
        Job,
        /// A BroadcastJob.
        BroadcastJob,
        /// An ImageListPullJob.
        ImageListPullJob,
    }
}

api! {
    /// The BroadcastJob to start.
    pub struct BroadcastJobTemplate {
        /// Kept for old objects; the API server empties it.
        metadata: Option<ObjectMeta>,
        /// What to run, how many at a time, and when to stop.
        spec: BroadcastJobSpec,
    }

    /// What runs now and when the last one was started.
    pub struct AdvancedCronJobStatus {
        /// The kind of job that is started.
        #[serde(rename = "type")]
        type_: CronJobTemplateKind,
        /// The jobs that run.
        active: Vec<ObjectReference>,
        /// The time for which the last job was started.
        last_schedule_time: Option<Time>,
    }
}
