//! Which kind of object is meant, how it is reached, and which object of it.
//!
//! A [`Resource`] is what the API server needs to know of a kind. Each kind has one, [`Kind::RESOURCE`](crate::kind::Kind::RESOURCE), and nothing else names
//! it a second time: plans, the cache, the writer and events all hold a `&'static Resource`. A kind that only a cluster's configuration or discovery names
//! becomes one with [`Resource::interned`].

use std::borrow::Cow;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::meta::Object;

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// Outside of all namespaces.
    Cluster,
}

/// One version of one kind, as the API server serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// Kind, `CloneSet`.
    pub kind: &'static str,
    /// Group and version, as objects have them: `v1` or `apps.kruise.io/v1beta1`.
    pub api_version: &'static str,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version, `v1beta1`.
    pub version: &'static str,
    /// Name in URLs, `clonesets`.
    pub plural: &'static str,
    /// Where objects live.
    pub scope: Scope,
}

impl Resource {
    /// A kind whose objects live in namespaces.
    pub const fn namespaced(api_version: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self::new(api_version, kind, plural, Scope::Namespaced)
    }

    /// A kind whose objects live outside of namespaces.
    pub const fn cluster(api_version: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self::new(api_version, kind, plural, Scope::Cluster)
    }

    /// A kind.
    pub const fn new(api_version: &'static str, kind: &'static str, plural: &'static str, scope: Scope) -> Self {
        let (group, version) = split(api_version);
        Self {
            kind,
            api_version,
            group,
            version,
            plural,
            scope,
        }
    }

    /// A kind that only discovery or a cluster's configuration named. The first call for a kind keeps it for as long as the process lives, so this is
    /// not for names that users choose freely; kinds that the code knows have a constant.
    pub fn interned(api_version: &str, kind: &str, plural: &str, scope: Scope) -> &'static Self {
        static KNOWN: Mutex<Vec<&'static Resource>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |known: &&&'static Self| {
            (known.api_version, known.kind, known.plural, known.scope) == (api_version, kind, plural, scope)
        };
        if let Some(found) = known.iter().find(is_it) {
            return found;
        }
        let kept = |text: &str| -> &'static str { Box::leak(Box::from(text)) };
        let new = Self::new(kept(api_version), kept(kind), kept(plural), scope);
        let new: &'static Self = Box::leak(Box::new(new));
        known.push(new);
        new
    }

    /// Returns the path of the collection. `namespace` is not looked at for kinds of the cluster, and empty means all namespaces.
    pub fn path(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        let Self {
            api_version, plural, ..
        } = self;
        if self.scope == Scope::Cluster || namespace.is_empty() {
            format!("/{root}/{api_version}/{plural}")
        } else {
            format!("/{root}/{api_version}/namespaces/{namespace}/{plural}")
        }
    }
}

/// Group and version of an `apiVersion`.
const fn split(api_version: &'static str) -> (&'static str, &'static str) {
    let mut at = 0;
    let mut rest = api_version.as_bytes();
    while let [byte, more @ ..] = rest {
        if *byte == b'/' {
            let (group, version) = api_version.split_at(at);
            return (group, version.split_at(1).1);
        }
        rest = more;
        at += 1;
    }
    ("", api_version)
}

/// `pods` or `clonesets.apps.kruise.io`.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// A part of an object that has an endpoint of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subresource {
    /// What is. For Pods such a write can carry labels and annotations as well.
    Status,
    /// The wanted number of replicas, the same for every kind that has one.
    Scale,
    /// Resources of a Pod's running containers.
    Resize,
    /// Containers that are put into a running Pod.
    EphemeralContainers,
    /// A wish for a Pod to go, as far as disruption budgets allow.
    Eviction,
}

impl Subresource {
    /// Returns its name in URLs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Resize => "resize",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Eviction => "eviction",
        }
    }
}

impl fmt::Display for Subresource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What has to be true of an object for a write to happen; the server checks it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// It is this very object, not another of the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Nobody has changed it since this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl Preconditions {
    /// No condition.
    pub const NONE: Self = Self {
        uid: None,
        resource_version: None,
    };

    /// It is the object with this UID.
    pub fn uid<'a>(uid: impl Into<Cow<'a, str>>) -> Self {
        Self {
            uid: Some(uid.into().into_owned()),
            ..Self::NONE
        }
    }

    /// And nobody has changed it since this version.
    #[must_use]
    pub fn at<'a>(self, resource_version: impl Into<Cow<'a, str>>) -> Self {
        Self {
            resource_version: Some(resource_version.into().into_owned()),
            ..self
        }
    }

    /// It is this very object.
    pub fn same(object: &impl Object) -> Self {
        let uid = object.uid();
        Self {
            uid: (!uid.is_empty()).then(|| uid.to_string()),
            resource_version: None,
        }
    }

    /// It is this very object, and nobody has changed it since it was looked at.
    pub fn unchanged(object: &impl Object) -> Self {
        let version = object.resource_version();
        Self {
            resource_version: (version != 0).then(|| version.to_string()),
            ..Self::same(object)
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Secret};
    use serde_json::json;

    use super::*;
    use crate::cloneset::v1beta1::CloneSet;
    use crate::kind::Kind as _;
    use crate::pod::Pod;

    #[test]
    fn given_kinds_then_paths_are_those_of_the_api_server() {
        for (resource, namespace, path) in [
            (Pod::RESOURCE, "a", "/api/v1/namespaces/a/pods"),
            (Pod::RESOURCE, "", "/api/v1/pods"),
            (Node::RESOURCE, "a", "/api/v1/nodes"),
            (
                CloneSet::RESOURCE,
                "a",
                "/apis/apps.kruise.io/v1beta1/namespaces/a/clonesets",
            ),
        ] {
            assert_eq!(resource.path(namespace), path);
        }
        assert_eq!(CloneSet::RESOURCE.to_string(), "clonesets.apps.kruise.io");
        assert_eq!((CloneSet::GROUP, CloneSet::VERSION), ("apps.kruise.io", "v1beta1"));
        assert_eq!(Pod::RESOURCE.to_string(), "pods");
        assert_eq!((Secret::GROUP, Secret::API_VERSION), ("", "v1"));
    }

    #[test]
    fn given_two_kinds_of_one_name_then_they_are_told_apart() {
        let apps = k8s_openapi::api::apps::v1::StatefulSet::RESOURCE;
        let ours = crate::statefulset::v1beta1::StatefulSet::RESOURCE;
        assert_eq!(apps.kind, ours.kind);
        assert_ne!(apps, ours);
    }

    #[test]
    fn given_a_kind_of_the_cluster_then_it_is_kept_once_and_equal_to_one_that_the_code_knows() {
        let interned = || Resource::interned("example.com/v1", "Game", "games", Scope::Namespaced);
        assert!(std::ptr::eq(interned(), interned()));
        assert_eq!(interned().path("a"), "/apis/example.com/v1/namespaces/a/games");
        assert_eq!(
            Resource::interned("v1", "Pod", "pods", Scope::Namespaced),
            Pod::RESOURCE
        );
    }

    #[test]
    fn given_subresources_then_they_are_written_as_in_urls() {
        for part in [
            Subresource::Status,
            Subresource::Scale,
            Subresource::Resize,
            Subresource::EphemeralContainers,
            Subresource::Eviction,
        ] {
            assert_eq!(json!(part), part.as_str());
        }
    }

    #[test]
    fn given_objects_of_the_cache_and_whole_ones_then_preconditions_are_the_same() {
        let json = json!({"metadata": {"name": "a", "namespace": "shop", "uid": "u", "resourceVersion": "7"}});
        let cached: Pod = serde_json::from_value(json.clone()).unwrap();
        let whole: CloneSet = serde_json::from_value(json).unwrap();
        let both = Preconditions::uid("u").at("7");
        assert_eq!(Preconditions::unchanged(&cached), both);
        assert_eq!(Preconditions::unchanged(&whole), both);
        assert_eq!(Preconditions::same(&cached.metadata), Preconditions::uid("u"));
        assert_eq!(Preconditions::same(&whole), Preconditions::uid("u"));
        assert_eq!(Preconditions::unchanged(&Pod::default()), Preconditions::NONE);
        assert_eq!((whole.namespace(), whole.name()), ("shop", "a"));
    }
}
