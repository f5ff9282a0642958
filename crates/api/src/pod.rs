//! The slice of a Pod that controllers look at, in little memory.
//!
//! A cluster has many Pods, and a whole Pod is large. This type declares only what decisions read, so that the parser skips
//! the rest; what all Pods of one template have in common is kept once ([`Template`]), as are texts that repeat.
//! It is for reading only: Pods are changed with patches. It does not implement kube's `Resource`, whose whole metadata would
//! cost more than all the rest; the cache takes the identity from [`Meta`].
//!
//! Need another field? Add it here, in `Template` when it is the same for all Pods of a template.

mod json;
pub mod status;
mod wire;

use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use crate::meta::{Meta, Pairs};
use crate::raw::AnyJson;
use crate::text::{Common, Shareable, Table, Text};
use crate::wire::or_empty;

pub use status::PodStatus;

/// What controllers read of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "wire::Pod")]
pub struct Pod {
    /// Name, labels, owners and so on.
    pub metadata: Meta,
    /// What is wanted.
    pub spec: PodSpec,
    /// What is.
    pub status: PodStatus,
}

projection!(Pod, of: k8s_openapi::api::core::v1::Pod);

/// What controllers read of a Pod's spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "wire::PodSpec")]
pub struct PodSpec {
    /// The node; empty until there is one.
    pub node_name: Text,
    /// What the Pod has in common with others of its template.
    pub template: Common<Template>,
    /// Required node affinity; Pods of a DaemonSet name their node here.
    pub required_nodes: Common<RequiredNodes>,
    /// Volumes that are claims.
    pub claims: Box<[Claim]>,
    /// Containers that were put into the Pod while it was there.
    pub ephemeral_containers: Common<EphemeralContainers>,
    /// All containers with all their fields, while the Pod is updated in place and only then: kubelets before 1.31 hash all of it.
    pub whole_containers: AnyJson,
}

/// What the Pods of one template have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Template {
    /// Containers.
    pub containers: Box<[Container]>,
    /// Init containers.
    pub init_containers: Box<[Container]>,
    /// Conditions that have to hold before the Pod is ready.
    pub readiness_gates: Box<[Text]>,
    /// `Always`, `OnFailure` or `Never`.
    pub restart_policy: Text,
    /// Labels that the node must have.
    pub node_selector: Pairs<Text>,
    /// Taints that the Pod tolerates.
    pub tolerations: Box<[Toleration]>,
    /// Seconds the Pod may take to end.
    pub termination_grace_period_seconds: Option<i64>,
    /// What the Pod needs beside its containers.
    pub overhead: Pairs<Text>,
}

impl Shareable for Template {
    fn table() -> &'static Table<Arc<Self>> {
        static TEMPLATES: LazyLock<Table<Arc<Template>>> = LazyLock::new(Table::default);
        &TEMPLATES
    }
}

impl Template {
    /// A container by name, also among the init containers.
    pub fn container(&self, name: &str) -> Option<&Container> {
        self.containers
            .iter()
            .chain(&self.init_containers)
            .find(|container| container.name == name)
    }
}

impl Pod {
    /// Whether an annotation of this key would be known, if the Pod has it; others are not kept.
    pub fn keeps_annotation(&self, key: &str) -> bool {
        crate::meta::is_read(key) || self.spec.template.takes_annotation(key)
    }
}

impl Template {
    /// Whether a container takes a variable from this annotation of the Pod, or from all of them.
    fn takes_annotation(&self, key: &str) -> bool {
        let containers = self.containers.iter().chain(&self.init_containers);
        let mut paths = containers
            .flat_map(|container| &container.env)
            .map(|variable| &*variable.field_path);
        paths.any(|path| {
            path.strip_prefix("metadata.annotations")
                .is_some_and(|rest| rest.is_empty() || rest.contains(key))
        })
    }
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Name, unique in the Pod.
    #[serde(deserialize_with = "or_empty")]
    pub name: Text,
    /// Image that should run.
    #[serde(deserialize_with = "or_empty")]
    pub image: Text,
    /// `Always` makes an init container a sidecar.
    #[serde(deserialize_with = "or_empty")]
    pub restart_policy: Text,
    /// Environment.
    #[serde(deserialize_with = "or_empty")]
    pub env: Box<[EnvVar]>,
    /// Resources.
    #[serde(deserialize_with = "or_empty")]
    pub resources: Resources,
    /// Resources whose change restarts the container.
    #[serde(rename = "resizePolicy", deserialize_with = "wire::restarting")]
    pub restarts_for: Box<[Text]>,
    /// Ports that have a name.
    #[serde(rename = "ports", deserialize_with = "wire::named")]
    pub named_ports: Box<[NamedPort]>,
}

/// A port of a container that is known by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamedPort {
    /// Name, unique in the Pod.
    #[serde(deserialize_with = "or_empty")]
    pub name: Text,
    /// Number.
    #[serde(deserialize_with = "or_empty")]
    pub container_port: i32,
}

impl Container {
    /// A variable of the environment.
    pub fn env(&self, name: &str) -> Option<&EnvVar> {
        self.env.iter().find(|variable| variable.name == name)
    }
}

/// A variable of a container's environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "wire::EnvVar")]
pub struct EnvVar {
    /// Name.
    pub name: Text,
    /// The value, when it is given as such.
    pub value: Text,
    /// The Pod's field that has the value, when it comes from one.
    pub field_path: Text,
    /// The key of a ConfigMap that has the value, when it comes from one.
    pub config_map_key: Text,
}

/// Requests and limits, as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Limits.
    #[serde(deserialize_with = "or_empty")]
    pub limits: Pairs<Text>,
    /// Requests.
    #[serde(deserialize_with = "or_empty")]
    pub requests: Pairs<Text>,
}

impl Shareable for Resources {
    fn table() -> &'static Table<Arc<Self>> {
        static RESOURCES: LazyLock<Table<Arc<Resources>>> = LazyLock::new(Table::default);
        &RESOURCES
    }
}

/// A taint that the Pod tolerates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// Key of the taint; empty for all.
    #[serde(deserialize_with = "or_empty")]
    pub key: Text,
    /// `Exists` or `Equal`.
    #[serde(deserialize_with = "or_empty")]
    pub operator: Text,
    /// Value of the taint.
    #[serde(deserialize_with = "or_empty")]
    pub value: Text,
    /// Effect of the taint; empty for all.
    #[serde(deserialize_with = "or_empty")]
    pub effect: Text,
    /// Seconds it is tolerated; for ever when not given.
    pub toleration_seconds: Option<i64>,
}

/// Alternatives for the node: one of them has to fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequiredNodes(pub Box<[NodeTerm]>);

impl Shareable for RequiredNodes {
    fn table() -> &'static Table<Arc<Self>> {
        static NODES: LazyLock<Table<Arc<RequiredNodes>>> = LazyLock::new(Table::default);
        &NODES
    }
}

/// Requirements on a node; all of them have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeTerm {
    /// Requirements on labels.
    #[serde(deserialize_with = "or_empty")]
    pub match_expressions: Box<[NodeRequirement]>,
    /// Requirements on fields.
    #[serde(deserialize_with = "or_empty")]
    pub match_fields: Box<[NodeRequirement]>,
}

/// A requirement on a label or field of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct NodeRequirement {
    /// The label or field.
    #[serde(deserialize_with = "or_empty")]
    pub key: Text,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    #[serde(deserialize_with = "or_empty")]
    pub operator: Text,
    /// Values to compare with.
    #[serde(deserialize_with = "or_empty")]
    pub values: Box<[Text]>,
}

/// Containers that were put into a Pod while it was there. Few Pods have any, and those of one job have the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct EphemeralContainers(pub Box<[EphemeralContainer]>);

impl Shareable for EphemeralContainers {
    fn table() -> &'static Table<Arc<Self>> {
        static CONTAINERS: LazyLock<Table<Arc<EphemeralContainers>>> = LazyLock::new(Table::default);
        &CONTAINERS
    }
}

/// A container that was put into a Pod while it was there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "wire::EphemeralContainer")]
pub struct EphemeralContainer {
    /// Name, unique in the Pod.
    pub name: Text,
    /// UID of the EphemeralJob that put it there; empty when it was somebody else.
    pub job: Text,
}

/// A volume that is a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Name of the volume.
    pub volume: Text,
    /// Name of the claim.
    pub name: Box<str>,
}

#[cfg(test)]
mod tests;
