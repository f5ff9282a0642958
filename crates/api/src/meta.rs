//! Metadata for objects in a cache: what decisions read, in little memory. `managedFields` and the like are skipped.
//!
//! Of the annotations those are kept that have a name of ours, some of Kubernetes' own, and those of a Pod from which its containers take variables. Others
//! can be as large as a whole object, and nobody asks for them.

pub mod compact;
pub(crate) mod json;
#[macro_use]
mod object;
mod owner;
pub mod pairs;

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

pub use compact::{CompactTimestamp, Uid};
pub use object::Object;
pub use owner::{Owned, group_of};
pub use pairs::{Annotations, Labels, Pairs};

use crate::names::{annotation, group};
use crate::text::{Common, Shareable, Table, Text};
use crate::wire::or_empty;

/// What decisions read of an object's metadata.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// Name.
    #[serde(deserialize_with = "or_empty")]
    pub name: Box<str>,
    /// Namespace; empty for objects of the cluster.
    #[serde(deserialize_with = "or_empty")]
    pub namespace: Text,
    /// UID.
    #[serde(deserialize_with = "or_empty")]
    pub uid: Uid,
    /// Version of the object, as the server counts; 0 when it is not a number.
    #[serde(deserialize_with = "number")]
    pub resource_version: u64,
    /// Generation of the spec.
    #[serde(deserialize_with = "or_empty")]
    pub generation: i64,
    /// When the object was made.
    pub creation_timestamp: Option<CompactTimestamp>,
    /// When the object is to be gone.
    pub deletion_timestamp: Option<CompactTimestamp>,
    /// Seconds it may take to go.
    pub deletion_grace_period_seconds: Option<i32>,
    /// Labels.
    #[serde(deserialize_with = "or_empty")]
    pub labels: Labels,
    /// Annotations that decisions read.
    #[serde(deserialize_with = "or_empty")]
    pub annotations: Annotations,
    /// Owners; kept once for all objects of the same owner.
    #[serde(deserialize_with = "owners")]
    pub owner_references: Common<Owners>,
    /// Finalizers.
    #[serde(deserialize_with = "or_empty")]
    pub finalizers: Box<[Text]>,
}

impl Meta {
    /// A label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key)
    }

    /// An annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key)
    }

    /// Lets go of annotations that no decision reads; `more` are read as well.
    pub(crate) fn keep_annotations(&mut self, more: impl Fn(&str) -> bool) {
        let all = std::mem::take(&mut self.annotations);
        self.annotations = all.only(|key| is_read(key) || more(key));
    }

    /// True when the object is on its way out.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether nothing but the version differs.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        let Self {
            name,
            namespace,
            uid,
            resource_version: _,
            generation,
            creation_timestamp,
            deletion_timestamp,
            deletion_grace_period_seconds,
            labels,
            annotations,
            owner_references,
            finalizers,
        } = self;
        *name == other.name
            && *namespace == other.namespace
            && *uid == other.uid
            && *generation == other.generation
            && *creation_timestamp == other.creation_timestamp
            && *deletion_timestamp == other.deletion_timestamp
            && *deletion_grace_period_seconds == other.deletion_grace_period_seconds
            && *labels == other.labels
            && *annotations == other.annotations
            && *owner_references == other.owner_references
            && *finalizers == other.finalizers
    }

    /// The owner that manages the object.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.0.iter().find(|owner| owner.controller)
    }
}

/// Keys that are read and have another name.
const READ: [&str; 5] = [
    annotation::IN_PLACE_STATE_OLD,
    annotation::IN_PLACE_GRACE_OLD,
    annotation::POD_DELETION_COST,
    annotation::DAEMON_SET_TEMPLATE_GENERATION,
    annotation::DEPLOYMENT_REVISION,
];

/// Whether a decision may read an annotation of any object.
pub(crate) fn is_read(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    // The domain of each of our groups is below our own.
    let ours = group::APPS.split_once('.').map_or(group::APPS, |(_, ours)| ours);
    domain.ends_with(ours) || READ.contains(&key)
}

/// Metadata of a kind of which nothing but known annotations is read.
pub(crate) fn known<'de, D: Deserializer<'de>>(from: D) -> Result<Meta, D::Error> {
    let mut meta: Meta = or_empty(from)?;
    meta.keep_annotations(|_| false);
    Ok(meta)
}

/// An object of which only the metadata is read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PartialObject {
    /// Name, labels, owners and so on.
    #[serde(deserialize_with = "known")]
    pub metadata: Meta,
}

has_meta!(PartialObject);

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Group and version of the owner.
    #[serde(deserialize_with = "or_empty")]
    pub api_version: Text,
    /// Kind of the owner.
    #[serde(deserialize_with = "or_empty")]
    pub kind: Text,
    /// Name of the owner.
    #[serde(deserialize_with = "or_empty")]
    pub name: Box<str>,
    /// UID of the owner.
    #[serde(deserialize_with = "or_empty")]
    pub uid: Uid,
    /// True for the one owner that manages the object.
    #[serde(deserialize_with = "or_empty")]
    pub controller: bool,
    /// True when the owner cannot go before the object.
    #[serde(deserialize_with = "or_empty")]
    pub block_owner_deletion: bool,
}

/// The owners of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owners(pub Box<[OwnerReference]>);

impl Shareable for Owners {
    fn table() -> &'static Table<Arc<Self>> {
        static OWNERS: LazyLock<Table<Arc<Owners>>> = LazyLock::new(Table::default);
        &OWNERS
    }
}

fn owners<'de, D: Deserializer<'de>>(from: D) -> Result<Common<Owners>, D::Error> {
    Ok(Owners(or_empty(from)?).into())
}

fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    struct Number;

    impl Visitor<'_> for Number {
        type Value = u64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<u64, E> {
            Ok(text.parse().unwrap_or_default())
        }

        fn visit_unit<E: serde::de::Error>(self) -> Result<u64, E> {
            Ok(0)
        }
    }

    from.deserialize_any(Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_annotations_then_only_those_that_are_read_are_kept() {
        let json = r#"{"metadata":{"name":"a","annotations":{"apps.kruise.io/x":"1","lifecycle.apps.kruise.io/timestamp":"2","inplace-update-state":"3",
            "controller.kubernetes.io/pod-deletion-cost":"4","example.com/huge":"5","kruise":"6"}}}"#;
        let object: PartialObject = serde_json::from_str(json).unwrap();
        let kept: Vec<_> = object.metadata.annotations.iter().map(|(_, value)| &**value).collect();
        assert_eq!(kept, ["1", "4", "3", "2"]);
    }
}
