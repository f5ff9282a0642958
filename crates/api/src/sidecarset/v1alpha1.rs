//! SidecarSet in version v1alpha1: served for the users of 1.8 and older.

use k8s_openapi::api::core::v1::{LocalObjectReference, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::container::SidecarContainer;
use super::{InjectionStrategy, PatchPodMetadata, SidecarSetStatus, UpdateStrategy};
use crate::raw::Raw;

kind! {
    /// Puts containers into matching Pods when they are made, and updates them in place.
    pub struct SidecarSet {
        group: apps, version: v1alpha1, plural: "sidecarsets", scope: Cluster,
        spec: SidecarSetSpec, status: SidecarSetStatus,
    }
}

api! {
    /// What to put into which Pods.
    pub struct SidecarSetSpec {
        /// Which Pods get the containers.
        selector: Option<LabelSelector>,
        /// Only Pods in this namespace.
        namespace: String,
        /// Only Pods in these namespaces; all when not given.
        namespace_selector: Option<LabelSelector>,
        /// Init containers to put in.
        init_containers: Vec<SidecarContainer>,
        /// Containers to put in.
        containers: Vec<SidecarContainer>,
        /// Volumes that these containers need.
        volumes: Raw<Vec<Volume>>,
        /// How injected containers follow a change.
        update_strategy: UpdateStrategy,
        /// How new Pods get their containers.
        injection_strategy: InjectionStrategy,
        /// Secrets to pull the images with.
        image_pull_secrets: Vec<LocalObjectReference>,
        /// Old revisions to keep; 10 when not given.
        revision_history_limit: Option<i32>,
        /// Annotations to put on the Pods.
        patch_pod_metadata: Vec<PatchPodMetadata>,
    }
}
