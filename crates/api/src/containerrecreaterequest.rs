//! ContainerRecreateRequest: restarts chosen containers of a running Pod in place.
//!
//! The webhook notes what the containers look like when the request is made, the manager watches deadlines and
//! readiness, and the daemon of the Pod's node stops the containers. v1alpha1 has two parts of the status in
//! annotations instead: `conditions` and `containerStatusSnapshot`.

use k8s_openapi::api::core::v1::{ContainerPort, ExecAction, HTTPGetAction, TCPSocketAction};

use crate::registry::{Column, Conversion, KindInfo, VersionInfo};

/// The registry's entry.
pub const KIND: KindInfo = KindInfo {
    short_names: &["crr"],
    conversion: Conversion::Webhook,
    ..KindInfo::of::<v1beta1::ContainerRecreateRequest>(&[
        VersionInfo::of::<v1alpha1::ContainerRecreateRequest>(COLUMNS),
        VersionInfo::of::<v1beta1::ContainerRecreateRequest>(COLUMNS),
    ])
};

const COLUMNS: &[Column] = &[
    Column::string("PHASE", ".status.phase"),
    Column::string("POD", ".spec.podName"),
    Column::string("NODE", r".metadata.labels.crr\.apps\.kruise\.io/node-name"),
    Column::AGE,
];

/// Version v1alpha1.
pub mod v1alpha1 {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::{FailurePolicy, RecreateContainer, RecreatePhase};

    kind! {
        /// Restarts chosen containers of a running Pod in place.
        pub struct ContainerRecreateRequest {
            group: apps, version: v1alpha1, plural: "containerrecreaterequests", scope: Namespaced,
            spec: ContainerRecreateRequestSpec, status: ContainerRecreateRequestStatus,
        }
    }

    api! {
        /// Which containers to restart and how; cannot be changed later.
        pub struct ContainerRecreateRequestSpec {
            /// Name of the Pod; it has to be running.
            required pod_name: String,
            /// The containers to restart, each once.
            required containers: Vec<RecreateContainer>,
            /// How to go about it.
            strategy: Option<RecreateStrategy>,
            /// Seconds after which the request ends even if containers are not back; at least 3.
            active_deadline_seconds: Option<i64>,
            /// Seconds after its end when the request is deleted; kept when not given.
            ttl_seconds_after_finished: Option<i32>,
        }

        /// How to go about it.
        pub struct RecreateStrategy {
            /// `Fail` ends the request when a container cannot be stopped, `Ignore` goes on with the others.
            failure_policy: FailurePolicy,
            /// True waits until one container is back before the next is stopped.
            ordered_recreate: bool,
            /// True stops a container even if it has restarted by itself since the request was made.
            force_recreate: bool,
            /// Seconds that a container gets to stop; the Pod's own value when not given.
            termination_grace_period_seconds: Option<i64>,
            /// Seconds that the Pod is held not ready before its containers are stopped, so that traffic drains.
            unready_grace_period_seconds: Option<i64>,
            /// Seconds that a container has to be ready before it counts as back.
            min_started_seconds: i32,
        }

        /// How far the request has come.
        pub struct ContainerRecreateRequestStatus {
            /// `Pending`, `Recreating` or `Completed`; each container's own outcome is in `containerRecreateStates`.
            required phase: RecreatePhase,
            /// When the request ended.
            completion_time: Option<Time>,
            /// Why the request ended early, for people.
            message: String,
            /// How far each container is.
            container_recreate_states: Vec<RecreateState>,
        }

        /// How far a container is.
        pub struct RecreateState {
            /// Name of the container.
            required name: String,
            /// `Pending`, `Recreating`, `Succeeded` or `Failed`.
            required phase: RecreatePhase,
            /// What went wrong, for people.
            message: String,
            /// True once the container has been stopped for this request.
            is_killed: bool,
        }
    }
}

/// Version v1beta1.
pub mod v1beta1 {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::{FailurePolicy, RecreateContainer, RecreatePhase};
    use crate::shared::standard_condition::StandardCondition;

    kind! {
        /// Restarts chosen containers of a running Pod in place.
        pub struct ContainerRecreateRequest {
            group: apps, version: v1beta1, plural: "containerrecreaterequests", scope: Namespaced,
            spec: ContainerRecreateRequestSpec, status: ContainerRecreateRequestStatus,
        }
    }

    api! {
        /// Which containers to restart and how; cannot be changed later.
        pub struct ContainerRecreateRequestSpec {
            /// Name of the Pod; it has to be running.
            required pod_name: String,
            /// The containers to restart, each once.
            required containers: Vec<RecreateContainer>,
            /// How to go about it.
            strategy: Option<RecreateStrategy>,
            /// Seconds after which the request ends even if containers are not back; at least 3.
            #[schema(extend("minimum" = 0))]
            active_deadline_seconds: Option<i64>,
            /// Seconds after its end when the request is deleted; kept when not given.
            #[schema(extend("minimum" = 0))]
            ttl_seconds_after_finished: Option<i32>,
        }

        /// How to go about it.
        pub struct RecreateStrategy {
            /// `Fail` ends the request when a container cannot be stopped, `Ignore` goes on with the others.
            #[schema(extend("enum" = ["Fail", "Ignore"]))]
            failure_policy: FailurePolicy,
            /// True waits until one container is back before the next is stopped.
            ordered_recreate: bool,
            /// True stops a container even if it has restarted by itself since the request was made.
            force_recreate: bool,
            /// Seconds that a container gets to stop; the Pod's own value when not given.
            #[schema(extend("minimum" = 0))]
            termination_grace_period_seconds: Option<i64>,
            /// Seconds that the Pod is held not ready before its containers are stopped, so that traffic drains.
            #[schema(extend("minimum" = 0))]
            unready_grace_period_seconds: Option<i64>,
            /// Seconds that a container has to be ready before it counts as back.
            #[schema(extend("minimum" = 0))]
            min_started_seconds: i32,
        }

        /// How far the request has come.
        pub struct ContainerRecreateRequestStatus {
            /// `Pending`, `Recreating` or `Completed`; each container's own outcome is in `containerRecreateStates`.
            #[schema(extend("enum" = ["Pending", "Recreating", "Succeeded", "Failed", "Completed"]))]
            required phase: RecreatePhase,
            /// When the request ended.
            completion_time: Option<Time>,
            /// Why the request ended early, for people.
            message: String,
            /// How far each container is.
            container_recreate_states: Vec<RecreateState>,
            /// What the kubelet last said about the containers; the daemon learns their readiness from it.
            container_status_snapshot: Vec<ContainerStatusSnapshot>,
            /// `PreRecreateGrace` says since when the Pod is held not ready.
            #[schema(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<StandardCondition>,
        }

        /// How far a container is.
        pub struct RecreateState {
            /// Name of the container.
            required name: String,
            /// `Pending`, `Recreating`, `Succeeded` or `Failed`.
            #[schema(extend("enum" = ["Pending", "Recreating", "Succeeded", "Failed", "Completed"]))]
            required phase: RecreatePhase,
            /// What went wrong, for people.
            message: String,
            /// True once the container has been stopped for this request.
            is_killed: bool,
        }

        /// What the kubelet last said about a container.
        pub struct ContainerStatusSnapshot {
            /// Name of the container.
            required name: String,
            /// True when the container is ready.
            required ready: bool,
            /// How often the container has been restarted.
            required restart_count: i32,
            /// ID of the container, with the name of the runtime in front.
            #[serde(rename = "containerID")]
            container_id: String,
        }
    }
}

words! {
    /// What happens when a container cannot be stopped.
    pub enum FailurePolicy {
        /// The request ends.
        Fail,
        /// The other containers go on.
        Ignore,
    }

    /// How far a request or one of its containers is.
    pub enum RecreatePhase {
        /// Not begun.
        Pending,
        /// Under way.
        Recreating,
        /// The container is back.
        Succeeded,
        /// The container could not be stopped.
        Failed,
        /// The request has ended, well or not.
        Completed,
    }
}

api! {
    /// A container to restart; users give the name, the webhook fills in the rest.
    pub struct RecreateContainer {
        /// Name of the container.
        required name: String,
        /// What to do before the container is stopped; copied from the Pod.
        pre_stop: Option<PreStop>,
        /// Ports of the container, for a `preStop` request to a named port; copied from the Pod.
        ports: Vec<ContainerPort>,
        /// The container as it was when the request was made; copied from the Pod.
        status_context: Option<StatusContext>,
    }

    /// What to do before a container is stopped.
    pub struct PreStop {
        /// A command to run in the container.
        exec: Option<ExecAction>,
        /// An HTTP request to make.
        http_get: Option<HTTPGetAction>,
        /// A TCP connection to open; not supported.
        tcp_socket: Option<TCPSocketAction>,
    }

    /// A container as it was when the request was made.
    pub struct StatusContext {
        /// ID of the container, with the name of the runtime in front.
        #[serde(rename = "containerID")]
        required container_id: String,
        /// How often the container had been restarted.
        required restart_count: i32,
    }
}

#[cfg(test)]
mod tests {
    use super::COLUMNS;
    use crate::names::label;

    #[test]
    fn the_column_of_the_node_shows_its_label() {
        let path = format!(".metadata.labels.{}", label::CRR_NODE_NAME.replace('.', "\\."));
        assert_eq!(COLUMNS[2].path, path);
    }
}
