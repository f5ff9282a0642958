//! Which kind of object is meant, and which object of it.
//!
//! A [`Resource`] is what the API server needs to know of a kind: its group, version, plural name and scope. It is a value,
//! not a type, because some kinds are named only in a cluster's configuration. An [`ObjectKey`] is a namespace and a name.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use kube::core::{ClusterResourceScope, NamespaceResourceScope};

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// Outside of all namespaces.
    Cluster,
}

/// One version of one kind, as the API server serves it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// Version, `v1beta1`.
    pub version: Cow<'static, str>,
    /// Kind, `CloneSet`.
    pub kind: Cow<'static, str>,
    /// Name in URLs, `clonesets`.
    pub plural: Cow<'static, str>,
    /// Where objects live.
    pub scope: Scope,
}

impl Resource {
    /// A kind whose objects live in namespaces.
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self::new(group, version, kind, plural, Scope::Namespaced)
    }

    /// A kind whose objects live outside of namespaces.
    pub const fn cluster(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self::new(group, version, kind, plural, Scope::Cluster)
    }

    const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
        scope: Scope,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            kind: Cow::Borrowed(kind),
            plural: Cow::Borrowed(plural),
            scope,
        }
    }

    /// The kind of a type that kube knows.
    pub fn of<K>() -> Self
    where
        K: kube::Resource<DynamicType = ()>,
        K::Scope: HasScope,
    {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Self {
            group: owned(K::group(&())),
            version: owned(K::version(&())),
            kind: owned(K::kind(&())),
            plural: owned(K::plural(&())),
            scope: <K::Scope as HasScope>::SCOPE,
        }
    }

    /// `v1` or `apps.kruise.io/v1beta1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of the collection. `namespace` is not looked at for kinds of the cluster, and empty means all namespaces.
    pub fn path(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        let api_version = self.api_version();
        if self.scope == Scope::Cluster || namespace.is_empty() {
            format!("/{root}/{api_version}/{}", self.plural)
        } else {
            format!("/{root}/{api_version}/namespaces/{namespace}/{}", self.plural)
        }
    }
}

/// `pods` or `clonesets.apps.kruise.io`.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// Scopes that kube states as types.
pub trait HasScope {
    /// The same as a value.
    const SCOPE: Scope;
}

impl HasScope for NamespaceResourceScope {
    const SCOPE: Scope = Scope::Namespaced;
}

impl HasScope for ClusterResourceScope {
    const SCOPE: Scope = Scope::Cluster;
}

/// Namespace and name of an object; the namespace is empty for objects of the cluster. Clones share the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Namespace, or empty.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of an object.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// `namespace/name`, or just the name.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{Node, Pod};

    #[test]
    fn given_kinds_then_paths_are_those_of_the_api_server() {
        let cloneset = Resource::namespaced("apps.kruise.io", "v1beta1", "CloneSet", "clonesets");
        for (resource, namespace, path) in [
            (Resource::of::<Pod>(), "a", "/api/v1/namespaces/a/pods"),
            (Resource::of::<Pod>(), "", "/api/v1/pods"),
            (Resource::of::<Node>(), "a", "/api/v1/nodes"),
            (
                cloneset.clone(),
                "a",
                "/apis/apps.kruise.io/v1beta1/namespaces/a/clonesets",
            ),
        ] {
            assert_eq!(resource.path(namespace), path);
        }
        assert_eq!(cloneset.to_string(), "clonesets.apps.kruise.io");
        assert_eq!(Resource::of::<Pod>().to_string(), "pods");
    }

    #[test]
    fn given_keys_then_they_read_as_kubectl_writes_them() {
        assert_eq!(ObjectKey::new("a", "b").to_string(), "a/b");
        assert_eq!(ObjectKey::new("", "node").to_string(), "node");
    }
}
