//! ImagePullJob: pulls one image onto many nodes ahead of time. Both versions have the same shape.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};

use crate::registry::{Column, KindInfo, VersionInfo};
use crate::shared::IntOrPercent;
use crate::shared::completion::CompletionPolicy;
use crate::shared::image_pull::{ImagePullPolicy, NodeChoice, PullPolicy, SandboxConfig};

/// The registry's entry.
pub const KIND: KindInfo = KindInfo::of::<v1beta1::ImagePullJob>(&[
    VersionInfo::of::<v1alpha1::ImagePullJob>(&[TOTAL, ACTIVE, SUCCEED, FAILED, Column::AGE, MESSAGE]),
    VersionInfo::of::<v1beta1::ImagePullJob>(&[TOTAL, ACTIVE, SUCCEED, FAILED, Column::AGE]),
]);

const TOTAL: Column = Column::integer("TOTAL", ".status.desired");
const ACTIVE: Column = Column::integer("ACTIVE", ".status.active");
const SUCCEED: Column = Column::integer("SUCCEED", ".status.succeeded");
const FAILED: Column = Column::integer("FAILED", ".status.failed");
const MESSAGE: Column = Column::string("MESSAGE", ".status.message");

/// Version v1alpha1.
pub mod v1alpha1 {
    use super::{ImagePullJobSpec, ImagePullJobStatus};

    kind! {
        /// Pulls an image onto many nodes ahead of time.
        pub struct ImagePullJob {
            group: apps, version: v1alpha1, plural: "imagepulljobs", scope: Namespaced,
            spec: ImagePullJobSpec, status: ImagePullJobStatus,
        }
    }
}

/// Version v1beta1.
pub mod v1beta1 {
    use super::{ImagePullJobSpec, ImagePullJobStatus};

    kind! {
        /// Pulls an image onto many nodes ahead of time.
        pub struct ImagePullJob {
            group: apps, version: v1beta1, plural: "imagepulljobs", scope: Namespaced,
            spec: ImagePullJobSpec, status: ImagePullJobStatus,
        }
    }
}

api! {
    /// Which image to pull, where and how.
    pub struct ImagePullJobSpec {
        /// The image, with tag or digest; the tag `latest` when neither is given.
        required image: String,
        /// Secrets of this namespace with which to log in to the registry; cannot be changed later.
        pull_secrets: Vec<String>,
        /// The nodes to pull onto; all when neither this nor `podSelector` is given.
        selector: Option<NodeChoice>,
        /// Pull onto the nodes of the Pods of this namespace that match; not together with `selector`.
        pod_selector: Option<LabelSelector>,
        /// Most nodes that pull at the same time, a whole number; 1 when not given, 0 holds the job back.
        parallelism: Option<IntOrPercent>,
        /// How long and how often to try on each node.
        pull_policy: Option<PullPolicy>,
        /// When the job is done and when it is removed.
        required completion_policy: CompletionPolicy,
        /// Labels and annotations of the sandbox that the container runtime is told while it pulls.
        sandbox_config: Option<SandboxConfig>,
        /// `Always` asks the registry each time, `IfNotPresent` (when not given) pulls only what is missing.
        image_pull_policy: ImagePullPolicy,
    }

    /// How far the job has come.
    pub struct ImagePullJobStatus {
        /// When the controller first saw the job.
        start_time: Option<Time>,
        /// When the job ended.
        completion_time: Option<Time>,
        /// Nodes that are chosen.
        required desired: i32,
        /// Nodes that are pulling.
        always active: i32,
        /// Nodes that have the image.
        always succeeded: i32,
        /// Nodes that gave up.
        always failed: i32,
        /// How far the job is, for people.
        message: String,
        /// Names of the nodes that gave up.
        failed_nodes: Vec<String>,
    }
}
