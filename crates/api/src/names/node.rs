//! What Kubernetes itself puts on nodes and containers, as far as we read it.

/// Taints that a DaemonSet's pods tolerate, and the mark of virtual nodes.
pub mod taint {
    /// The node is not ready.
    pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
    /// The node does not answer.
    pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
    /// The node runs out of memory.
    pub const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
    /// The node runs out of disk.
    pub const DISK_PRESSURE: &str = "node.kubernetes.io/disk-pressure";
    /// The node runs out of process ids.
    pub const PID_PRESSURE: &str = "node.kubernetes.io/pid-pressure";
    /// The node is cordoned.
    pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
    /// The node's network is not set up.
    pub const NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";
    /// The node is virtual.
    pub const VIRTUAL_KUBELET: &str = "virtual-kubelet.io/provider";
}

/// Labels and annotations that kubelet gives to containers in the runtime.
pub mod container {
    /// Label: the pod's name.
    pub const POD_NAME: &str = "io.kubernetes.pod.name";
    /// Label: the pod's namespace.
    pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
    /// Label: the pod's UID.
    pub const POD_UID: &str = "io.kubernetes.pod.uid";
    /// Label: the container's name.
    pub const NAME: &str = "io.kubernetes.container.name";
    /// Annotation: hash of the container's spec, in hexadecimal.
    pub const HASH: &str = "io.kubernetes.container.hash";
    /// Annotation: how often the container was restarted.
    pub const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
    /// Annotation: the preStop hook (JSON).
    pub const PRE_STOP_HANDLER: &str = "io.kubernetes.container.preStopHandler";
    /// Annotation: the ports (JSON).
    pub const PORTS: &str = "io.kubernetes.container.ports";
    /// Annotation: how long the pod may take to end, in seconds.
    pub const TERMINATION_GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";
    /// Annotation: the same, as the deletion of the pod asked for it.
    pub const DELETION_GRACE_PERIOD: &str = "io.kubernetes.pod.deletionGracePeriod";
}
