//! Annotations, grouped by the object that carries them.
//!
//! The same key may mean two things: [`SIDECAR_SET_HASH`] holds a plain string on a SidecarSet and a JSON map on a pod.
//! Keys of older releases end in `_OLD`: they are read, and new ones are written.

// Pods: in-place update and lifecycle.

/// Progress of an in-place update (JSON).
pub const IN_PLACE_STATE: &str = "apps.kruise.io/inplace-update-state";
/// Older key of [`IN_PLACE_STATE`], still read.
pub const IN_PLACE_STATE_OLD: &str = "inplace-update-state";
/// An in-place update that waits until its grace period ends (JSON).
pub const IN_PLACE_GRACE: &str = "apps.kruise.io/inplace-update-grace";
/// Older key of [`IN_PLACE_GRACE`], still read and removed.
pub const IN_PLACE_GRACE_OLD: &str = "inplace-update-grace";
/// Hashes of the specs that the running containers were started from (JSON), reported by the daemon.
pub const RUNTIME_CONTAINERS: &str = "apps.kruise.io/runtime-containers-meta";
/// When the pod's lifecycle state changed last.
pub const LIFECYCLE_TIMESTAMP: &str = "lifecycle.apps.kruise.io/timestamp";
/// Where the pod stands when some have to go: the lowest number goes first.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

// Pods: container launch order.

/// Asks for containers to start one after the other, see [`LAUNCH_PRIORITY_ORDERED`].
pub const LAUNCH_PRIORITY: &str = "apps.kruise.io/container-launch-priority";
/// Value of [`LAUNCH_PRIORITY`]: in the order of the list.
pub const LAUNCH_PRIORITY_ORDERED: &str = "Ordered";
/// `true` once every container was allowed to start.
pub const LAUNCH_PRIORITY_COMPLETED: &str = "apps.kruise.io/container-launch-priority-completed";

// Pods: spread, state and budgets.

/// The WorkloadSpread and subset chosen for this pod (JSON).
pub const MATCHED_WORKLOAD_SPREAD: &str = "apps.kruise.io/matched-workloadspread";
/// The PersistentPodState whose node affinity was injected.
pub const INJECTED_PERSISTENT_POD_STATE: &str = "kruise.io/injected-persistent-pod-state";
/// The PodUnavailableBudget that protects this pod.
pub const RELATED_BUDGET: &str = "pub.kruise.io/related-pub";
/// Older key of [`RELATED_BUDGET`]; both are written, the new one is read first.
pub const RELATED_BUDGET_OLD: &str = "kruise.io/related-pub";
/// Exempts the pod from its budget (any spelling of true).
pub const BUDGET_NO_PROTECT: &str = "pub.kruise.io/no-protect";

// Pods: probes.

/// Probes for a pod on a node without daemon (JSON).
pub const POD_PROBE: &str = "kruise.io/podprobe";
/// The PodProbeMarkers behind [`POD_PROBE`], sorted, separated by commas.
pub const POD_PROBE_MARKERS: &str = "kruise.io/podprobemarker-list";
/// `true`: liveness probes are run by the enhanced prober instead of kubelet.
pub const ENHANCED_LIVENESS: &str = "apps.kruise.io/using-enhanced-liveness";
/// The liveness probes that were taken out of the pod's containers (JSON).
pub const CONTAINER_PROBES: &str = "apps.kruise.io/container-probe-context";

// Pods and SidecarSets.

/// On a pod: the injected SidecarSets and their revisions (JSON). On a SidecarSet or its revision: its hash.
pub const SIDECAR_SET_HASH: &str = "kruise.io/sidecarset-hash";
/// As [`SIDECAR_SET_HASH`], with images left out: equal hashes mean that the update is possible in place.
pub const SIDECAR_SET_HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
/// The injected SidecarSets, separated by commas.
pub const SIDECAR_SET_INJECTED: &str = "kruise.io/sidecarset-injected-list";
/// Progress of in-place updates by SidecarSet (JSON).
pub const SIDECAR_SET_IN_PLACE_STATE: &str = "kruise.io/sidecarset-inplace-update-state";
/// Which of the two hot-upgrade containers works now, by sidecar (JSON).
pub const SIDECAR_SET_WORKING_CONTAINER: &str = "kruise.io/sidecarset-working-hotupgrade-container";
/// Followed by a container's name: the version of that hot-upgrade container.
pub const SIDECAR_VERSION_PREFIX: &str = "version.sidecarset.kruise.io/";
/// Followed by a container's name: the version of its twin.
pub const SIDECAR_VERSION_ALT_PREFIX: &str = "versionalt.sidecarset.kruise.io/";
/// `true` on a SidecarSet that is the canary of [`SIDECAR_SET_BASE`] and wins over it at injection.
pub const SIDECAR_SET_CANARY: &str = "apps.kruise.io/sidecarset-canary";
/// Name of the SidecarSet that a canary is the canary of.
pub const SIDECAR_SET_BASE: &str = "apps.kruise.io/sidecarset-base";
/// `true` on a SidecarSet: Pods that lack its containers are evicted, so that they are made again.
pub const SIDECAR_SET_EVICT: &str = "apps.kruise.io/sidecarset-evict-uninjected-pods";

// Workloads.

/// In the template of a CloneSet: when the plugin restarted it.
pub const RESTARTED_AT: &str = "kubectl.kruise.io/restartedAt";
/// On a workload that the plugin moves Pods to: from where, and how many (JSON). It goes at the end.
pub const MIGRATION: &str = "kubectl.kruise.io/migration";
/// In the template of a built-in workload: when kubectl restarted it.
pub const RESTARTED_AT_BUILT_IN: &str = "kubectl.kubernetes.io/restartedAt";
/// How many nodes pull an image ahead of an update at the same time.
pub const PRE_DOWNLOAD_PARALLELISM: &str = "apps.kruise.io/image-predownload-parallelism";
/// How long one such pull may take, in seconds.
pub const PRE_DOWNLOAD_TIMEOUT_SECONDS: &str = "apps.kruise.io/image-predownload-timeout-seconds";
/// How many updated pods have to be ready before images are pulled ahead.
pub const PRE_DOWNLOAD_MIN_UPDATED_READY: &str = "apps.kruise.io/image-predownload-min-updated-ready-pods";
/// On a ControllerRevision of a CloneSet: hash of its claim templates.
pub const CLAIM_TEMPLATES_HASH: &str = "kruise.io/cloneset-volumeclaimtemplate-hash";
/// On a claim: the StatefulSet that expands it.
pub const CLAIM_OWNED_BY_STATEFUL_SET: &str = "apps.kruise.io/owned-by-asts";
/// `true` on a DaemonSet: the partition limits the creation of pods too (v1beta1 has a field for it).
pub const DAEMON_SET_PROGRESSIVE_CREATE: &str = "daemonset.kruise.io/progressive-create-pod";
/// Template generation of a DaemonSet, as in upstream Kubernetes.
pub const DAEMON_SET_TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
/// The patch that was applied to a child workload of a UnitedDeployment (raw JSON).
pub const SUBSET_PATCH: &str = "apps.kruise.io/subset-patch";
/// The time for which an AdvancedCronJob made this job.
pub const SCHEDULED_AT: &str = "apps.kruise.io/scheduled-at";
/// `true` in any case: the WorkloadSpread leaves pods that exist already alone.
pub const IGNORE_EXISTING_PODS: &str = "workloadspread.kruise.io/ignore-patch-existing-pods-metadata";

// PodUnavailableBudget.

/// The operations that a budget guards, separated by commas (v1beta1 has a field for it).
pub const BUDGET_PROTECT_OPERATIONS: &str = "kruise.io/pub-protect-operations";
/// Total replicas that a budget counts with instead of the workload's (v1beta1 has a field for it).
pub const BUDGET_TOTAL_REPLICAS: &str = "pub.kruise.io/protect-total-replicas";

// PersistentPodState, on the StatefulSet-like workload.

/// `true`: a PersistentPodState is made for this workload.
pub const AUTO_PERSISTENT_POD_STATE: &str = "kruise.io/auto-generate-persistent-pod-state";
/// Node labels that a pod has to find again, separated by commas.
pub const REQUIRED_TOPOLOGY: &str = "kruise.io/required-persistent-topology";
/// Node labels that a pod would like to find again, separated by commas.
pub const PREFERRED_TOPOLOGY: &str = "kruise.io/preferred-persistent-topology";
/// Pod annotations that are remembered with the node, separated by commas.
pub const PERSISTENT_POD_ANNOTATIONS: &str = "kruise.io/persistent-pod-annotations";

// ContainerRecreateRequest, v1alpha1 only.

/// The pod's container statuses at the time the daemon has to wait for (JSON).
pub const CRR_CONTAINER_STATUSES: &str = "crr.apps.kruise.io/sync-container-statuses";
/// Since when the pod is held not ready. The same key is also a finalizer, in both versions.
pub const CRR_UNREADY_ACQUIRED: &str = "crr.apps.kruise.io/unready-acquired";

// ResourceDistribution, on the copies.

/// The ResourceDistribution a copy comes from.
pub const DISTRIBUTED_FROM: &str = "kruise.io/resourcedistribution.resource.from";
/// Hash of the content that was distributed.
pub const DISTRIBUTED_HASH: &str = "kruise.io/resourcedistribution.resource.hashcode";

// Copied pull Secrets.

/// `namespace/name` of the Secret that was copied.
pub const PULL_SECRET_SOURCE: &str = "imagepulljobs.kruise.io/source-key";
/// The jobs that need the copy, as `namespace/name` separated by commas; empty means that it can go.
pub const PULL_SECRET_REFERENCES: &str = "imagepulljobs.kruise.io/references";
/// How a copy is shared, see [`PULL_SECRET_MODE_BATCH`].
pub const PULL_SECRET_MODE: &str = "imagepulljobs.kruise.io/mode";
/// Value of [`PULL_SECRET_MODE`]: one copy for all jobs.
pub const PULL_SECRET_MODE_BATCH: &str = "batch";
/// In every pull request to the container runtime: who pulls, see [`PULLING_IMAGE_BY_DAEMON`].
pub const PULLING_IMAGE_BY: &str = "apps.kruise.io/pulling-image-by";
/// Value of [`PULLING_IMAGE_BY`].
pub const PULLING_IMAGE_BY_DAEMON: &str = "kruise-daemon";

// Objects of the cluster.

/// On both webhook configurations: the entries that the live ones are made from (JSON).
pub const WEBHOOK_TEMPLATE: &str = "template";
/// On both webhook configurations: hash of what we made of the template; tells a newer manifest from our own writing.
pub const WEBHOOK_TEMPLATE_HASH: &str = "kruise.io/webhook-template-hash";
/// `true` on the StorageClass that claims without a class get.
pub const DEFAULT_STORAGE_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// Revision number of a ReplicaSet within its Deployment.
pub const DEPLOYMENT_REVISION: &str = "deployment.kubernetes.io/revision";
