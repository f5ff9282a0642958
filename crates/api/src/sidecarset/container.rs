//! A container to put into Pods: a container of Kubernetes, and beside its fields ours.

use std::fmt;

use k8s_openapi::api::core::v1::{Container, ObjectFieldSelector};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::Blank;
use crate::read::{self, ReadError};

words! {
    /// Where among the Pod's containers it goes.
    pub enum PodInjectPolicy {
        /// In front of the Pod's own.
        BeforeAppContainer,
        /// Behind the Pod's own.
        AfterAppContainer,
    }

    /// How the container is updated.
    pub enum UpgradeType {
        /// Its image is changed; it restarts.
        ColdUpgrade,
        /// Two containers take turns, so that one always runs.
        HotUpgrade,
    }

    /// Whether something is shared with the Pod's own containers.
    pub enum SharePolicyType {
        /// It is.
        Enabled = "enabled",
        /// It is not.
        Disabled = "disabled",
    }

    /// How the resources of several containers become one number.
    pub enum TargetContainersMode {
        /// Their sum.
        Sum = "sum",
        /// The largest.
        Max = "max",
    }
}

api! {
    /// What a SidecarSet adds to a container.
    pub struct SidecarPolicy {
        /// Whether it goes in front of the Pod's own containers, `BeforeAppContainer`, or behind them, `AfterAppContainer`.
        pod_inject_policy: PodInjectPolicy,
        /// How the container is updated in running Pods.
        upgrade_strategy: UpgradeStrategy,
        /// Whether it gets the volume mounts of the Pod's own containers.
        share_volume_policy: SharePolicy,
        /// Whether it gets the volume devices of the Pod's own containers.
        share_volume_device_policy: Option<SharePolicy>,
        /// Environment variables to take over from other containers.
        transfer_env: Vec<TransferEnv>,
        /// Resources as a function of those of other containers.
        resources_policy: Option<ResourcesPolicy>,
    }

    /// How the container is updated in running Pods.
    pub struct UpgradeStrategy {
        /// `ColdUpgrade` restarts the container, `HotUpgrade` lets two take turns.
        upgrade_type: UpgradeType,
        /// Image of the one of the two that waits; for `HotUpgrade`.
        hot_upgrade_empty_image: String,
    }

    /// Whether something is shared with the Pod's own containers.
    pub struct SharePolicy {
        /// `enabled` or `disabled`.
        #[serde(rename = "type")]
        type_: SharePolicyType,
    }

    /// Environment variables to take over from another container.
    pub struct TransferEnv {
        /// Name of that container.
        source_container_name: String,
        /// Where to find the name of that container.
        source_container_name_from: Option<SourceContainerName>,
        /// Name of one variable.
        env_name: String,
        /// Names of more variables.
        env_names: Vec<String>,
    }

    /// Where to find the name of a container.
    pub struct SourceContainerName {
        /// A field of the Pod that has the name.
        field_ref: Option<ObjectFieldSelector>,
    }

    /// Resources as a function of those of other containers.
    pub struct ResourcesPolicy {
        /// Containers to look at, by name.
        #[schema(extend("x-default" = ".*"))]
        target_containers_name_regex: String,
        /// `sum` adds their resources, `max` takes the largest.
        #[schema(extend("enum" = ["sum", "max"]))]
        required target_containers_mode: TargetContainersMode,
        /// The functions.
        required resources_expr: ResourcesExpr,
    }

    /// Functions of `cpu` and `memory`.
    pub struct ResourcesExpr {
        /// The limits.
        limits: Option<ResourceExprs>,
        /// The requests.
        requests: Option<ResourceExprs>,
    }

    /// A function for each resource.
    pub struct ResourceExprs {
        /// The CPU, as in `max(cpu*50%, 50m)`.
        cpu: String,
        /// The memory, as in `min(memory*50%, 200Mi)`.
        memory: String,
    }
}

/// A container to put into Pods. The fields of Kubernetes are kept as they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SidecarContainer {
    /// What we do with it.
    pub policy: SidecarPolicy,
    /// The container itself.
    pub container: Map<String, Value>,
}

impl SidecarContainer {
    /// Name of the container.
    pub fn name(&self) -> &str {
        self.text("name")
    }

    /// Image of the container.
    pub fn image(&self) -> &str {
        self.text("image")
    }

    /// A typed look at the container. What the type does not know is not in the view, but stays in `container`.
    pub fn view(&self) -> Result<Container, ReadError> {
        read::from_value(&Value::Object(self.container.clone()))
    }

    fn text(&self, field: &str) -> &str {
        self.container.get(field).and_then(Value::as_str).unwrap_or_default()
    }
}

impl Serialize for SidecarContainer {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // Named in full, so that a new field cannot be forgotten here.
        let SidecarPolicy {
            pod_inject_policy,
            upgrade_strategy,
            share_volume_policy,
            share_volume_device_policy,
            transfer_env,
            resources_policy,
        } = &self.policy;
        let mut map = to.serialize_map(None)?;
        for (key, value) in &self.container {
            map.serialize_entry(key, value)?;
        }
        entry(&mut map, "podInjectPolicy", pod_inject_policy)?;
        entry(&mut map, "upgradeStrategy", upgrade_strategy)?;
        entry(&mut map, "shareVolumePolicy", share_volume_policy)?;
        entry(&mut map, "shareVolumeDevicePolicy", share_volume_device_policy)?;
        entry(&mut map, "transferEnv", transfer_env)?;
        entry(&mut map, "resourcesPolicy", resources_policy)?;
        map.end()
    }
}

fn entry<M: SerializeMap, T: Serialize + Blank>(map: &mut M, key: &str, value: &T) -> Result<(), M::Error> {
    if value.is_blank() {
        Ok(())
    } else {
        map.serialize_entry(key, value)
    }
}

impl<'de> Deserialize<'de> for SidecarContainer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ContainerVisitor;

        impl<'de> Visitor<'de> for ContainerVisitor {
            type Value = SidecarContainer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a container")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SidecarContainer, A::Error> {
                let mut read = SidecarContainer::default();
                let policy = &mut read.policy;
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "podInjectPolicy" => policy.pod_inject_policy = value(&mut map)?,
                        "upgradeStrategy" => policy.upgrade_strategy = value(&mut map)?,
                        "shareVolumePolicy" => policy.share_volume_policy = value(&mut map)?,
                        "shareVolumeDevicePolicy" => policy.share_volume_device_policy = value(&mut map)?,
                        "transferEnv" => policy.transfer_env = value(&mut map)?,
                        "resourcesPolicy" => policy.resources_policy = value(&mut map)?,
                        _ => {
                            read.container.insert(key, map.next_value()?);
                        }
                    }
                }
                Ok(read)
            }
        }

        from.deserialize_map(ContainerVisitor)
    }
}

fn value<'de, A: MapAccess<'de>, T: Deserialize<'de> + Default>(map: &mut A) -> Result<T, A::Error> {
    Ok(map.next_value::<Option<T>>()?.unwrap_or_default())
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for SidecarContainer {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SidecarContainer".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = SidecarPolicy::json_schema(generator);
        schema.insert(
            "description".to_owned(),
            "A container of Kubernetes, with what a SidecarSet adds to it.".into(),
        );
        schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
        schema.insert(crate::schema::structural::HOLDS.to_owned(), "Container(inline)".into());
        schema
    }
}
