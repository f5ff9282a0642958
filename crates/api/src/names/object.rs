//! Objects with a fixed name, and the keys inside them.

// Namespaces.

/// Namespace of the installation, unless it is configured otherwise.
pub const SYSTEM_NAMESPACE: &str = "kruise-system";
/// Namespace that receives copies of pull Secrets, the only ones the daemon can read.
pub const DAEMON_CONFIG_NAMESPACE: &str = "kruise-daemon-config";

// The manager.

/// Deployment of the manager.
pub const MANAGER_DEPLOYMENT: &str = "kruise-controller-manager";
/// Lease by which the manager's replicas choose their leader.
pub const MANAGER_LEASE: &str = "kruise-manager";
/// ServiceAccount of the manager.
pub const MANAGER_SERVICE_ACCOUNT: &str = "kruise-manager";
/// ClusterRole of the manager.
pub const MANAGER_ROLE: &str = "kruise-manager-role";
/// Binding of the manager's ClusterRole.
pub const MANAGER_ROLE_BINDING: &str = "kruise-manager-rolebinding";
/// ClusterRole to write CA bundles into webhook configurations and CRDs.
pub const CERTS_ROLE: &str = "kruise-certs-role";
/// Binding of that ClusterRole.
pub const CERTS_ROLE_BINDING: &str = "kruise-certs-rolebinding";
/// Role for the manager's Lease.
pub const LEADER_ELECTION_ROLE: &str = "kruise-leader-election-role";
/// Role for the certificate Secret.
pub const WEBHOOK_ROLE: &str = "kruise-webhook-role";
/// ClusterRole that lets everybody with `view` read our kinds.
pub const AGGREGATE_VIEW_ROLE: &str = "aggregate-kruise-view";
/// ClusterRole that lets everybody with `edit` write our kinds.
pub const AGGREGATE_EDIT_ROLE: &str = "aggregate-kruise-edit";
/// ClusterRole that lets everybody with `admin` write our kinds, ResourceDistribution too.
pub const AGGREGATE_ADMIN_ROLE: &str = "aggregate-kruise-admin";
/// ServiceAccount of the check before an uninstall.
pub const HELM_HOOK_SERVICE_ACCOUNT: &str = "kruise-helm-hook";
/// ClusterRole of that check.
pub const HELM_HOOK_ROLE: &str = "kruise-helm-hook-role";
/// Binding of that ClusterRole.
pub const HELM_HOOK_ROLE_BINDING: &str = "kruise-helm-hook-rolebinding";

// The daemon.

/// DaemonSet of the daemon.
pub const DAEMON_DAEMON_SET: &str = "kruise-daemon";
/// ServiceAccount of the daemon.
pub const DAEMON_SERVICE_ACCOUNT: &str = "kruise-daemon";
/// ClusterRole of the daemon.
pub const DAEMON_ROLE: &str = "kruise-daemon-role";
/// Binding of the daemon's ClusterRole.
pub const DAEMON_ROLE_BINDING: &str = "kruise-daemon-rolebinding";
/// Role by which the daemon reads copied pull Secrets.
pub const DAEMON_SECRET_ROLE: &str = "kruise-daemon-secret-role";
/// Binding of that Role.
pub const DAEMON_SECRET_ROLE_BINDING: &str = "kruise-daemon-secret-rolebinding";

// Webhooks.

/// Service in front of the webhook server.
pub const WEBHOOK_SERVICE: &str = "kruise-webhook-service";
/// Secret that keeps the certificates.
pub const WEBHOOK_CERTS: &str = "kruise-webhook-certs";
/// The mutating webhook configuration.
pub const MUTATING_WEBHOOKS: &str = "kruise-mutating-webhook-configuration";
/// The validating webhook configuration.
pub const VALIDATING_WEBHOOKS: &str = "kruise-validating-webhook-configuration";
/// Common name of the CA we issue.
pub const WEBHOOK_CA_COMMON_NAME: &str = "webhook-cert-ca";

/// Keys of the Secret [`WEBHOOK_CERTS`], and files of the certificate directory.
pub mod cert_key {
    /// Key of the CA.
    pub const CA_KEY: &str = "ca-key.pem";
    /// Certificate of the CA.
    pub const CA_CERT: &str = "ca-cert.pem";
    /// Key of the server.
    pub const SERVER_KEY: &str = "key.pem";
    /// Certificate of the server.
    pub const SERVER_CERT: &str = "cert.pem";
    /// Key of the server, in the layout of TLS Secrets.
    pub const TLS_KEY: &str = "tls.key";
    /// Certificate of the server, in the layout of TLS Secrets.
    pub const TLS_CERT: &str = "tls.crt";
    /// Certificate of a CA outside of the manager.
    pub const EXTERNAL_CA_CERT: &str = "ca.crt";
    /// Key of a CA outside of the manager; may be absent.
    pub const EXTERNAL_CA_KEY: &str = "ca.key";
}

// Configuration.

/// ConfigMap of white lists in the manager's namespace; may be absent.
pub const CONFIGURATION: &str = "kruise-configuration";

/// Keys of the ConfigMap [`CONFIGURATION`].
pub mod configuration_key {
    /// Which pod annotations SidecarSets may change.
    pub const SIDECAR_SET_METADATA: &str = "SidecarSet_PatchPodMetadata_WhiteList";
    /// Further kinds that PersistentPodState treats as StatefulSets.
    pub const PERSISTENT_POD_STATE_WORKLOADS: &str = "PPS_Watch_Custom_Workload_WhiteList";
    /// Further kinds that WorkloadSpread can spread.
    pub const WORKLOAD_SPREAD_WORKLOADS: &str = "WorkloadSpread_Watch_Custom_Workload_WhiteList";
}

// Names that are no objects but show up in text, queues or status.

/// What event texts of a WorkloadSpread call pods without a subset.
pub const NO_SUBSET: &str = "kruise.io/workloadspread-fake-subset-name";
/// Version under which a WorkloadSpread counts pods when it does not tell versions apart.
pub const VERSION_IGNORED: &str = "versionIgnored";
/// Scheduler name on pods that a DaemonSet places itself.
pub const DAEMON_SET_SCHEDULER: &str = "kubernetes.io/daemonset-controller";
