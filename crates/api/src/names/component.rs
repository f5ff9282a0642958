//! Who sends: names of controllers (also the source of their events and a label of their metrics), other event
//! sources, and user agents.

/// User agent of the manager; a controller's own client adds `/<controller>`.
pub const MANAGER_USER_AGENT: &str = "kruise-manager";
/// User agent of the daemon.
pub const DAEMON_USER_AGENT: &str = "kruise-daemon";
/// Name of the manager's port with the live page.
pub const UI_PORT: &str = "ui";

/// Controllers of the manager.
pub mod controller {
    /// Runs AdvancedCronJobs.
    pub const ADVANCED_CRON_JOB: &str = "advancedcronjob-controller";
    /// Runs BroadcastJobs.
    pub const BROADCAST_JOB: &str = "broadcastjob-controller";
    /// Runs CloneSets.
    pub const CLONE_SET: &str = "cloneset-controller";
    /// Runs ContainerRecreateRequests.
    pub const CONTAINER_RECREATE_REQUEST: &str = "containerrecreaterequest-controller";
    /// Runs DaemonSets.
    pub const DAEMON_SET: &str = "daemonset-controller";
    /// Runs NodeImages.
    pub const NODE_IMAGE: &str = "nodeimage-controller";
    /// Runs ImagePullJobs.
    pub const IMAGE_PULL_JOB: &str = "imagepulljob-controller";
    /// Keeps the readiness gate of pods.
    pub const POD_READINESS: &str = "pod-readiness-controller";
    /// Runs SidecarSets.
    pub const SIDECAR_SET: &str = "sidecarset-controller";
    /// Runs StatefulSets.
    pub const STATEFUL_SET: &str = "statefulset-controller";
    /// Runs UnitedDeployments.
    pub const UNITED_DEPLOYMENT: &str = "uniteddeployment-controller";
    /// Runs PodUnavailableBudgets.
    pub const POD_UNAVAILABLE_BUDGET: &str = "podunavailablebudget-controller";
    /// Runs WorkloadSpreads.
    pub const WORKLOAD_SPREAD: &str = "workloadspread-controller";
    /// Runs ResourceDistributions.
    pub const RESOURCE_DISTRIBUTION: &str = "resourcedistribution-controller";
    /// Runs EphemeralJobs.
    pub const EPHEMERAL_JOB: &str = "ephemeraljob-controller";
    /// Lets containers start one after the other.
    pub const CONTAINER_LAUNCH_PRIORITY: &str = "container-launch-priority-controller";
    /// Runs PersistentPodStates.
    pub const PERSISTENT_POD_STATE: &str = "persistentpodstate-controller";
    /// Ends sidecars of finished jobs.
    pub const SIDECAR_TERMINATOR: &str = "sidecarterminator-controller";
    /// Runs PodProbeMarkers; the capitals are real.
    pub const POD_PROBE_MARKER: &str = "PodProbeMarker-controller";
    /// Runs NodePodProbes; the capitals are real.
    pub const NODE_POD_PROBE: &str = "NodePodProbe-controller";
    /// Runs ImageListPullJobs.
    pub const IMAGE_LIST_PULL_JOB: &str = "imagelistpulljob-controller";
}

/// Sources of events that are not controllers of the manager.
pub mod source {
    /// The pod webhook, when a budget refuses an operation.
    pub const BUDGET_WEBHOOK: &str = "pub-controller";
    /// The daemon's image puller.
    pub const DAEMON_IMAGE_PULLER: &str = "kruise-daemon-imagepuller";
    /// The daemon's container recreation.
    pub const DAEMON_CONTAINER_RECREATE: &str = "kruise-daemon-crr";
    /// The daemon's pod prober.
    pub const DAEMON_POD_PROBE: &str = "kruise-daemon-podprobe";
    /// The daemon's report on running containers.
    pub const DAEMON_CONTAINER_META: &str = "kruise-daemon-containermeta";
}
