//! Who manages an object.
//!
//! Owners are compared by group and kind, in any version: the original wrote others than we do.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference as WholeReference;
use kube::core::Resource;

use super::{Meta, OwnerReference, PartialObject};
use crate::configmap::ConfigMap;
use crate::job::Job;
use crate::kind::Kind;
use crate::node::Node;
use crate::nodeimage::CachedNodeImage;
use crate::nodepodprobe::CachedNodePodProbe;
use crate::pod::Pod;
use crate::revision::ControllerRevision;
use crate::secret::Secret;
use crate::uniteddeployment::workload::SubsetWorkload;

/// Returns the group of an `apiVersion`; empty for the core group.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

impl OwnerReference {
    /// Returns true when the owner is of this kind, in any version.
    pub fn is_a<K: Kind>(&self) -> bool {
        self.is_of(K::GROUP, K::KIND)
    }

    fn is_of(&self, group: &str, kind: &str) -> bool {
        &*self.kind == kind && group_of(&self.api_version) == group
    }
}

/// An object that may have an owner.
pub trait Owned {
    /// Returns the generation of its spec; 0 when it has none.
    fn generation(&self) -> i64;

    /// Returns the name of the owner that manages it, if that is of this kind, in any version.
    fn controlled_by(&self, group: &str, kind: &str) -> Option<&str>;
}

impl Owned for Meta {
    fn generation(&self) -> i64 {
        self.generation
    }

    fn controlled_by(&self, group: &str, kind: &str) -> Option<&str> {
        let owner = self.controller().filter(|owner| owner.is_of(group, kind))?;
        Some(&owner.name)
    }
}

/// Objects with all of their metadata.
impl<K: Resource> Owned for K {
    fn generation(&self) -> i64 {
        self.meta().generation.unwrap_or_default()
    }

    fn controlled_by(&self, group: &str, kind: &str) -> Option<&str> {
        let is_it = |owner: &&WholeReference| owner.controller == Some(true);
        let owner = self.meta().owner_references.iter().flatten().find(is_it)?;
        let is_of = owner.kind == kind && group_of(&owner.api_version) == group;
        is_of.then_some(owner.name.as_str())
    }
}

macro_rules! owned {
    ($($object:ty)+) => {$(
        impl Owned for $object {
            fn generation(&self) -> i64 {
                self.metadata.generation
            }

            fn controlled_by(&self, group: &str, kind: &str) -> Option<&str> {
                self.metadata.controlled_by(group, kind)
            }
        }
    )+};
}

owned!(CachedNodeImage CachedNodePodProbe ConfigMap ControllerRevision Job Node PartialObject Pod Secret SubsetWorkload);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imagepulljob::v1beta1::ImagePullJob;
    use crate::names::group;
    use serde_json::json;

    #[test]
    fn given_owners_then_kind_and_group_count_and_the_version_does_not() {
        for (api_version, kind, controller, expected) in [
            ("apps.kruise.io/v1beta1", "CloneSet", true, Some("web")),
            ("apps.kruise.io/v1alpha1", "CloneSet", true, Some("web")),
            ("apps.kruise.io/v1beta1", "CloneSet", false, None),
            ("apps.kruise.io/v1beta1", "StatefulSet", true, None),
            ("apps/v1", "CloneSet", true, None),
            ("v1", "CloneSet", true, None),
        ] {
            let owner =
                json!({"apiVersion": api_version, "kind": kind, "name": "web", "uid": "u", "controller": controller});
            let object = json!({"metadata": {"name": "a", "generation": 3, "ownerReferences": [owner]}});
            let small: PartialObject = serde_json::from_value(object.clone()).unwrap();
            assert_eq!(
                small.controlled_by(group::APPS, "CloneSet"),
                expected,
                "{api_version} {kind}"
            );
            assert_eq!(small.generation(), 3);
            let whole: ImagePullJob = serde_json::from_value(object).unwrap();
            assert_eq!(
                whole.controlled_by(group::APPS, "CloneSet"),
                expected,
                "{api_version} {kind}"
            );
            assert_eq!(whole.generation(), 3);
        }
    }
}
