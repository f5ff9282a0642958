//! NodeImage: the images that one node is to have, and how far it is with them. One object per node, with the node's
//! name.
//!
//! Jobs write the spec, the node's daemon answers in the status. A higher `version` of a tag asks for another
//! pull. v1beta1 adds `mode` to the references of secrets.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use crate::meta::Meta;
use crate::registry::{Column, KindInfo, VersionInfo};
use crate::shared::image_pull::ImagePullPolicy;
use crate::wire::or_empty;

/// The registry's entry.
pub const KIND: KindInfo = KindInfo::of::<v1beta1::NodeImage>(&[
    VersionInfo::of::<v1alpha1::NodeImage>(COLUMNS),
    VersionInfo::of::<v1beta1::NodeImage>(COLUMNS),
]);

const COLUMNS: &[Column] = &[
    Column::integer("DESIRED", ".status.desired"),
    Column::integer("PULLING", ".status.pulling"),
    Column::integer("SUCCEED", ".status.succeeded"),
    Column::integer("FAILED", ".status.failed"),
    Column::AGE,
];

/// What controllers keep of a NodeImage: all but most of the metadata. There is one for each node, so they are many.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CachedNodeImage {
    /// Name, labels and so on.
    #[serde(deserialize_with = "or_empty")]
    pub metadata: Meta,
    /// The images that the node is to have.
    #[serde(deserialize_with = "or_empty")]
    pub spec: v1beta1::NodeImageSpec,
    /// How far the node is.
    #[serde(deserialize_with = "or_empty")]
    pub status: NodeImageStatus,
}

projection!(CachedNodeImage, of: v1beta1::NodeImage);

impl CachedNodeImage {
    /// What the node is to do about a tag of an image.
    pub fn tag(&self, image: &str, tag: &str) -> Option<&ImageTagSpec> {
        let image = self.spec.images.get(image)?;
        image.tags.iter().find(|known| known.tag == tag)
    }

    /// How far the node is with this tag; nothing when it has not answered to what is asked for now.
    pub fn answer(&self, image: &str, tag: &ImageTagSpec) -> Option<&ImageTagStatus> {
        let image = self.status.image_statuses.get(image)?;
        image
            .tags
            .iter()
            .find(|known| known.tag == tag.tag && known.version == tag.version)
    }
}

/// Version v1alpha1.
pub mod v1alpha1 {
    use std::collections::BTreeMap;

    use super::{ImageTagSpec, NodeImageStatus};
    use crate::shared::image_pull::SandboxConfig;

    kind! {
        /// The images that a node is to have.
        pub struct NodeImage {
            group: apps, version: v1alpha1, plural: "nodeimages", scope: Cluster,
            spec: NodeImageSpec, status: NodeImageStatus,
        }
    }

    api! {
        /// The images that the node is to have.
        pub struct NodeImageSpec {
            /// Images by name without tag, 256 at most.
            images: BTreeMap<String, ImageSpec>,
        }

        /// The tags of an image that the node is to have.
        pub struct ImageSpec {
            /// Secrets with which to log in to the registry.
            pull_secrets: Vec<SecretReference>,
            /// The tags, each once.
            required tags: Vec<ImageTagSpec>,
            /// Labels and annotations of the sandbox that the container runtime is told while it pulls.
            sandbox_config: Option<SandboxConfig>,
        }

        /// Points to a secret.
        pub struct SecretReference {
            /// Namespace of the secret.
            namespace: String,
            /// Name of the secret.
            name: String,
        }
    }
}

/// Version v1beta1.
pub mod v1beta1 {
    use std::collections::BTreeMap;

    use super::{ImageTagSpec, NodeImageStatus};
    use crate::shared::image_pull::SandboxConfig;

    kind! {
        /// The images that a node is to have.
        pub struct NodeImage {
            group: apps, version: v1beta1, plural: "nodeimages", scope: Cluster,
            spec: NodeImageSpec, status: NodeImageStatus,
        }
    }

    words! {
        /// How long a copied secret lives.
        pub enum SecretMode {
            /// Shared by several jobs: its reference stays as long as the image.
            Batch = "batch",
        }
    }

    api! {
        /// The images that the node is to have.
        pub struct NodeImageSpec {
            /// Images by name without tag, 256 at most.
            images: BTreeMap<String, ImageSpec>,
        }

        /// The tags of an image that the node is to have.
        pub struct ImageSpec {
            /// Secrets with which to log in to the registry.
            pull_secrets: Vec<SecretReference>,
            /// The tags, each once.
            required tags: Vec<ImageTagSpec>,
            /// Labels and annotations of the sandbox that the container runtime is told while it pulls.
            sandbox_config: Option<SandboxConfig>,
        }

        /// Points to a secret.
        pub struct SecretReference {
            /// Namespace of the secret.
            namespace: String,
            /// Name of the secret.
            name: String,
            /// `batch` marks a copy that several jobs share; it stays as long as the image.
            mode: SecretMode,
        }
    }
}

words! {
    /// How far a pull is.
    pub enum ImagePullPhase {
        /// Not begun.
        Waiting,
        /// Under way.
        Pulling,
        /// The node has the image.
        Succeeded,
        /// The node gave up.
        Failed,
    }

    /// How the daemon's first pass went.
    pub enum SyncStatusPhase {
        /// Well.
        Succeeded,
        /// Not well.
        Failed,
    }
}

api! {
    /// A tag of an image that the node is to have.
    pub struct ImageTagSpec {
        /// The tag, or a digest such as `sha256:0123…`.
        required tag: String,
        /// When the tag was added or last asked for.
        created_at: Option<Time>,
        /// Raised to have the image pulled once more.
        version: i64,
        /// How long and how often to try, and when to forget the tag.
        pull_policy: Option<ImageTagPullPolicy>,
        /// The jobs that want this tag; it goes when all of them are gone.
        owner_references: Vec<ObjectReference>,
        /// `Always` asks the registry each time, `IfNotPresent` pulls only what is missing.
        image_pull_policy: ImagePullPolicy,
    }

    /// How long and how often to try to pull a tag, and when to forget it.
    pub struct ImageTagPullPolicy {
        /// Seconds that one attempt may take; 600 when not given.
        timeout_seconds: Option<i32>,
        /// How often a failed pull is tried again; 3 when not given.
        backoff_limit: Option<i32>,
        /// Seconds after the pull has ended when the tag is dropped; has to be given.
        ttl_seconds_after_finished: Option<i32>,
        /// Seconds after which the pull has failed, all attempts together.
        active_deadline_seconds: Option<i64>,
    }

    /// How far the node is with its images.
    pub struct NodeImageStatus {
        /// Tags that the node is to have.
        required desired: i32,
        /// Tags that the node has.
        always succeeded: i32,
        /// Tags that could not be pulled.
        always failed: i32,
        /// Tags that are being pulled.
        always pulling: i32,
        /// Tags whose pull has not begun.
        always waiting: i32,
        /// Images by name without tag.
        image_statuses: BTreeMap<String, ImageStatus>,
        /// How the daemon's first pass went; kept for old objects, not written any more.
        first_sync_status: Option<SyncStatus>,
    }

    /// How far the node is with the tags of an image.
    pub struct ImageStatus {
        /// The tags of the image.
        required tags: Vec<ImageTagStatus>,
    }

    /// How far the node is with a tag.
    pub struct ImageTagStatus {
        /// The tag, or a digest.
        required tag: String,
        /// `Waiting`, `Pulling`, `Succeeded` or `Failed`.
        required phase: ImagePullPhase,
        /// Percentage of the image that has been pulled.
        progress: i32,
        /// When the pull began.
        start_time: Option<Time>,
        /// When the pull ended.
        completion_time: Option<Time>,
        /// The version in the spec that this answers.
        version: i64,
        /// ID of the image in the container runtime.
        #[serde(rename = "imageID")]
        image_id: String,
        /// Why the pull failed, for people.
        message: String,
    }

    /// How the daemon's first pass went.
    pub struct SyncStatus {
        /// When it was made.
        sync_at: Option<Time>,
        /// `Succeeded` or `Failed`.
        status: SyncStatusPhase,
        /// What went wrong, for people.
        message: String,
    }
}
