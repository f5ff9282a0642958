//! ImageListPullJob: pulls several images onto many nodes ahead of time, by one ImagePullJob for each image. Both
//! versions have the same shape.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};

use crate::registry::{Column, KindInfo, VersionInfo};
use crate::shared::IntOrPercent;
use crate::shared::completion::CompletionPolicy;
use crate::shared::image_pull::{ImagePullPolicy, NodeChoice, PullPolicy, SandboxConfig};

/// The registry's entry.
pub const KIND: KindInfo = KindInfo::of::<v1beta1::ImageListPullJob>(&[
    VersionInfo::of::<v1alpha1::ImageListPullJob>(COLUMNS),
    VersionInfo::of::<v1beta1::ImageListPullJob>(COLUMNS),
]);

const COLUMNS: &[Column] = &[
    Column::integer("TOTAL", ".status.desired"),
    Column::integer("SUCCEEDED", ".status.succeeded"),
    Column::integer("COMPLETED", ".status.completed"),
    Column::AGE,
];

/// Version v1alpha1.
pub mod v1alpha1 {
    use super::{ImageListPullJobSpec, ImageListPullJobStatus};

    kind! {
        /// Pulls several images onto many nodes ahead of time.
        pub struct ImageListPullJob {
            group: apps, version: v1alpha1, plural: "imagelistpulljobs", scope: Namespaced,
            spec: ImageListPullJobSpec, status: ImageListPullJobStatus,
        }
    }
}

/// Version v1beta1.
pub mod v1beta1 {
    use super::{ImageListPullJobSpec, ImageListPullJobStatus};

    kind! {
        /// Pulls several images onto many nodes ahead of time.
        pub struct ImageListPullJob {
            group: apps, version: v1beta1, plural: "imagelistpulljobs", scope: Namespaced,
            spec: ImageListPullJobSpec, status: ImageListPullJobStatus,
        }
    }
}

api! {
    /// Which images to pull, where and how.
    pub struct ImageListPullJobSpec {
        /// The images, each once, 255 at most; each gets an ImagePullJob of its own.
        required images: Vec<String>,
        /// Secrets of this namespace with which to log in to the registries.
        pull_secrets: Vec<String>,
        /// The nodes to pull onto; all when neither this nor `podSelector` is given.
        selector: Option<NodeChoice>,
        /// Pull onto the nodes of the Pods of this namespace that match; not together with `selector`.
        pod_selector: Option<LabelSelector>,
        /// Most nodes that pull one image at the same time, a whole number; 1 when not given, 0 holds the job back.
        parallelism: Option<IntOrPercent>,
        /// How long and how often to try each image on each node.
        pull_policy: Option<PullPolicy>,
        /// When the job is done and when it is removed.
        required completion_policy: CompletionPolicy,
        /// Labels and annotations of the sandbox that the container runtime is told while it pulls.
        sandbox_config: Option<SandboxConfig>,
        /// `Always` asks the registry each time, `IfNotPresent` (when not given) pulls only what is missing.
        image_pull_policy: ImagePullPolicy,
    }

    /// How far the job has come.
    pub struct ImageListPullJobStatus {
        /// When the controller first saw the job.
        start_time: Option<Time>,
        /// When the job ended.
        completion_time: Option<Time>,
        /// Images to pull.
        required desired: i32,
        /// Images that some node is pulling.
        always active: i32,
        /// Images with which all nodes are done, well or not.
        always completed: i32,
        /// Images that all chosen nodes have.
        always succeeded: i32,
        /// The images that some node could not pull.
        failed_image_statuses: Vec<FailedImageStatus>,
    }

    /// An image that some node could not pull.
    pub struct FailedImageStatus {
        /// Name of the ImagePullJob for this image; its status names the nodes.
        image_pull_job: String,
        /// The image.
        name: String,
        /// What to do next, for people.
        message: String,
    }
}
