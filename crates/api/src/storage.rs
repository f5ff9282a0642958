//! Claims and storage classes as controllers read them.
//!
//! What claims of one template have in common (class, size, state) is kept once for all of them: a claim takes two words more than its metadata.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer};

use crate::meta::{Meta, known};
use crate::pod::status::Holds;
use crate::text::{Common, Shareable, Table, Text};
use crate::wire::or_empty;

/// What controllers read of a claim. For reading only.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    /// Name, labels, owners and so on.
    #[serde(deserialize_with = "known")]
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "common")]
    pub spec: Common<ClaimSpec>,
    /// What is.
    #[serde(deserialize_with = "common")]
    pub status: Common<ClaimStatus>,
}

projection!(PersistentVolumeClaim, of: k8s_openapi::api::core::v1::PersistentVolumeClaim);

impl PersistentVolumeClaim {
    /// Returns the size that is asked for; empty when none is.
    pub fn requested(&self) -> &str {
        &self.spec.resources.requests.storage
    }

    /// Returns the size of the volume; empty before there is one.
    pub fn capacity(&self) -> &str {
        &self.status.capacity.storage
    }

    /// Returns a condition that holds, by type.
    pub fn condition(&self, type_: &str) -> Option<&ClaimCondition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| condition.type_ == type_ && condition.status == Holds::True)
    }
}

/// What controllers read of a claim's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// The class; none when it is not set.
    pub storage_class_name: Option<Text>,
    /// How the volume may be mounted.
    #[serde(deserialize_with = "or_empty")]
    pub access_modes: Box<[Text]>,
    /// How much storage is wanted.
    #[serde(deserialize_with = "or_empty")]
    pub resources: ClaimResources,
}

/// What a claim asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct ClaimResources {
    /// At least so much.
    #[serde(deserialize_with = "or_empty")]
    pub requests: Storage,
}

/// An amount of storage, as Kubernetes writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Storage {
    /// The amount; empty when none is given.
    #[serde(deserialize_with = "or_empty")]
    pub storage: Text,
}

/// What controllers read of a claim's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct ClaimStatus {
    /// `Pending`, `Bound` or `Lost`.
    #[serde(deserialize_with = "or_empty")]
    pub phase: Text,
    /// How big the volume is.
    #[serde(deserialize_with = "or_empty")]
    pub capacity: Storage,
    /// What holds up the volume, or lets it grow.
    #[serde(deserialize_with = "or_empty")]
    pub conditions: Box<[ClaimCondition]>,
}

/// A condition of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct ClaimCondition {
    /// What the condition is about.
    #[serde(rename = "type", deserialize_with = "or_empty")]
    pub type_: Text,
    /// Whether it holds.
    #[serde(deserialize_with = "or_empty")]
    pub status: Holds,
    /// Details.
    #[serde(deserialize_with = "or_empty")]
    pub message: Text,
}

impl Shareable for ClaimSpec {
    fn table() -> &'static Table<Arc<Self>> {
        static SPECS: LazyLock<Table<Arc<ClaimSpec>>> = LazyLock::new(Table::default);
        &SPECS
    }
}

impl Shareable for ClaimStatus {
    fn table() -> &'static Table<Arc<Self>> {
        static STATUSES: LazyLock<Table<Arc<ClaimStatus>>> = LazyLock::new(Table::default);
        &STATUSES
    }
}

fn common<'de, T: Shareable + Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Common<T>, D::Error> {
    Ok(or_empty::<D, T>(from)?.into())
}

/// What controllers read of a storage class. For reading only.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// Name and so on.
    #[serde(deserialize_with = "known")]
    pub metadata: Meta,
    /// Whether its volumes can grow; when nothing is said they cannot.
    #[serde(deserialize_with = "or_empty")]
    pub allow_volume_expansion: bool,
}

projection!(StorageClass, of: k8s_openapi::api::storage::v1::StorageClass);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claim(name: &str) -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "volumeName": format!("pv-{name}"),
                "resources": {"requests": {"storage": "2Gi"}, "limits": null},
            },
            "status": {
                "phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "conditions": [
                    {"type": "Resizing", "status": "False"},
                    {"type": "FileSystemResizePending", "status": "True", "message": "restart", "lastProbeTime": null},
                ],
            },
        }))
        .unwrap()
    }

    #[test]
    fn given_claims_of_one_template_then_what_they_share_is_kept_once() {
        let (one, other) = (claim("a"), claim("b"));
        assert!(one.spec.is_same(&other.spec) && one.status.is_same(&other.status));
        assert_eq!(
            size_of::<PersistentVolumeClaim>(),
            size_of::<Meta>() + 2 * size_of::<usize>()
        );
    }

    #[test]
    fn given_a_claim_then_size_class_and_what_holds_are_read() {
        let claim = claim("a");
        assert_eq!((claim.requested(), claim.capacity()), ("2Gi", "1Gi"));
        assert_eq!(claim.spec.storage_class_name.as_deref(), Some("fast"));
        let pending = claim.condition("FileSystemResizePending").unwrap();
        assert_eq!(pending.message, "restart");
        assert_eq!(claim.condition("Resizing"), None, "it does not hold");
        let empty: PersistentVolumeClaim = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        assert_eq!((empty.requested(), empty.capacity()), ("", ""));
        assert_eq!(empty.spec.storage_class_name, None);
    }

    #[test]
    fn given_a_class_that_says_nothing_then_its_volumes_cannot_grow() {
        for (said, grows) in [(json!(true), true), (json!(false), false), (json!(null), false)] {
            let class = json!({"metadata": {"name": "fast"}, "allowVolumeExpansion": said});
            let class: StorageClass = serde_json::from_value(class).unwrap();
            assert_eq!(class.allow_volume_expansion, grows);
        }
        assert!(
            !serde_json::from_value::<StorageClass>(json!({}))
                .unwrap()
                .allow_volume_expansion
        );
    }
}
