//! How a kind is kept: which resource it is, how its objects are told apart, and by what they are found.

use std::fmt;
use std::time::Duration;

use kruise_api::meta::{Meta, Object, Uid};
use kruise_api::resource::Resource;

use super::index::Index;
use super::list_watch::Selection;

/// Namespace and name of an object, borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Named<'a> {
    /// Namespace; empty for objects of the cluster.
    pub namespace: &'a str,
    pub name: &'a str,
}

/// Which version of which object this is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion` as a number; 0 when it is none. Later writes have higher numbers.
    pub resource_version: u64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

/// From the small metadata that projections have.
impl<'a> From<&'a Meta> for Named<'a> {
    fn from(meta: &'a Meta) -> Self {
        Self {
            namespace: &meta.namespace,
            name: &meta.name,
        }
    }
}

impl From<&Meta> for Version {
    fn from(meta: &Meta) -> Self {
        Self {
            uid: meta.uid.clone(),
            resource_version: meta.resource_version,
            deleting: meta.is_deleting(),
        }
    }
}

/// A kind of the cache: `Kind::<Pod>::of()`.
pub struct Kind<K> {
    resource: &'static Resource,
    name: fn(&K) -> Named<'_>,
    version: fn(&K) -> Version,
    indexes: Vec<Index<K>>,
    labels: Option<String>,
    fields: Option<String>,
    namespace: Option<String>,
    page_size: u32,
    metadata_only: bool,
    is_same: Option<fn(&K, &K) -> bool>,
}

/// Most objects of a page of a list; there are fewer when they are big.
const PAGE_SIZE: u32 = 250;

impl<K> Kind<K> {
    /// Returns the kind that a type stands for.
    pub fn of() -> Self
    where
        K: kruise_api::kind::Kind + Object,
    {
        Self::partial(K::RESOURCE)
    }

    /// A kind whose type does not say which it is: one of which only the metadata is read.
    pub fn partial(resource: &'static Resource) -> Self
    where
        K: Object,
    {
        Self::projected(resource, name_of, version_of)
    }

    /// A kind whose objects are told apart in a way of their own.
    pub fn projected(resource: &'static Resource, name: fn(&K) -> Named<'_>, version: fn(&K) -> Version) -> Self {
        Self {
            resource,
            name,
            version,
            indexes: Vec::new(),
            labels: None,
            fields: None,
            namespace: None,
            page_size: PAGE_SIZE,
            metadata_only: false,
            is_same: None,
        }
    }

    /// Keeps an index. What is not indexed can be asked for as well, at the price of a look at every object.
    #[must_use]
    pub fn index(mut self, index: &Index<K>) -> Self {
        self.indexes.push(index.clone());
        self
    }

    /// Only objects with these labels (a selector as kubectl takes it).
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Only objects with these fields (a selector as kubectl takes it).
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// Only objects of this namespace, whatever the cache as a whole is told.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Lets the server send the metadata alone, for kinds whose objects are big. Not for kinds that an older server may serve in another version: those
    /// are translated as a whole.
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// For objects that are written again and again although nothing changes, such as nodes that say that they are alive. Subscribers are not told of a change when
    /// the object is the same as before, by `is_same`; and when there are many changes, they are read a few times a second.
    #[must_use]
    pub fn heartbeats(mut self, is_same: fn(&K, &K) -> bool) -> Self {
        self.is_same = Some(is_same);
        self
    }

    /// Most objects of a page of a list.
    #[must_use]
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = objects;
        self
    }

    /// Returns the kind that is watched.
    pub fn resource(&self) -> &'static Resource {
        self.resource
    }

    pub(super) fn name<'a>(&self, object: &'a K) -> Named<'a> {
        (self.name)(object)
    }

    pub(super) fn version(&self, object: &K) -> Version {
        (self.version)(object)
    }

    /// Whether nobody need be told that one object has become the other.
    pub(super) fn is_heartbeat(&self, old: &K, new: &K) -> bool {
        self.is_same.is_some_and(|is_same| is_same(old, new))
    }

    pub(super) fn indexes(&self) -> &[Index<K>] {
        &self.indexes
    }

    pub(super) fn only_in(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// What to ask the API server for; an empty namespace means all.
    pub(super) fn selection(&self, namespace: &str, deadline: Duration) -> Selection {
        Selection {
            path: self.resource.path(namespace),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            page_size: self.page_size,
            metadata_only: self.metadata_only,
            in_turns: self.is_same.is_some(),
            deadline,
        }
    }
}

fn name_of<K: Object>(object: &K) -> Named<'_> {
    Named {
        namespace: object.namespace(),
        name: object.name(),
    }
}

fn version_of<K: Object>(object: &K) -> Version {
    Version {
        uid: object.uid(),
        resource_version: object.resource_version(),
        deleting: object.is_deleting(),
    }
}

impl<K> fmt::Debug for Kind<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({})", self.resource)
    }
}
