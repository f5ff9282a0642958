//! What a simulated kubelet reads of a Pod.
//!
//! A Pod on the wire is several kilobytes, most of it `managedFields` and parts of the spec nobody here looks at. These types name only
//! what decides a Pod's life, so that the parser skips the rest and thousands of Pods stay cheap. The status types serve twice: as what
//! was read, and as what shall be written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Deserializer, Serialize};

use super::script::PREFIX;

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct PodView {
    #[serde(deserialize_with = "lean_metadata")]
    pub(super) metadata: ObjectMeta,
    pub(super) spec: Spec,
    #[serde(default)]
    pub(super) status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    pub(super) node_name: String,
    pub(super) restart_policy: String,
    pub(super) host_network: bool,
    pub(super) readiness_gates: Vec<Gate>,
    pub(super) init_containers: Vec<Container>,
    pub(super) containers: Vec<Container>,
    pub(super) ephemeral_containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Gate {
    pub(super) condition_type: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) image: String,
    /// Only `Always` on an init container matters: it makes a sidecar of it.
    pub(super) restart_policy: String,
    pub(super) resources: Resources,
    pub(super) resize_policy: Vec<ResizePolicy>,
    /// Only variables that need a ConfigMap are kept.
    #[serde(deserialize_with = "config_map_keys")]
    pub(super) env: Vec<ConfigMapKey>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Resources {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) limits: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) requests: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ResizePolicy {
    pub(super) resource_name: String,
    pub(super) restart_policy: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub(super) struct ConfigMapKey {
    pub(super) name: String,
    pub(super) key: String,
    pub(super) optional: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub(super) phase: String,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
    pub(super) observed_generation: Option<i64>,
    #[serde(rename = "hostIP")]
    pub(super) host_ip: Option<String>,
    #[serde(rename = "podIP")]
    pub(super) pod_ip: Option<String>,
    pub(super) start_time: Option<Timestamp>,
    pub(super) conditions: Vec<Condition>,
    pub(super) init_container_statuses: Vec<ContainerStatus>,
    pub(super) container_statuses: Vec<ContainerStatus>,
    pub(super) ephemeral_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
    pub(super) last_transition_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerStatus {
    pub(super) name: String,
    pub(super) state: ContainerState,
    pub(super) last_state: ContainerState,
    pub(super) ready: bool,
    pub(super) started: Option<bool>,
    pub(super) restart_count: i32,
    pub(super) image: String,
    #[serde(rename = "imageID")]
    pub(super) image_id: String,
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub(super) container_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resources: Option<Resources>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) allocated_resources: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct ContainerState {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waiting: Option<Waiting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) running: Option<Running>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Waiting {
    pub(super) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Running {
    pub(super) started_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Terminated {
    pub(super) exit_code: i32,
    pub(super) reason: String,
    pub(super) started_at: Option<Timestamp>,
    pub(super) finished_at: Option<Timestamp>,
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub(super) container_id: String,
}

impl PodView {
    pub(super) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Versions of one kind grow, so two of them can be compared as numbers.
    pub(super) fn version(&self) -> u64 {
        self.metadata
            .resource_version
            .as_deref()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    }

    pub(super) fn deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub(super) fn has_finalizers(&self) -> bool {
        self.metadata.finalizers.as_ref().is_some_and(|list| !list.is_empty())
    }

    pub(super) fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata
            .annotations
            .iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

impl Status {
    pub(super) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

impl Container {
    pub(super) fn is_sidecar(&self) -> bool {
        self.restart_policy == "Always"
    }
}

/// Lets kube's own list-and-watch deliver this projection.
impl Resource for PodView {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Pod".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

fn lean_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Lean {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        generation: Option<i64>,
        deletion_timestamp: Option<Timestamp>,
        deletion_grace_period_seconds: Option<i64>,
        annotations: BTreeMap<String, String>,
        finalizers: Option<Vec<String>>,
    }
    let mut lean = Lean::deserialize(deserializer)?;
    lean.annotations.retain(|key, _| key.starts_with(PREFIX));
    Ok(ObjectMeta {
        name: lean.name,
        namespace: lean.namespace,
        uid: lean.uid,
        resource_version: lean.resource_version,
        generation: lean.generation,
        deletion_timestamp: lean.deletion_timestamp.map(Time),
        deletion_grace_period_seconds: lean.deletion_grace_period_seconds,
        annotations: (!lean.annotations.is_empty()).then_some(lean.annotations),
        finalizers: lean.finalizers,
        ..ObjectMeta::default()
    })
}

fn config_map_keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ConfigMapKey>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Variable {
        value_from: Option<Source>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Source {
        config_map_key_ref: Option<ConfigMapKey>,
    }
    let variables = Vec::<Variable>::deserialize(deserializer)?;
    let mut keys: Vec<_> = variables
        .into_iter()
        .filter_map(|v| v.value_from?.config_map_key_ref)
        .collect();
    keys.retain(|key| !key.optional);
    keys.shrink_to_fit();
    Ok(keys)
}
