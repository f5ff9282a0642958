//! Labels, grouped by the object that carries them.
//!
//! How a label decides differs: [`SPECIFIED_DELETE`] and the [`UNAVAILABLE_POD_PREFIX`] count by being there, whatever
//! their value; [`CRR_ACTIVE`] counts only when it is exactly `true`.

// Revisions.

/// The revision a pod, or a child of an ImageListPullJob, was made from.
///
/// CloneSet and StatefulSet pods carry the revision's name, DaemonSet pods only its hash; a CloneSet does so too when
/// the gate `CloneSetShortHash` is on.
pub const REVISION: &str = "controller-revision-hash";
/// The hash of a CloneSet pod's revision, always in its short form.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// The hash of the data that a ControllerRevision stores.
pub const REVISION_DATA_HASH: &str = "controller.kubernetes.io/hash";
/// On a ControllerRevision: the jobs that pull its images ahead of the update exist. The double "pre" is real.
pub const PRE_DOWNLOAD_CREATED: &str = "apps.kruise.io/pre-predownload-created";
/// On a ControllerRevision: it was decided not to pull its images ahead of the update.
pub const PRE_DOWNLOAD_IGNORED: &str = "apps.kruise.io/image-predownload-ignored";

// Pods of workloads.

/// Five random characters that pair a CloneSet's pod with its claims; also the end of the pod's name.
pub const POD_INSTANCE_ID: &str = "apps.kruise.io/cloneset-instance-id";
/// Asks the workload to delete this pod; being there decides, the value does not matter.
pub const SPECIFIED_DELETE: &str = "apps.kruise.io/specified-delete";
/// Where a pod stands between its lifecycle hooks.
pub const LIFECYCLE_STATE: &str = "lifecycle.apps.kruise.io/state";
/// The pod's own name, on every pod of a StatefulSet.
pub const STATEFUL_SET_POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// The pod's ordinal in its StatefulSet (gate `PodIndexLabel`).
pub const STATEFUL_SET_POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// Template generation of a DaemonSet pod, only for sets that carry the deprecated generation annotation.
pub const DAEMON_SET_TEMPLATE_GENERATION: &str = "pod-template-generation";
/// The BroadcastJob a pod belongs to, by name; a template may not set it.
pub const BROADCAST_JOB_NAME: &str = "broadcastjob-name";
/// The BroadcastJob a pod belongs to, by UID; a template may not set it.
pub const BROADCAST_JOB_UID: &str = "broadcastjob-controller-uid";
/// Beginning of any label that makes a pod count as unavailable for workloads and budgets; the value does not matter.
pub const UNAVAILABLE_POD_PREFIX: &str = "unavailable-pod.kruise.io/";

// CloneSet.

/// On a v1alpha1 CloneSet: pods that prepare for deletion do not count when scaling.
pub const SCALING_EXCLUDE_PREPARING_DELETE: &str = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete";

// UnitedDeployment.

/// The subset that a child workload of a UnitedDeployment, or a pod of it, belongs to.
pub const SUBSET_NAME: &str = "apps.kruise.io/subset-name";
/// The UnitedDeployment's revision that a child workload, or a pod of it, was made from.
pub const SUBSET_REVISION: &str = "apps.kruise.io/controller-revision-hash";
/// `true` on a pod that cannot be scheduled but is kept while another subset stands in for it, else `false`.
pub const RESERVED_POD: &str = "apps.kruise.io/united-deployment-reserved-pod";

// SidecarSet.

/// A user's own name for a revision of a SidecarSet (v1beta1 has a field for it).
pub const SIDECAR_SET_CUSTOM_VERSION: &str = "apps.kruise.io/sidecarset-custom-version";
/// The SidecarSet that a ControllerRevision belongs to.
pub const SIDECAR_SET_NAME: &str = "kruise.io/sidecarset-name";

// ContainerRecreateRequest.

/// UID of the pod whose containers shall be recreated; cannot be changed.
pub const CRR_POD_UID: &str = "crr.apps.kruise.io/pod-uid";
/// Node of that pod, by which the node's daemon finds its requests; cannot be changed.
pub const CRR_NODE_NAME: &str = "crr.apps.kruise.io/node-name";
/// `true` while the request is not finished; removed afterwards, so that the daemon no longer sees it.
pub const CRR_ACTIVE: &str = "crr.apps.kruise.io/active";

// Images.

/// Keeps a NodeImage although there is no node of its name.
pub const FAKE_NODE_IMAGE: &str = "apps.kruise.io/fake-nodeimage";
/// On a copied pull Secret of an older release: UID of the source. Only read, to clean up.
pub const PULL_SECRET_SOURCE_UID: &str = "imagepulljobs.kruise.io/source-uid";

// Protection.

/// Protects the object against deletion.
pub const DELETE_PROTECTION: &str = "policy.kruise.io/delete-protection";
/// Value of [`DELETE_PROTECTION`]: never deletable.
pub const DELETE_PROTECTION_ALWAYS: &str = "Always";
/// Value of [`DELETE_PROTECTION`]: deletable once nothing depends on it (no replicas, pods, claims or instances).
pub const DELETE_PROTECTION_CASCADING: &str = "Cascading";

// Installation and cluster.

/// Which part of the installation a namespace or pod belongs to; selectors and webhook exclusions use it.
pub const CONTROL_PLANE: &str = "control-plane";
/// Value of [`CONTROL_PLANE`] on the manager.
pub const CONTROL_PLANE_MANAGER: &str = "controller-manager";
/// Value of [`CONTROL_PLANE`] on the daemon.
pub const CONTROL_PLANE_DAEMON: &str = "daemon";
/// Value of [`CONTROL_PLANE`] on the namespace that the chart creates.
pub const CONTROL_PLANE_NAMESPACE: &str = "openkruise";
/// Name of a namespace, set by the API server.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Kind of a node, see [`NODE_TYPE_VIRTUAL`].
pub const NODE_TYPE: &str = "type";
/// Value of [`NODE_TYPE`] on a virtual node: no daemon runs there.
pub const NODE_TYPE_VIRTUAL: &str = "virtual-kubelet";
/// Host name of a node.
pub const NODE_HOSTNAME: &str = "kubernetes.io/hostname";
/// Zone of a node.
pub const NODE_ZONE: &str = "topology.kubernetes.io/zone";
