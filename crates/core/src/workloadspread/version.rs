//! Versions of Pods: while a Deployment is rolled out its old and new Pods are counted apart, so that the new ones find room in the first subsets.
//!
//! Of the kinds in the flag `--ws-enabled-versioned-status` each version has a ledger of its own; the Pods of all others are counted together.

use kruise_api::names::{label, object::VERSION_IGNORED};

/// Kinds whose Pods are counted by version, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionedKinds(Vec<String>);

impl VersionedKinds {
    /// Reads the flag: kinds with commas between them, in any case.
    pub fn read(flag: &str) -> Self {
        let kinds = flag.split(',').map(str::trim).filter(|kind| !kind.is_empty());
        Self(kinds.map(str::to_lowercase).collect())
    }

    /// Returns the version of a Pod, by the kind of its controller and its labels.
    pub fn version_of<'a>(&self, owner: Option<&str>, label: impl Fn(&str) -> Option<&'a str>) -> String {
        let is_versioned = owner.is_some_and(|owner| self.0.iter().any(|kind| kind.eq_ignore_ascii_case(owner)));
        if !is_versioned {
            return VERSION_IGNORED.to_owned();
        }
        let named = |key| label(key).filter(|value| !value.is_empty());
        let revision = || named(label::REVISION).and_then(|revision| revision.rsplit('-').next());
        let version = named(label::POD_TEMPLATE_HASH).or_else(revision);
        version
            .filter(|version| !version.is_empty())
            .unwrap_or(VERSION_IGNORED)
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_kinds_then_only_their_pods_have_versions() {
        let kinds = VersionedKinds::read("Deployment, replicaset,");
        for (owner, labels, expected) in [
            (
                Some("ReplicaSet"),
                vec![(label::POD_TEMPLATE_HASH, "abc"), (label::REVISION, "web-x")],
                "abc",
            ),
            (Some("replicaset"), vec![(label::REVISION, "web-1-x")], "x"),
            (Some("ReplicaSet"), vec![(label::REVISION, "x")], "x"),
            (Some("ReplicaSet"), vec![(label::REVISION, "x-")], VERSION_IGNORED),
            (Some("ReplicaSet"), vec![], VERSION_IGNORED),
            (
                Some("CloneSet"),
                vec![(label::POD_TEMPLATE_HASH, "abc")],
                VERSION_IGNORED,
            ),
            (None, vec![(label::POD_TEMPLATE_HASH, "abc")], VERSION_IGNORED),
        ] {
            let found = |key: &str| labels.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
            assert_eq!(kinds.version_of(owner, found), expected, "{owner:?} {labels:?}");
        }
    }
}
