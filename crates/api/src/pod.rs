//! The slice of a Pod that controllers look at, in little memory.
//!
//! A cluster has many Pods, and a whole Pod is large. This type declares only what decisions read, so that the parser skips
//! the rest; what all Pods of one template have in common is kept once ([`Template`]), as are texts that repeat.
//! It is for reading only: Pods are changed with patches. It does not implement kube's `Resource`, whose whole metadata would
//! cost more than all the rest; the cache takes the identity from [`Meta`].
//!
//! Need another field? Add it here, in `Template` when it is the same for all Pods of a template.

pub mod status;

use std::sync::{Arc, LazyLock};

use k8s_openapi::api::core::v1::NodeSelectorTerm;
use serde::Deserialize;

use crate::meta::{Meta, Pairs};
use crate::text::{Common, Shareable, Table, Text};
use crate::wire::or_empty;

pub use status::PodStatus;

/// What controllers read of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Name, labels, owners and so on.
    #[serde(deserialize_with = "or_empty")]
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "or_empty")]
    pub spec: PodSpec,
    /// What is.
    #[serde(deserialize_with = "or_empty")]
    pub status: PodStatus,
}

/// What controllers read of a Pod's spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "WirePodSpec")]
pub struct PodSpec {
    /// The node; empty until there is one.
    pub node_name: Text,
    /// What the Pod has in common with others of its template.
    pub template: Common<Template>,
    /// Alternatives of required node affinity; Pods of a DaemonSet name their node here.
    pub required_nodes: Box<[NodeSelectorTerm]>,
    /// Volumes that are claims.
    pub claims: Box<[Claim]>,
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
}

impl Container {
    /// A variable of the environment.
    pub fn env(&self, name: &str) -> Option<&EnvVar> {
        self.env.iter().find(|variable| variable.name == name)
    }
}

/// A variable of a container's environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "WireEnvVar")]
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

/// A volume that is a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Name of the volume.
    pub volume: Text,
    /// Name of the claim.
    pub name: Box<str>,
}

/// The wire form of [`PodSpec`].
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WirePodSpec {
    #[serde(deserialize_with = "or_empty")]
    node_name: Text,
    #[serde(deserialize_with = "or_empty")]
    containers: Box<[Container]>,
    #[serde(deserialize_with = "or_empty")]
    init_containers: Box<[Container]>,
    #[serde(deserialize_with = "or_empty")]
    readiness_gates: Vec<WireReadinessGate>,
    #[serde(deserialize_with = "or_empty")]
    restart_policy: Text,
    #[serde(deserialize_with = "or_empty")]
    node_selector: Pairs<Text>,
    #[serde(deserialize_with = "or_empty")]
    tolerations: Box<[Toleration]>,
    termination_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "or_empty")]
    affinity: WireAffinity,
    #[serde(deserialize_with = "or_empty")]
    volumes: Vec<WireVolume>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireReadinessGate {
    #[serde(deserialize_with = "or_empty")]
    condition_type: Text,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireAffinity {
    #[serde(deserialize_with = "or_empty")]
    node_affinity: WireNodeAffinity,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireNodeAffinity {
    #[serde(deserialize_with = "or_empty")]
    required_during_scheduling_ignored_during_execution: WireNodeSelector,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireNodeSelector {
    #[serde(deserialize_with = "or_empty")]
    node_selector_terms: Box<[NodeSelectorTerm]>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireVolume {
    #[serde(deserialize_with = "or_empty")]
    name: Box<str>,
    persistent_volume_claim: Option<WireClaim>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireClaim {
    #[serde(deserialize_with = "or_empty")]
    claim_name: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireEnvVar {
    #[serde(deserialize_with = "or_empty")]
    name: Text,
    #[serde(deserialize_with = "or_empty")]
    value: Text,
    #[serde(deserialize_with = "or_empty")]
    value_from: WireEnvSource,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireEnvSource {
    #[serde(deserialize_with = "or_empty")]
    field_ref: WireFieldRef,
    #[serde(deserialize_with = "or_empty")]
    config_map_key_ref: WireKeyRef,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireFieldRef {
    #[serde(deserialize_with = "or_empty")]
    field_path: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireKeyRef {
    #[serde(deserialize_with = "or_empty")]
    key: Text,
}

impl From<WirePodSpec> for PodSpec {
    fn from(wire: WirePodSpec) -> Self {
        let claim = |volume: WireVolume| {
            let claim = volume.persistent_volume_claim?;
            Some(Claim {
                volume: Text::from(&*volume.name),
                name: claim.claim_name,
            })
        };
        let template = Template {
            containers: wire.containers,
            init_containers: wire.init_containers,
            readiness_gates: wire
                .readiness_gates
                .into_iter()
                .map(|gate| gate.condition_type)
                .collect(),
            restart_policy: wire.restart_policy,
            node_selector: wire.node_selector,
            tolerations: wire.tolerations,
            termination_grace_period_seconds: wire.termination_grace_period_seconds,
        };
        let required = wire
            .affinity
            .node_affinity
            .required_during_scheduling_ignored_during_execution;
        Self {
            node_name: wire.node_name,
            template: template.into(),
            required_nodes: required.node_selector_terms,
            claims: wire.volumes.into_iter().filter_map(claim).collect(),
        }
    }
}

impl From<WireEnvVar> for EnvVar {
    fn from(wire: WireEnvVar) -> Self {
        Self {
            name: wire.name,
            value: wire.value,
            field_path: wire.value_from.field_ref.field_path,
            config_map_key: wire.value_from.config_map_key_ref.key,
        }
    }
}

#[cfg(test)]
mod tests;
