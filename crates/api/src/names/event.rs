//! Event reasons, as users see and filter them. A few contain spaces; that is how they were published.

// Workloads in general.

/// A pod or claim was created.
pub const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
/// A pod or claim could not be created.
pub const FAILED_CREATE: &str = "FailedCreate";
/// A pod was deleted.
pub const SUCCESSFUL_DELETE: &str = "SuccessfulDelete";
/// A pod or claim could not be deleted.
pub const FAILED_DELETE: &str = "FailedDelete";
/// A pod of a StatefulSet was updated.
pub const SUCCESSFUL_UPDATE: &str = "SuccessfulUpdate";
/// A pod of a StatefulSet, or the owner of a CloneSet's claim, could not be updated.
pub const FAILED_UPDATE: &str = "FailedUpdate";
/// A pod was updated in place.
pub const SUCCESSFUL_UPDATE_POD_IN_PLACE: &str = "SuccessfulUpdatePodInPlace";
/// A pod could not be updated in place.
pub const FAILED_UPDATE_POD_IN_PLACE: &str = "FailedUpdatePodInPlace";
/// An image is pulled ahead of the update.
pub const CREATED_IMAGE_PULL_JOB: &str = "CreatedImagePullJob";
/// An image could not be pulled ahead; a Normal event all the same.
pub const FAILED_CREATE_IMAGE_PULL_JOB: &str = "FailedCreateImagePullJob";

// CloneSet.

/// New pods wait because too many are unavailable.
pub const SCALE_UP_LIMITED: &str = "ScaleUpLimited";
/// A pod was marked for recreation.
pub const SUCCESSFUL_UPDATE_POD_RECREATE: &str = "SuccessfulUpdatePodReCreate";
/// A pod could not be marked for recreation.
pub const FAILED_UPDATE_POD_RECREATE: &str = "FailedUpdatePodReCreate";

// StatefulSet: volume expansion.

/// A claim grows.
pub const SUCCESSFUL_RESIZE: &str = "SuccessfulResize";
/// A claim could not be made to grow.
pub const FAILED_RESIZE: &str = "FailedResize";
/// A claim differs from its template in more than its size.
pub const FAILED_UPDATE_PVC: &str = "FailedUpdatePVC";

// DaemonSet.

/// The selector is empty and would take every pod.
pub const SELECTING_ALL: &str = "SelectingAll";
/// A failed pod was found and is replaced.
pub const FAILED_DAEMON_POD: &str = "FailedDaemonPod";

// UnitedDeployment.

/// Revisions could not be read or written.
pub const FAILED_REVISION_PROVISION: &str = "FailedRevisionProvision";
/// Child workloads could not be listed.
pub const FAILED_FIND_SUBSETS: &str = "FailedFindSubsets";
/// The same, sent along with it, with a space.
pub const FAILED_FIND_SUBSETS_SPACED: &str = "Failed FindSubsets";
/// A second child workload of one subset could not be deleted.
pub const FAILED_DELETE_DUPLICATED_SUBSETS: &str = "FailedDeleteDuplicatedSubsets";
/// Replicas cannot be divided as the subsets ask.
pub const FAILED_SPECIFY_SUBSET_REPLICAS: &str = "Failed SpecifySubsetReplicas";
/// Child workloads were created or deleted.
pub const SUCCESSFUL_UPDATE_SUBSET: &str = "SuccessfulUpdateSubset";
/// A child workload could not be created, updated or deleted.
pub const FAILED_UPDATE_SUBSET: &str = "FailedUpdateSubset";

// WorkloadSpread.

/// A pod that should go is still there, or could not be deleted.
pub const DELETE_POD_FAILED: &str = "DeletePodFailed";
/// A pod that was admitted never appeared.
pub const CREATE_POD_FAILED: &str = "CreatePodFailed";
/// A pod's deletion cost could not be written.
pub const PATCH_POD_DELETION_COST_FAILED: &str = "PatchPodDeletionCostFailed";
/// A subset takes pods again.
pub const RECOVER_SCHEDULABLE: &str = "RecoverSchedulable";

// BroadcastJob.

/// The job goes on after a pause.
pub const CONTINUE: &str = "Continue";
/// The job is done.
pub const JOB_COMPLETE: &str = "JobComplete";
/// The job pauses because a pod failed.
pub const PAUSED: &str = "Paused";
/// The job took too long.
pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
/// The job fails because a pod failed.
pub const FAILED_POD_FOUND: &str = "failed pod is found";
/// More pods are active than wanted.
pub const TOO_MANY_ACTIVE_PODS: &str = "TooManyActivePods";
/// An AdvancedCronJob missed so many times that it starts nothing.
pub const TOO_MANY_MISSED_TIMES: &str = "TooManyMissedTimes";
/// A node has two pods of the job.
pub const DUPLICATE_POD_ON_NODE: &str = "DuplicatePodCreatedOnSameNode";

// SidecarSet and sidecar termination.

/// Some pods cannot be upgraded in place and were skipped.
pub const NOT_UPGRADABLE_PODS: &str = "NotUpgradablePods";
/// After a hot upgrade the idle container was set back.
pub const RESET_CONTAINER_SUCCEED: &str = "ResetContainerSucceed";
/// After a hot upgrade the idle container could not be set back.
pub const RESET_CONTAINER_FAILED: &str = "ResetContainerFailed";
/// Sidecars are stopped because the main containers have ended.
pub const SIDECAR_TERMINATOR: &str = "SidecarTerminator";

// PodUnavailableBudget.

/// The budget protects no pod.
pub const NO_PODS: &str = "NoPods";
/// It is unknown how many pods the workload should have.
pub const CALCULATE_EXPECTED_POD_COUNT_FAILED: &str = "CalculateExpectedPodCountFailed";
/// A deletion was granted but did not happen.
pub const NOT_DELETED: &str = "NotDeleted";
/// The budget refused an operation on the pod.
pub const BUDGET_PREVENTS_POD_DELETION: &str = "PubPreventPodDeletion";

// Ephemeral and image jobs.

/// Ephemeral containers could not be added to a pod.
pub const EPHEMERAL_CREATE_FAILED: &str = "CreateFailed";
/// Ephemeral containers could not be removed from a pod.
pub const EPHEMERAL_REMOVE_FAILED: &str = "RemoveFailed";
/// Pull Secrets of an ImagePullJob cannot be copied to where daemons read them.
pub const FAILED_SYNC_PULL_SECRETS: &str = "FailedSyncPullSecrets";
/// An ImageListPullJob made a job for one image.
pub const CREATED_CHILD_PULL_JOB: &str = "Successful create ImagePullJob";
/// An ImageListPullJob deleted the job of one image.
pub const DELETED_CHILD_PULL_JOB: &str = "Successful delete ImagePullJob";
/// A node pulled an image.
pub const PULL_IMAGE_SUCCEED: &str = "PullImageSucceed";
/// A node could not pull an image, or its daemon keeps silent.
pub const PULL_IMAGE_FAILED: &str = "PullImageFailed";

// The daemon, on pods.

/// A container is stopped to be started anew.
pub const KILLING: &str = "Killing";
/// The preStop hook of such a container failed.
pub const FAILED_PRE_STOP_HOOK: &str = "FailedPreStopHook";
/// A probe succeeds now.
pub const PROBE_SUCCEEDED: &str = "KruiseProbeSucceeded";
/// A probe fails now; a Normal event all the same.
pub const PROBE_FAILED: &str = "KruiseProbeFailed";

// The manager, on its Lease.

/// A replica started or stopped leading.
pub const LEADER_ELECTION: &str = "LeaderElection";
