//! Kinds by the words that users have for them, and how the API server serves them.
//!
//! - The words are those of kubectl: plural, singular or short name, in any case, alone or followed by `.group` or `.version.group`. They are looked up in a table of our
//!   own, so that nobody needs a right for discovery.
//! - `statefulset`, `sts`, `daemonset` and `ds` mean Kubernetes' own kinds, as with kubectl; ours are `asts` and `ads`, or named with their group.
//! - A kind is asked for in its newest version, then in older ones: a cluster with OpenKruise before 1.9 serves most kinds as v1alpha1 only. A version that the user names is
//!   the only one that is asked for.

use anyhow::{Result, bail};
use kruise_api::{
    registry::{KINDS, KindInfo},
    resource::Scope,
};

/// A kind.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_field_names, reason = "these are the words of the API")]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    short_names: &'static [&'static str],
    pub(crate) scope: Scope,
    /// What is known of it when it is one of ours.
    pub(crate) ours: Option<&'static KindInfo>,
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        (self.group, self.kind) == (other.group, other.kind)
    }
}

const fn native(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
) -> Kind {
    Kind {
        group,
        kind,
        plural,
        short_names,
        scope: Scope::Namespaced,
        ours: None,
    }
}

pub(crate) const DEPLOYMENT: Kind = native("apps", "Deployment", "deployments", &["deploy"]);
pub(crate) const STATEFUL_SET: Kind = native("apps", "StatefulSet", "statefulsets", &["sts"]);
pub(crate) const DAEMON_SET: Kind = native("apps", "DaemonSet", "daemonsets", &["ds"]);
pub(crate) const REPLICA_SET: Kind = native("apps", "ReplicaSet", "replicasets", &["rs"]);
pub(crate) const REVISION: Kind = native("apps", "ControllerRevision", "controllerrevisions", &[]);
pub(crate) const POD: Kind = native("", "Pod", "pods", &["po"]);

pub(crate) const JOB: Kind = native("batch", "Job", "jobs", &[]);
pub(crate) const CRON_JOB: Kind = native("batch", "CronJob", "cronjobs", &["cj"]);
pub(crate) const EVENT: Kind = native("", "Event", "events", &["ev"]);
pub(crate) const SECRET: Kind = native("", "Secret", "secrets", &[]);
pub(crate) const CONFIG_MAP: Kind = native("", "ConfigMap", "configmaps", &["cm"]);

/// Kubernetes' own kinds that users may name.
const NATIVE: [Kind; 3] = [DEPLOYMENT, STATEFUL_SET, DAEMON_SET];

impl Kind {
    /// Returns a kind of ours.
    pub(crate) const fn of(info: &'static KindInfo) -> Self {
        Self {
            group: info.group,
            kind: info.kind,
            plural: info.plural,
            short_names: info.short_names,
            scope: info.scope,
            ours: Some(info),
        }
    }

    /// Returns all kinds of ours.
    pub(crate) fn all_ours() -> impl Iterator<Item = Self> {
        KINDS.iter().map(|info| Self::of(info))
    }

    /// Returns the versions in which it may be served, the newest first.
    pub(crate) fn versions(&self) -> Vec<&'static str> {
        match self.ours {
            Some(info) => info.versions.iter().rev().map(|version| version.name).collect(),
            None => vec!["v1"],
        }
    }

    /// Whether it is this kind of ours.
    pub(crate) fn is(&self, info: &KindInfo) -> bool {
        self.ours.is_some() && (self.group, self.kind) == (info.group, info.kind)
    }

    /// Returns the singular name.
    pub(crate) fn singular(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    /// Returns a short word that means this kind and no other.
    pub(crate) fn word(&self) -> String {
        let is_taken = self.ours.is_some() && NATIVE.iter().any(|native| native.kind == self.kind);
        match self.short_names.last() {
            Some(short) if is_taken => (*short).to_owned(),
            _ => self.singular(),
        }
    }

    /// Returns how an object is called in what is printed: `cloneset.apps.kruise.io/web`.
    pub(crate) fn printed(&self, name: &str) -> String {
        format!("{}/{name}", dotted(&self.singular(), self.group))
    }

    /// Returns its kind with its group: `CloneSet.apps.kruise.io`.
    pub(crate) fn full(&self) -> String {
        dotted(self.kind, self.group)
    }

    /// Returns its resource with its group: `clonesets.apps.kruise.io`.
    pub(crate) fn resource(&self) -> String {
        dotted(self.plural, self.group)
    }

    fn is_called(&self, word: &str) -> bool {
        word == self.plural || word == self.singular() || self.short_names.contains(&word)
    }
}

fn dotted(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

/// Returns the kind that a word means, and the version when the word says one.
///
/// # Errors
/// When no kind is called so.
pub(crate) fn resolve(word: &str) -> Result<(Kind, Option<&'static str>)> {
    find(word, NATIVE.into_iter().chain(Kind::all_ours()))
}

/// Returns the kind of ours that a word means, even where Kubernetes has one of the same name.
pub(crate) fn ours(word: &str) -> Option<&'static KindInfo> {
    find(word, Kind::all_ours()).ok()?.0.ours
}

fn find(word: &str, kinds: impl Iterator<Item = Kind>) -> Result<(Kind, Option<&'static str>)> {
    let lower = word.to_lowercase();
    let (name, rest) = lower.split_once('.').unwrap_or((&lower, ""));
    for kind in kinds.filter(|kind| kind.is_called(name)) {
        if rest.is_empty() || rest == kind.group {
            return Ok((kind, None));
        }
        let versions = kind.versions();
        let meant = |version: &&&str| rest.strip_prefix(**version) == Some(&format!(".{}", kind.group));
        if let Some(version) = versions.iter().find(meant) {
            return Ok((kind, Some(version)));
        }
    }
    bail!("there is no resource type {word:?} here; there are: {}", known())
}

/// Returns the kind and version that an object of a file says it has.
///
/// # Errors
/// When it is none that is known here.
pub(crate) fn of_file(api_version: &str, kind: &str) -> Result<(Kind, Option<&'static str>)> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    match resolve(&format!("{kind}.{version}.{group}")) {
        Ok(found) => Ok(found),
        Err(_) => bail!("{api_version} {kind} is not known here; known are: {}", known()),
    }
}

fn known() -> String {
    words().join(", ")
}

/// The words for all kinds that users may name.
pub(crate) fn words() -> Vec<String> {
    let all = NATIVE.into_iter().chain(Kind::all_ours());
    all.map(|kind| kind.word()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_every_word_that_kubectl_knows_for_them() {
        for (word, full, version) in [
            ("cloneset", "CloneSet.apps.kruise.io", None),
            ("CloneSets", "CloneSet.apps.kruise.io", None),
            ("clone", "CloneSet.apps.kruise.io", None),
            ("clonesets.apps.kruise.io", "CloneSet.apps.kruise.io", None),
            (
                "clonesets.v1alpha1.apps.kruise.io",
                "CloneSet.apps.kruise.io",
                Some("v1alpha1"),
            ),
            (
                "cloneset.v1beta1.apps.kruise.io",
                "CloneSet.apps.kruise.io",
                Some("v1beta1"),
            ),
            ("pub", "PodUnavailableBudget.policy.kruise.io", None),
            ("sts", "StatefulSet.apps", None),
            ("statefulset", "StatefulSet.apps", None),
            ("asts", "StatefulSet.apps.kruise.io", None),
            ("statefulsets.apps.kruise.io", "StatefulSet.apps.kruise.io", None),
            ("sts.apps.kruise.io", "StatefulSet.apps.kruise.io", None),
            ("ds", "DaemonSet.apps", None),
            ("ads", "DaemonSet.apps.kruise.io", None),
            ("deployments.v1.apps", "Deployment.apps", Some("v1")),
        ] {
            let (kind, found) = resolve(word).unwrap();
            assert_eq!((kind.full().as_str(), found), (full, version), "{word}");
        }
        for word in [
            "",
            "x",
            "cloneset.apps",
            "clonesets.v2.apps.kruise.io",
            "deploy.apps.kruise.io",
            "cloneset.",
        ] {
            let found = resolve(word);
            assert!(found.is_err() || word == "cloneset.", "{word}: {found:?}");
        }
        assert!(resolve("x").unwrap_err().to_string().contains("asts, uniteddeployment"));
    }

    #[test]
    fn a_printed_word_means_the_kind_it_was_printed_for() {
        for kind in NATIVE.into_iter().chain(Kind::all_ours()) {
            assert_eq!(resolve(&kind.word()).unwrap().0, kind, "{}", kind.word());
            let printed = kind.printed("x");
            assert_eq!(resolve(printed.strip_suffix("/x").unwrap()).unwrap().0, kind);
        }
    }

    #[test]
    fn files_say_kind_and_version() {
        let (kind, version) = of_file("apps.kruise.io/v1alpha1", "CloneSet").unwrap();
        assert_eq!((kind.kind, version), ("CloneSet", Some("v1alpha1")));
        assert_eq!(of_file("apps/v1", "StatefulSet").unwrap().0, STATEFUL_SET);
        assert!(of_file("v1", "Pod").is_err());
        assert!(of_file("apps.kruise.io/v9", "CloneSet").is_err());
    }
}
