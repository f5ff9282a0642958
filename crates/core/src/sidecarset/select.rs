//! Which SidecarSets apply to a Pod, and in which revision.
//!
//! A set applies to a new Pod when all of this holds:
//!
//! 1. Its injection is not paused.
//! 2. It selects the Pod's namespace by the labels of the Namespace object. Without a namespace selector it selects every namespace.
//! 3. Its selector says something and matches the labels of the Pod. A selector that cannot be understood matches nothing.
//! 4. It is not the base of a canary that applies, too.
//!
//! Sets that name the Pod's namespace come before those that look at many, and each of the two by name: all that is injected follows this order.
//!
//! What is injected is the spec of the set, unless its injection names a revision. Then it is that revision: always while the update is paused or the policy is
//! `Always`; with the policy `Partial` for the Pods that the update's selector leaves out, and by chance for the share that its partition keeps back. A partition
//! that is a number keeps nobody back, since nobody knows how many Pods there will be.
//!
//! Sets are found by [`index_keys`] and [`lookup_keys`], so that a Pod costs as much as its own labels, however many sets there are.

use crate::shared::selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kruise_api::meta::Object as _;
use kruise_api::names::{annotation, label};
use kruise_api::revision::ControllerRevision;
use kruise_api::shared::int_or_percent::{Amount, IntOrPercent};
use kruise_api::sidecarset::InjectionRevisionPolicy;
use kruise_api::sidecarset::v1beta1::SidecarSet;
use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;

/// Why a set does not apply to a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotApplied {
    /// Its injection is paused.
    Paused,
    /// It does not select the namespace.
    Namespace,
    /// The labels of the namespace are not known.
    NamespaceUnknown,
    /// It does not select the Pod.
    Selector,
    /// This canary applies in its place.
    Canary(String),
}

impl fmt::Display for NotApplied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => f.write_str("its injection is paused"),
            Self::Namespace => f.write_str("it does not select the namespace"),
            Self::NamespaceUnknown => f.write_str("the namespace could not be read"),
            Self::Selector => f.write_str("it does not select the labels of the Pod"),
            Self::Canary(name) => write!(f, "its canary {name} applies in its place"),
        }
    }
}

/// Whether a set selects a Pod by its labels; `label` looks one up.
pub fn selects_pod<'a>(set: &SidecarSet, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    let chosen = set.spec.selector.as_ref();
    chosen.is_some_and(|chosen| !selector::is_empty(chosen) && selector::matches(chosen, label))
}

/// Whether a set selects a namespace by its labels. A namespace of which only the name is known has the label that Kubernetes gives every namespace.
pub fn selects_namespace<'a>(set: &SidecarSet, name: &'a str, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    let Some(chosen) = &set.spec.namespace_selector else {
        return true;
    };
    selector::matches(chosen, |key| {
        if key == label::NAMESPACE_NAME {
            return Some(label(key).unwrap_or(name));
        }
        label(key)
    })
}

/// Whether more than the name of a namespace has to be known to tell whether a set selects it.
pub fn looks_at_namespace_labels(set: &SidecarSet) -> bool {
    let Some(chosen) = &set.spec.namespace_selector else {
        return false;
    };
    let pairs = chosen.match_labels.iter().flatten().map(|(key, _)| key);
    let terms = chosen.match_expressions.iter().flatten().map(|term| &term.key);
    pairs.chain(terms).any(|key| key != label::NAMESPACE_NAME)
}

/// Looks up a label.
pub type LabelOf<'f, 'a> = &'f dyn Fn(&str) -> Option<&'a str>;

/// Returns why a set does not apply to a Pod, canaries aside. The labels of the namespace are asked for only when they matter, and may be unknown.
pub fn check<'a>(
    set: &SidecarSet,
    namespace: &'a str,
    pod_label: impl Fn(&str) -> Option<&'a str>,
    namespace_label: Option<LabelOf<'_, 'a>>,
) -> Result<(), NotApplied> {
    if set.spec.injection_strategy.paused {
        return Err(NotApplied::Paused);
    }
    if !selects_pod(set, pod_label) {
        return Err(NotApplied::Selector);
    }
    if looks_at_namespace_labels(set) && namespace_label.is_none() {
        return Err(NotApplied::NamespaceUnknown);
    }
    if !selects_namespace(set, namespace, |key| namespace_label.and_then(|label| label(key))) {
        return Err(NotApplied::Namespace);
    }
    Ok(())
}

/// The base of a canary set; nothing for a set that is none.
pub fn canary_of(set: &SidecarSet) -> Option<&str> {
    let annotations = set.metadata.annotations.as_ref()?;
    let is_canary = annotations.get(annotation::SIDECAR_SET_CANARY).map(String::as_str) == Some("true");
    let base = annotations.get(annotation::SIDECAR_SET_BASE).map(String::as_str);
    base.filter(|base| is_canary && !base.is_empty())
}

/// Takes out the bases of canaries that apply, and brings the rest into the order in which sets are injected. Returns what was taken out, with the canary of each.
pub fn settle<S: Borrow<SidecarSet>>(applying: &mut Vec<S>) -> Vec<(S, NotApplied)> {
    let canaries: Vec<(String, String)> = applying
        .iter()
        .filter_map(|set| Some((canary_of(set.borrow())?.to_owned(), set.borrow().name().to_owned())))
        .collect();
    let mut replaced = Vec::new();
    if !canaries.is_empty() {
        let (bases, rest) = std::mem::take(applying).into_iter().partition::<Vec<S>, _>(|set| {
            let name = set.borrow().name();
            canaries.iter().any(|(base, canary)| base == name && canary != name)
        });
        *applying = rest;
        for set in bases {
            let canary = canaries.iter().find(|(base, _)| base == set.borrow().name());
            let canary = canary.map(|(_, canary)| canary.clone()).unwrap_or_default();
            replaced.push((set, NotApplied::Canary(canary)));
        }
    }
    applying.sort_by(|one, other| order(one.borrow()).cmp(&order(other.borrow())));
    replaced
}

fn order(set: &SidecarSet) -> (bool, &str) {
    (pinned_namespaces(set).is_none(), set.name())
}

/// The namespaces that a set names; nothing when it looks at all of them.
pub fn pinned_namespaces(set: &SidecarSet) -> Option<Vec<&str>> {
    let chosen = set.spec.namespace_selector.as_ref()?;
    let label = chosen
        .match_labels
        .as_ref()
        .and_then(|labels| labels.get(label::NAMESPACE_NAME));
    if let Some(name) = label {
        return Some(vec![name]);
    }
    let terms = chosen.match_expressions.iter().flatten();
    let mut terms = terms.filter(|term| term.key == label::NAMESPACE_NAME && term.operator == "In");
    terms.next().map(values)
}

fn values(term: &LabelSelectorRequirement) -> Vec<&str> {
    term.values.iter().flatten().map(String::as_str).collect()
}

/// Calls `key` with each key under which a set is found. Every Pod that it can apply to asks for exactly one of them.
pub fn index_keys(set: &SidecarSet, key: &mut dyn FnMut(&str)) {
    let Some(chosen) = &set.spec.selector else {
        return;
    };
    let terms = terms(chosen);
    match pinned_namespaces(set) {
        Some(namespaces) => {
            let namespaces: BTreeSet<&str> = namespaces.into_iter().collect();
            for namespace in namespaces {
                for term in &terms {
                    key(&format!("{namespace}\n{term}"));
                }
            }
        }
        None => {
            for term in &terms {
                key(&format!("\n{term}"));
            }
        }
    }
}

/// One requirement of a selector that its Pods are found by: a label with one of some values, a label, or nothing.
fn terms(selector: &LabelSelector) -> BTreeSet<String> {
    if let Some((key, value)) = selector.match_labels.iter().flatten().next() {
        return BTreeSet::from([format!("{key}={value}")]);
    }
    let expressions = || selector.match_expressions.iter().flatten();
    if let Some(term) = expressions().find(|term| term.operator == "In") {
        return values(term)
            .into_iter()
            .map(|value| format!("{}={value}", term.key))
            .collect();
    }
    if let Some(term) = expressions().find(|term| term.operator == "Exists") {
        return BTreeSet::from([term.key.clone()]);
    }
    BTreeSet::from([String::new()])
}

/// Calls `visit` with every key under which sets can be that apply to a Pod with these labels.
pub fn lookup_keys<'a>(namespace: &str, labels: impl Iterator<Item = (&'a str, &'a str)>, mut visit: impl FnMut(&str)) {
    let mut key = String::with_capacity(128);
    let mut under = |term: &[&str]| {
        for namespace in [namespace, ""] {
            key.clear();
            key.push_str(namespace);
            key.push('\n');
            for part in term {
                key.push_str(part);
            }
            visit(&key);
        }
    };
    under(&[]);
    for (name, value) in labels {
        under(&[name, "=", value]);
        under(&[name]);
    }
}

/// A revision that an injection names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedRevision<'a> {
    /// By its own name.
    Name(&'a str),
    /// The newest of the set with this custom version.
    CustomVersion(&'a str),
}

impl fmt::Display for NamedRevision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "revision {name}"),
            Self::CustomVersion(version) => write!(f, "revision with the custom version {version}"),
        }
    }
}

/// The revision that the injection of a set names. It has to exist, whether or not a Pod gets it.
pub fn named_revision(set: &SidecarSet) -> Option<NamedRevision<'_>> {
    let revision = set.spec.injection_strategy.revision.as_ref()?;
    let given = |name: &'_ Option<String>| name.as_ref().is_some_and(|name| !name.is_empty());
    if given(&revision.revision_name) {
        return revision.revision_name.as_deref().map(NamedRevision::Name);
    }
    if given(&revision.custom_version) {
        return revision.custom_version.as_deref().map(NamedRevision::CustomVersion);
    }
    None
}

/// Returns the revision of a set that its injection names, from those in the manager's namespace.
pub fn find_revision<'r, R: Borrow<ControllerRevision>>(
    set: &str,
    named: NamedRevision<'_>,
    revisions: impl IntoIterator<Item = &'r R>,
) -> Option<&'r R> {
    let revisions = revisions.into_iter();
    match named {
        NamedRevision::Name(name) => revisions
            .into_iter()
            .find(|revision| (*revision).borrow().name() == name),
        NamedRevision::CustomVersion(version) => revisions
            .filter(|revision| {
                let metadata = &(*revision).borrow().metadata;
                metadata.label(label::SIDECAR_SET_NAME) == Some(set)
                    && metadata.label(label::SIDECAR_SET_CUSTOM_VERSION) == Some(version)
            })
            .max_by(|one, other| {
                let rank = |revision: &&'r R| {
                    let revision: &ControllerRevision = (**revision).borrow();
                    (revision.revision, revision.name().to_owned())
                };
                rank(one).cmp(&rank(other))
            }),
    }
}

/// Whether a Pod gets the revision that the injection names, not the spec. `chance` is at random, and different for each Pod.
pub fn gets_named_revision<'a>(set: &SidecarSet, label: impl Fn(&str) -> Option<&'a str>, chance: u64) -> bool {
    let Some(revision) = &set.spec.injection_strategy.revision else {
        return false;
    };
    let update = &set.spec.update_strategy;
    if update.paused || revision.policy != InjectionRevisionPolicy::Partial {
        return true;
    }
    if let Some(chosen) = &update.selector
        && !selector::matches(chosen, label)
    {
        return true;
    }
    let Some(IntOrPercent::Text(_)) = update.partition else {
        return false;
    };
    let share = update.partition.as_ref().and_then(|partition| partition.amount().ok());
    let Some(Amount::Percent(share)) = share else {
        return false;
    };
    let drawn = i32::try_from(chance % CHANCES).unwrap_or_default();
    drawn < share.ceil_of(100_000)
}

/// How many chances differ: a share counts in thousandths of a percent.
pub const CHANCES: u64 = 100_000;

#[cfg(test)]
mod tests;
