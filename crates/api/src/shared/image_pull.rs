//! What the kinds that pull images ahead of time share.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

words! {
    /// Whether an image that the node has already is pulled again.
    pub enum ImagePullPolicy {
        /// Ask the registry each time.
        Always,
        /// Pull only what is missing.
        IfNotPresent,
    }
}

api! {
    /// Chooses nodes, by name or by label but not both; all nodes when empty.
    #[schema(extend("x-kubernetes-map-type" = "atomic"))]
    pub struct NodeChoice {
        /// Names of nodes; those that do not exist are passed over.
        names: Vec<String>,
        /// Labels of nodes and the values they must have.
        match_labels: BTreeMap<String, String>,
        /// Requirements on the labels of nodes.
        #[schema(extend("x-kubernetes-list-type" = "atomic"))]
        match_expressions: Vec<LabelSelectorRequirement>,
    }

    /// How long and how often to try on each node.
    pub struct PullPolicy {
        /// Seconds that one attempt may take; 600 when not given.
        timeout_seconds: Option<i32>,
        /// How often a failed pull is tried again; 3 when not given.
        backoff_limit: Option<i32>,
    }

    /// Labels and annotations of the sandbox that the container runtime is told while it pulls.
    pub struct SandboxConfig {
        /// Labels of the sandbox.
        labels: BTreeMap<String, String>,
        /// Annotations of the sandbox.
        annotations: BTreeMap<String, String>,
    }
}
