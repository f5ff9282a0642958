//! Stand-in until `kruise_api::names` lands; same modules, same constants.

#![allow(unreachable_pub)]
pub mod annotation {
    pub const PRE_DOWNLOAD_PARALLELISM: &str = "apps.kruise.io/image-predownload-parallelism";
    pub const PRE_DOWNLOAD_TIMEOUT_SECONDS: &str = "apps.kruise.io/image-predownload-timeout-seconds";
    pub const PRE_DOWNLOAD_MIN_UPDATED_READY: &str = "apps.kruise.io/image-predownload-min-updated-ready-pods";
    pub const DAEMON_SET_PROGRESSIVE_CREATE: &str = "daemonset.kruise.io/progressive-create-pod";
    pub const BUDGET_PROTECT_OPERATIONS: &str = "kruise.io/pub-protect-operations";
    pub const BUDGET_TOTAL_REPLICAS: &str = "pub.kruise.io/protect-total-replicas";
    pub const CRR_CONTAINER_STATUSES: &str = "crr.apps.kruise.io/sync-container-statuses";
    pub const CRR_UNREADY_ACQUIRED: &str = "crr.apps.kruise.io/unready-acquired";
}
pub mod label {
    pub const SCALING_EXCLUDE_PREPARING_DELETE: &str = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete";
    pub const SIDECAR_SET_CUSTOM_VERSION: &str = "apps.kruise.io/sidecarset-custom-version";
    pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
}
pub mod group {
    pub const APPS: &str = "apps.kruise.io";
    pub const POLICY: &str = "policy.kruise.io";
    pub const V1ALPHA1: &str = "v1alpha1";
    pub const V1BETA1: &str = "v1beta1";
}
pub mod condition {
    pub mod container_recreate {
        pub const PRE_RECREATE_GRACE: &str = "PreRecreateGrace";
    }
}
