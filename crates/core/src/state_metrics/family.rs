//! What is told about the objects of a kind: one name, one meaning, and how it is read.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::meta::Meta;

use super::{Sampled, Samples};

/// One number, or a group of numbers, about each object of a kind.
pub struct Family<K: 'static> {
    pub(super) suffix: &'static str,
    pub(super) help: &'static str,
    pub(super) labels: &'static [&'static str],
    pub(super) read: Read<K>,
}

/// How samples are read from an object.
pub(super) enum Read<K: 'static> {
    /// At most one number, without labels of its own.
    Value(fn(&K) -> Option<i64>),
    /// Any samples.
    Samples(fn(&K, &mut Samples<'_>)),
}

impl<K> Family<K> {
    /// A number without labels of its own; no sample where there is none.
    pub(super) const fn value(suffix: &'static str, help: &'static str, read: fn(&K) -> Option<i64>) -> Self {
        Self {
            suffix,
            help,
            labels: &[],
            read: Read::Value(read),
        }
    }

    /// Samples with labels of their own, or numbers that may be unreadable.
    pub(super) const fn samples(
        suffix: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        read: fn(&K, &mut Samples<'_>),
    ) -> Self {
        Self {
            suffix,
            help,
            labels,
            read: Read::Samples(read),
        }
    }
}

impl<K: Sampled> Family<K> {
    pub(super) const CREATED: Self = Self::value(
        "created",
        "When the object was made, in seconds since 1970.",
        |object| object.head().created(),
    );
    pub(super) const LABELS: Self = Self::samples(
        "labels",
        "1; has those labels of the object that --metric-labels-allowlist names.",
        &["label_…"],
        |object, to| to.pairs("label_", to.options().labels(K::PLURAL), &object.head().labels()),
    );
    pub(super) const ANNOTATIONS: Self = Self::samples(
        "annotations",
        "1; has those annotations of the object that --metric-annotations-allowlist names.",
        &["annotation_…"],
        |object, to| {
            to.pairs(
                "annotation_",
                to.options().annotations(K::PLURAL),
                &object.head().annotations(),
            );
        },
    );
    pub(super) const GENERATION: Self = Self::value(
        "metadata_generation",
        "Generation of the spec; it goes up with every change.",
        |object| Some(object.head().generation()),
    );
}

impl<K> fmt::Debug for Family<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Family({})", self.suffix)
    }
}

/// What families of all kinds read of the metadata.
pub trait Head {
    /// Returns when the object was made, in seconds since 1970.
    fn created(&self) -> Option<i64>;
    /// Returns the generation of its spec.
    fn generation(&self) -> i64;
    /// Returns its labels, sorted by key.
    fn labels(&self) -> Vec<(&str, &str)>;
    /// Returns its annotations, sorted by key.
    fn annotations(&self) -> Vec<(&str, &str)>;
}

impl Head for ObjectMeta {
    fn created(&self) -> Option<i64> {
        Some(self.creation_timestamp.as_ref()?.0.as_second())
    }

    fn generation(&self) -> i64 {
        self.generation.unwrap_or_default()
    }

    fn labels(&self) -> Vec<(&str, &str)> {
        let labels = self.labels.iter().flatten();
        labels.map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }

    fn annotations(&self) -> Vec<(&str, &str)> {
        let annotations = self.annotations.iter().flatten();
        annotations.map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }
}

impl Head for Meta {
    fn created(&self) -> Option<i64> {
        Some(self.creation_timestamp?.timestamp().as_second())
    }

    fn generation(&self) -> i64 {
        self.generation
    }

    fn labels(&self) -> Vec<(&str, &str)> {
        self.labels.iter().map(|(key, value)| (key, &**value)).collect()
    }

    fn annotations(&self) -> Vec<(&str, &str)> {
        self.annotations.iter().map(|(key, value)| (key, &**value)).collect()
    }
}

/// A family as documents show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyInfo {
    /// Its whole name.
    pub name: String,
    /// What it means.
    pub help: &'static str,
    /// Its labels beside those that every sample has.
    pub labels: &'static [&'static str],
}

/// A kind with its families.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// Its resource name in URLs.
    pub plural: &'static str,
    /// Its name.
    pub kind: &'static str,
    /// What is told about its objects.
    pub families: Vec<FamilyInfo>,
}

impl KindInfo {
    pub(super) fn of<K: Sampled>() -> Self {
        let families = K::FAMILIES.iter().map(|family| FamilyInfo {
            name: family.name(),
            help: family.help,
            labels: family.labels,
        });
        Self {
            plural: K::PLURAL,
            kind: K::KIND,
            families: families.collect(),
        }
    }
}

impl<K: Sampled> Family<K> {
    /// Returns its whole name.
    pub(super) fn name(&self) -> String {
        format!("kruise_{}_{}", K::KIND.to_ascii_lowercase(), self.suffix)
    }
}
