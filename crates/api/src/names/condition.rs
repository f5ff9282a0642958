//! Condition types and their reasons, by the kind that carries them.

/// Conditions of pods.
pub mod pod {
    /// Readiness gate: true unless somebody holds the pod not ready; the message lists who.
    pub const KRUISE_POD_READY: &str = "KruisePodReady";
    /// Readiness gate: false while an in-place update runs.
    pub const IN_PLACE_UPDATE_READY: &str = "InPlaceUpdateReady";
    /// Whether every injected SidecarSet can be upgraded in place; the message says which can.
    pub const SIDECAR_SET_UPGRADABLE: &str = "SidecarSetUpgradable";
    /// The sidecars were ended because the main containers had ended.
    pub const SIDECAR_TERMINATED: &str = "SidecarTerminated";

    /// Reason of [`IN_PLACE_UPDATE_READY`] while an update runs.
    pub const START_IN_PLACE_UPDATE: &str = "StartInPlaceUpdate";
    /// Reason of the standard `Ready` condition when a readiness gate is not true.
    pub const READINESS_GATES_NOT_READY: &str = "ReadinessGatesNotReady";
    /// Reason of [`SIDECAR_SET_UPGRADABLE`] when it is true.
    pub const ALL_SIDECAR_SETS_UPGRADABLE: &str = "AllSidecarsetUpgradable";
    /// Reason of [`SIDECAR_SET_UPGRADABLE`] when it is false.
    pub const UPDATE_IMMUTABLE_FIELD: &str = "UpdateImmutableField";
    /// Message of [`SIDECAR_TERMINATED`].
    pub const SIDECAR_TERMINATED_MESSAGE: &str = "Terminated by Sidecar Terminator";
}

/// Who may hold a pod not ready: the entries in the message of [`pod::KRUISE_POD_READY`].
pub mod not_ready {
    /// Writer of the two lifecycle hooks below.
    pub const LIFECYCLE: &str = "Lifecycle";
    /// Key of the hook before a deletion.
    pub const PRE_DELETE_HOOK: &str = "preDeleteHook";
    /// Key of the hook before an in-place update.
    pub const PRE_UPDATE_HOOK: &str = "preUpdateHook";
    /// Writer of container recreation; its key is `namespace/name` of the request.
    pub const CONTAINER_RECREATE: &str = "ContainerRecreateRequest";
}

/// Conditions of SidecarSets.
pub mod sidecar_set {
    /// Pods should have the containers of the set and do not; the message names the first of them.
    pub const PODS_WITHOUT_SIDECARS: &str = "PodsWithoutSidecars";
}

/// Conditions of CloneSets.
pub mod clone_set {
    /// Creating or deleting pods failed.
    pub const FAILED_SCALE: &str = "FailedScale";
    /// Updating pods failed.
    pub const FAILED_UPDATE: &str = "FailedUpdate";
    /// How the rollout gets on, when it has a deadline.
    pub const PROGRESSING: &str = "Progressing";

    /// Reason of [`PROGRESSING`]: every pod is updated and available.
    pub const AVAILABLE: &str = "CloneSetAvailable";
    /// Reason of [`PROGRESSING`]: the user paused the rollout.
    pub const PAUSED: &str = "CloneSetPaused";
    /// Reason of [`PROGRESSING`]: everything the partition allows is updated and available.
    pub const PARTITION_AVAILABLE: &str = "ProgressPartitionAvailable";
    /// Reason of [`PROGRESSING`]: no progress within the deadline.
    pub const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// Reason of [`PROGRESSING`]: the rollout moves on.
    pub const UPDATED: &str = "CloneSetUpdated";
}

/// Conditions of StatefulSets; they come without a reason.
pub mod stateful_set {
    /// A pod or one of its claims could not be created.
    pub const FAILED_CREATE_POD: &str = "FailedCreatePod";
    /// A pod could not be updated.
    pub const FAILED_UPDATE_POD: &str = "FailedUpdatePod";
}

/// Conditions of BroadcastJobs; the reason repeats the type.
pub mod broadcast_job {
    /// Every pod has ended and the job's rule for success holds.
    pub const COMPLETE: &str = "Complete";
    /// The job has failed.
    pub const FAILED: &str = "Failed";
    /// The API server refuses pods of the job.
    pub const FAILED_CREATE: &str = "FailedCreate";
}

/// Conditions of UnitedDeployments.
pub mod united_deployment {
    /// Child workloads were created or deleted.
    pub const SUBSET_PROVISIONED: &str = "SubsetProvisioned";
    /// Child workloads are as they should be.
    pub const SUBSET_UPDATED: &str = "SubsetUpdated";
    /// A child workload reports a failure.
    pub const SUBSET_FAILURE: &str = "SubsetFailure";
    /// Whether the current revision is the updated one.
    pub const UPDATED: &str = "UnitedDeploymentUpdated";

    /// Reason when the subsets could not be brought into shape.
    pub const ERROR: &str = "Error";
    /// Reason of [`UPDATED`] when it is false.
    pub const REVISION_UPDATING: &str = "UnitedDeploymentRevisionUpdating";
    /// Reason of [`UPDATED`] when it is true.
    pub const REVISION_UPDATED: &str = "UnitedDeploymentRevisionUpdated";
}

/// Condition of a subset, of UnitedDeployments and WorkloadSpreads alike.
pub mod subset {
    /// Whether pods of the subset find a node.
    pub const SCHEDULABLE: &str = "Schedulable";

    /// UnitedDeployment: pods wait for a node for too long.
    pub const RESCHEDULE: &str = "reschedule";
    /// UnitedDeployment: the time to stay away from the subset is over.
    pub const RECOVER: &str = "recover";
    /// UnitedDeployment: the subset was added to one that runs already.
    pub const CREATED: &str = "created";
    /// WorkloadSpread: pods wait for a node for too long.
    pub const POD_UNSCHEDULABLE: &str = "PodUnschedulable";
    /// WorkloadSpread: the time to stay away from the subset is over.
    pub const SUFFICIENT: &str = "Sufficient";
    /// WorkloadSpread v1beta1: no reason was given in v1alpha1.
    pub const UNKNOWN: &str = "Unknown";
}

/// Conditions of EphemeralJobs.
pub mod ephemeral_job {
    /// The controller has seen the job.
    pub const INITIALIZED: &str = "Initialized";
    /// Every container ended well.
    pub const SUCCEEDED: &str = "JobSucceeded";
    /// A container failed, or the deadline passed.
    pub const FAILED: &str = "JobFailed";
    /// The job cannot run as it is written.
    pub const ERROR: &str = "JobError";
    /// The API server refuses the containers in a pod.
    pub const FAILED_CREATE: &str = "FailedCreate";
    /// No pod matches.
    pub const MATCHED_EMPTY: &str = "MatchedEmpty";

    /// Reason of [`MATCHED_EMPTY`].
    pub const MATCH_EMPTY: &str = "MatchEmpty";
    /// Reason of [`FAILED`]: a container failed.
    pub const CREATE_FAILED: &str = "CreateFailed";
    /// Reason of [`FAILED`]: the deadline passed.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
}

/// Conditions of ResourceDistributions. True means trouble; the reason is then the text of the error.
pub mod resource_distribution {
    /// A copy could not be read.
    pub const GET_FAILED: &str = "GetResourceFailed";
    /// A copy could not be created.
    pub const CREATE_FAILED: &str = "CreateResourceFailed";
    /// A copy could not be updated.
    pub const UPDATE_FAILED: &str = "UpdateResourceFailed";
    /// A copy that is no longer wanted could not be deleted.
    pub const DELETE_FAILED: &str = "DeleteResourceFailed";
    /// An object of that name exists and is not ours.
    pub const CONFLICT: &str = "ConflictOccurred";
    /// A target namespace is missing or being deleted.
    pub const NAMESPACE_NOT_EXISTS: &str = "NamespaceNotExists";

    /// Reason of a condition that is false: no trouble.
    pub const SUCCEEDED: &str = "Succeeded";
}

/// Conditions of ContainerRecreateRequests (v1beta1).
pub mod container_recreate {
    /// Since when the pod is held not ready before its containers stop; the reason repeats the type.
    pub const PRE_RECREATE_GRACE: &str = "PreRecreateGrace";
}
