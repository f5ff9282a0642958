//! Finalizers we set, and what they wait for.
//!
//! When no manager runs any more they block the deletion of these objects: an uninstall has to remove them by hand.

/// On an ImagePullJob, until the Secrets copied for it are released.
pub const IMAGE_PULL_JOB: &str = "apps.kruise.io/deletion-protection";
/// On an EphemeralJob, until its deletion is handled.
pub const EPHEMERAL_JOB: &str = "apps.kruise.io/ephemeralcontainers-cleanup";
/// On a PodProbeMarker, until its probes are gone from every node.
pub const POD_PROBE_MARKER: &str = "kruise.io/node-pod-probe-cleanup";
/// On a ContainerRecreateRequest, until the pod it holds not ready is released.
pub const CRR_UNREADY_ACQUIRED: &str = "crr.apps.kruise.io/unready-acquired";

/// Set by the API server: dependents go before the object.
pub const FOREGROUND_DELETION: &str = "foregroundDeletion";
/// Set by the API server: dependents stay.
pub const ORPHAN: &str = "orphan";
