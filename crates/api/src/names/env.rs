//! Environment variables: of users' containers first, then of our own processes.

// Containers.

/// Start order of a container: a higher number starts earlier.
pub const CONTAINER_PRIORITY: &str = "KRUISE_CONTAINER_PRIORITY";
/// Keeps a container from starting until its key appears in the pod's barrier ConfigMap.
pub const CONTAINER_BARRIER: &str = "KRUISE_CONTAINER_BARRIER";
/// `true` in a container that a SidecarSet injected.
pub const IS_INJECTED: &str = "IS_INJECTED";
/// Version of a hot-upgrade container.
pub const SIDECAR_SET_VERSION: &str = "SIDECARSET_VERSION";
/// Version of its twin.
pub const SIDECAR_SET_VERSION_ALT: &str = "SIDECARSET_VERSION_ALT";
/// `true`: this container is a sidecar that ends when the main containers have ended.
pub const TERMINATE_SIDECAR: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";
/// On a virtual node: the image to swap in so that the sidecar ends.
pub const TERMINATE_SIDECAR_WITH_IMAGE: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE";
/// `true`: the sidecar's exit code does not decide whether the pod succeeded.
pub const TERMINATE_SIDECAR_IGNORE_EXIT_CODE: &str = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE";
/// UID of the EphemeralJob that put an ephemeral container into the pod.
pub const EPHEMERAL_JOB_ID: &str = "KRUISE_EJOB_ID";

// The manager.

/// Namespace the manager runs in: certificates, webhook Service and configuration live there.
pub const POD_NAMESPACE: &str = "POD_NAMESPACE";
/// Namespace that receives copies of pull Secrets.
pub const DAEMON_CONFIG_NAMESPACE: &str = "KRUISE_DAEMON_CONFIG_NS";
/// Port of the webhook server.
pub const WEBHOOK_PORT: &str = "WEBHOOK_PORT";
/// Directory of the serving certificate.
pub const WEBHOOK_CERT_DIR: &str = "WEBHOOK_CERT_DIR";
/// Host of the webhook server, for a manager that is not reached through a Service.
pub const WEBHOOK_HOST: &str = "WEBHOOK_HOST";
/// Where certificates are kept: `fs` or `secret`.
pub const WEBHOOK_CERT_WRITER: &str = "WEBHOOK_CERT_WRITER";
/// Name of the certificate Secret.
pub const SECRET_NAME: &str = "SECRET_NAME";
/// Name of the webhook Service.
pub const SERVICE_NAME: &str = "SERVICE_NAME";
/// How long before its end a certificate is renewed (`180d`, `6m`, `1y`).
pub const CERTS_RENEW_BEFORE: &str = "CERTS_RENEW_BEFORE";
/// Legacy list of kinds; without `SidecarSet` in it the pod webhook is off by default.
pub const CUSTOM_RESOURCE_ENABLE: &str = "CUSTOM_RESOURCE_ENABLE";
/// Debugging aid of the original; accepted without effect.
pub const CACHE_MUTATION_DETECTOR: &str = "KUBE_CACHE_MUTATION_DETECTOR";
/// Client configuration file.
pub const KUBECONFIG: &str = "KUBECONFIG";

// The daemon.

/// The node the daemon runs on; it does not start without.
pub const NODE_NAME: &str = "NODE_NAME";
