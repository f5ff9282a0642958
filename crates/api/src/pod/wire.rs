//! What a Pod looks like on the wire, as far as we read it.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::status::Holds;
use super::{
    self as pod, Container, EphemeralContainers, NamedPort, NodeTerm, PodStatus, RequiredNodes, Template, Toleration,
};
use crate::meta::{Meta, Pairs};
use crate::names::condition::pod::IN_PLACE_UPDATE_READY;
use crate::names::{env, label};
use crate::text::Text;
use crate::wire::or_empty;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Pod {
    #[serde(deserialize_with = "or_empty")]
    metadata: Meta,
    #[serde(deserialize_with = "or_empty")]
    spec: PodSpec,
    #[serde(deserialize_with = "or_empty")]
    status: PodStatus,
}

impl From<Pod> for pod::Pod {
    fn from(mut wire: Pod) -> Self {
        let text = wire.spec.containers.text.take();
        let mut pod = Self {
            metadata: wire.metadata,
            spec: wire.spec.into(),
            status: wire.status,
        };
        pod.metadata
            .keep_annotations(|key| pod.spec.template.takes_annotation(key));
        if let Some(text) = text.filter(|_| is_updating(&pod)) {
            pod.spec.whole_containers = text.into();
        }
        pod
    }
}

/// An update in place is under way, or its end is not noted everywhere.
fn is_updating(pod: &pod::Pod) -> bool {
    let condition = pod.status.condition(IN_PLACE_UPDATE_READY);
    pod.metadata.label(label::LIFECYCLE_STATE) == Some("Updating")
        || condition.is_some_and(|condition| condition.status == Holds::False)
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    #[serde(deserialize_with = "or_empty")]
    node_name: Text,
    #[serde(deserialize_with = "or_empty")]
    containers: Containers,
    #[serde(deserialize_with = "or_empty")]
    init_containers: Box<[Container]>,
    #[serde(deserialize_with = "or_empty")]
    readiness_gates: Vec<ReadinessGate>,
    #[serde(deserialize_with = "or_empty")]
    restart_policy: Text,
    #[serde(deserialize_with = "or_empty")]
    node_selector: Pairs<Text>,
    #[serde(deserialize_with = "or_empty")]
    tolerations: Box<[Toleration]>,
    termination_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "or_empty")]
    overhead: Pairs<Text>,
    #[serde(deserialize_with = "or_empty")]
    affinity: Affinity,
    #[serde(deserialize_with = "or_empty")]
    volumes: Vec<Volume>,
    #[serde(deserialize_with = "or_empty")]
    ephemeral_containers: Box<[pod::EphemeralContainer]>,
}

/// Containers as far as we read them, and as they came.
#[derive(Default)]
struct Containers {
    read: Box<[Container]>,
    text: Option<Box<RawValue>>,
}

impl<'de> Deserialize<'de> for Containers {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(from)?;
        let read = crate::read::from_slice(text.get().as_bytes()).map_err(serde::de::Error::custom)?;
        Ok(Self { read, text: Some(text) })
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReadinessGate {
    #[serde(deserialize_with = "or_empty")]
    condition_type: Text,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    #[serde(deserialize_with = "or_empty")]
    node_affinity: NodeAffinity,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    #[serde(deserialize_with = "or_empty")]
    required_during_scheduling_ignored_during_execution: NodeSelector,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector {
    #[serde(deserialize_with = "or_empty")]
    node_selector_terms: Box<[NodeTerm]>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    #[serde(deserialize_with = "or_empty")]
    name: Box<str>,
    persistent_volume_claim: Option<Claim>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Claim {
    #[serde(deserialize_with = "or_empty")]
    claim_name: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct EphemeralContainer {
    #[serde(deserialize_with = "or_empty")]
    name: Text,
    #[serde(deserialize_with = "or_empty")]
    env: Vec<pod::EnvVar>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EnvVar {
    #[serde(deserialize_with = "or_empty")]
    name: Text,
    #[serde(deserialize_with = "or_empty")]
    value: Text,
    #[serde(deserialize_with = "or_empty")]
    value_from: EnvSource,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EnvSource {
    #[serde(deserialize_with = "or_empty")]
    field_ref: FieldRef,
    #[serde(deserialize_with = "or_empty")]
    config_map_key_ref: KeyRef,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FieldRef {
    #[serde(deserialize_with = "or_empty")]
    field_path: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct KeyRef {
    #[serde(deserialize_with = "or_empty")]
    key: Text,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResizePolicy {
    #[serde(deserialize_with = "or_empty")]
    resource_name: Text,
    #[serde(deserialize_with = "or_empty")]
    restart_policy: Text,
}

/// Of the ports only those that have a name.
pub(super) fn named<'de, D: Deserializer<'de>>(from: D) -> Result<Box<[NamedPort]>, D::Error> {
    let ports: Vec<NamedPort> = or_empty(from)?;
    Ok(ports.into_iter().filter(|port| !port.name.is_empty()).collect())
}

/// Of the resize policies only those that restart the container.
pub(super) fn restarting<'de, D: Deserializer<'de>>(from: D) -> Result<Box<[Text]>, D::Error> {
    let policies: Vec<ResizePolicy> = or_empty(from)?;
    let restarting = policies
        .into_iter()
        .filter(|policy| policy.restart_policy == "RestartContainer");
    Ok(restarting.map(|policy| policy.resource_name).collect())
}

impl From<PodSpec> for pod::PodSpec {
    fn from(wire: PodSpec) -> Self {
        let claim = |volume: Volume| {
            let claim = volume.persistent_volume_claim?;
            Some(pod::Claim {
                volume: Text::from(&*volume.name),
                name: claim.claim_name,
            })
        };
        let template = Template {
            containers: wire.containers.read,
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
            overhead: wire.overhead,
        };
        let required = wire
            .affinity
            .node_affinity
            .required_during_scheduling_ignored_during_execution;
        Self {
            node_name: wire.node_name,
            template: template.into(),
            required_nodes: RequiredNodes(required.node_selector_terms).into(),
            claims: wire.volumes.into_iter().filter_map(claim).collect(),
            ephemeral_containers: EphemeralContainers(wire.ephemeral_containers).into(),
            whole_containers: crate::raw::AnyJson::default(),
        }
    }
}

impl From<EphemeralContainer> for pod::EphemeralContainer {
    fn from(wire: EphemeralContainer) -> Self {
        let marker = wire
            .env
            .into_iter()
            .find(|variable| variable.name == env::EPHEMERAL_JOB_ID);
        Self {
            name: wire.name,
            job: marker.map(|variable| variable.value).unwrap_or_default(),
        }
    }
}

impl From<EnvVar> for pod::EnvVar {
    fn from(wire: EnvVar) -> Self {
        Self {
            name: wire.name,
            value: wire.value,
            field_path: wire.value_from.field_ref.field_path,
            config_map_key: wire.value_from.config_map_key_ref.key,
        }
    }
}
