//! Workloads of any kind: who makes Pods, and how many there should be.
//!
//! - A reference names a workload by kind and name; of its `apiVersion` only the group counts.
//! - Pods of a Deployment are owned by its ReplicaSets; the Deployment is meant.
//! - A kind without a scale subresource does not say how many Pods there should be: [`Replicas::Unknown`].
//! - What is gone, or is another object of the same name, is no workload. One that is being deleted has no Pods that count.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruise_api::meta::{OwnerReference, group_of};
use kruise_api::podunavailablebudget::TargetReference;
use kruise_api::shared;

/// A workload by kind and name, in the namespace of whoever names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadRef {
    /// Group and version, as it was given.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl WorkloadRef {
    /// A workload by its names.
    pub fn new(api_version: &str, kind: &str, name: &str) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Returns its group; empty for the core group.
    pub fn group(&self) -> &str {
        group_of(&self.api_version)
    }

    /// Whether both name the same workload: the version does not matter.
    pub fn is_same(&self, other: &Self) -> bool {
        self.group() == other.group() && self.kind == other.kind && self.name == other.name
    }

    /// Whether this is of a group and kind.
    pub fn is_of(&self, group: &str, kind: &str) -> bool {
        self.group() == group && self.kind == kind
    }
}

impl From<&TargetReference> for WorkloadRef {
    fn from(target: &TargetReference) -> Self {
        Self::new(&target.api_version, &target.kind, &target.name)
    }
}

impl From<&shared::target::TargetReference> for WorkloadRef {
    fn from(target: &shared::target::TargetReference) -> Self {
        Self::new(&target.api_version, &target.kind, &target.name)
    }
}

impl From<&OwnerReference> for WorkloadRef {
    fn from(owner: &OwnerReference) -> Self {
        Self::new(&owner.api_version, &owner.kind, &owner.name)
    }
}

/// How many Pods a workload should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// As its spec says.
    Wanted(i32),
    /// Its kind does not say.
    Unknown,
}

impl Replicas {
    /// Returns the number; -1 where nobody knows, as statuses have it.
    pub fn count(self) -> i32 {
        match self {
            Self::Wanted(count) => count,
            Self::Unknown => -1,
        }
    }
}

/// A workload as it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Which.
    pub reference: WorkloadRef,
    /// UID.
    pub uid: String,
    /// How many Pods it should have.
    pub replicas: Replicas,
    /// Whose Pods it looks for; not known of every kind.
    pub selector: Option<LabelSelector>,
    /// It is on its way out.
    pub is_deleting: bool,
}

impl Workload {
    /// Returns how many Pods are expected of it: none of one that is on its way out.
    pub fn expected(&self) -> i32 {
        if self.is_deleting { 0 } else { self.replicas.count() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_references_then_the_version_does_not_matter_and_the_group_does() {
        let one = WorkloadRef::new("apps.kruise.io/v1alpha1", "CloneSet", "web");
        for (api_version, kind, name, same) in [
            ("apps.kruise.io/v1beta1", "CloneSet", "web", true),
            ("apps/v1", "CloneSet", "web", false),
            ("v1", "CloneSet", "web", false),
            ("apps.kruise.io/v1beta1", "StatefulSet", "web", false),
            ("apps.kruise.io/v1beta1", "CloneSet", "other", false),
        ] {
            assert_eq!(
                one.is_same(&WorkloadRef::new(api_version, kind, name)),
                same,
                "{api_version} {kind} {name}"
            );
        }
        assert_eq!(WorkloadRef::new("v1", "ReplicationController", "a").group(), "");
    }

    #[test]
    fn given_a_workload_on_its_way_out_then_nothing_is_expected_of_it() {
        let mut workload = Workload {
            reference: WorkloadRef::new("apps/v1", "Deployment", "web"),
            uid: "u".to_owned(),
            replicas: Replicas::Wanted(3),
            selector: None,
            is_deleting: false,
        };
        assert_eq!(workload.expected(), 3);
        workload.replicas = Replicas::Unknown;
        assert_eq!(workload.expected(), -1);
        workload.is_deleting = true;
        assert_eq!(workload.expected(), 0);
    }
}
