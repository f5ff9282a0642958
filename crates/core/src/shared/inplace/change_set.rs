//! What an update in place changes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::shared::pod_change::ResourceChange;

/// The difference between two revisions, as far as it can be applied to a running Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangeSet {
    /// The revision that the Pod shall be at, as the records name it.
    pub revision: String,
    /// New images by container.
    pub images: BTreeMap<String, String>,
    /// New limits and requests by container, only those that change.
    pub resources: BTreeMap<String, ResourceChange>,
    /// What else changes of the metadata: a strategic merge patch of it.
    pub metadata: Map<String, Value>,
    /// Labels and annotations that feed a container's environment, by container.
    pub referenced: BTreeMap<String, RefMetadata>,
    /// Seconds between making the Pod not ready and changing it.
    pub grace_seconds: i32,
}

impl ChangeSet {
    /// Whether containers get a new environment from changed labels or annotations.
    pub fn updates_env(&self) -> bool {
        !self.referenced.is_empty()
    }

    /// Whether nothing but resources changes in containers.
    pub fn is_vertical_only(&self) -> bool {
        !self.resources.is_empty() && self.images.is_empty() && !self.updates_env()
    }

    /// Whether nothing changes but the revision.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty() && self.resources.is_empty() && self.metadata.is_empty() && self.referenced.is_empty()
    }
}

/// Labels and annotations that a container's environment is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RefMetadata {
    /// Always null: the original writes whole metadata.
    pub creation_timestamp: (),
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl RefMetadata {
    /// Whether both name one key.
    pub fn shares_a_key_with(&self, other: &Self) -> bool {
        let shared = |one: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
            one.keys().any(|key| other.contains_key(key))
        };
        shared(&self.labels, &other.labels) || shared(&self.annotations, &other.annotations)
    }
}
