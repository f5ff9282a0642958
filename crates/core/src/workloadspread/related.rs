//! Which WorkloadSpread a Pod belongs to.
//!
//! - A spread is for the Pods of the workload that it names, in whatever version of the workload's group, and for those of workloads that this one manages:
//!   a Deployment's ReplicaSets. With a `targetFilter` it is only for Pods whose labels match; one without a selector is for all.
//! - A Pod says in an annotation which subset it was given.

use kruise_api::configuration::CustomWorkload;
use kruise_api::meta::Meta;
use kruise_api::names::{annotation, group};
use kruise_api::workloadspread::v1beta1::WorkloadSpread;
use serde::{Deserialize, Serialize};

use crate::shared::selector;
use crate::shared::workload::WorkloadRef;

/// What a Pod says of its subset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Matched {
    /// Name of the spread.
    pub name: String,
    /// Name of the subset.
    pub subset: String,
    /// The entry in the ledger of a Pod that had no name when it was let in.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl Matched {
    /// Returns it as the annotation has it.
    pub fn text(&self) -> String {
        // Three texts are always JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Returns what a Pod says of its subset; nothing when that cannot be read.
pub fn matched(pod: &Meta) -> Option<Matched> {
    let text = pod.annotation(annotation::MATCHED_WORKLOAD_SPREAD)?;
    let matched: Matched = serde_json::from_str(text).ok()?;
    (!matched.name.is_empty() && !matched.subset.is_empty()).then_some(matched)
}

/// Returns the workload that a spread is for.
pub fn target(spread: &WorkloadSpread) -> Option<WorkloadRef> {
    spread.spec.target_ref.as_ref().map(WorkloadRef::from)
}

/// Whether a spread is for Pods with these labels, of its workload.
pub fn selects<'a>(spread: &WorkloadSpread, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    let filter = spread.spec.target_filter.as_ref();
    let wanted = filter.and_then(|filter| filter.selector.as_ref());
    wanted.is_none_or(|wanted| selector::matches(wanted, label))
}

/// The groups of the kinds that can be spread without further ado.
const KNOWN: [(&str, &[&str]); 5] = [
    ("CloneSet", &[group::APPS]),
    ("Deployment", &["apps"]),
    ("Job", &["batch"]),
    ("ReplicaSet", &["apps"]),
    ("StatefulSet", &["apps", group::APPS]),
];

/// Returns the groups in which a kind is known; nothing for a kind that is not.
pub fn groups_of(kind: &str) -> Option<&'static [&'static str]> {
    KNOWN
        .iter()
        .find(|(known, _)| *known == kind)
        .map(|(_, groups)| *groups)
}

/// Whether a workload is of a kind that is known.
pub fn is_known(workload: &WorkloadRef) -> bool {
    groups_of(&workload.kind).is_some_and(|groups| groups.contains(&workload.group()))
}

/// Returns what the white list says of a workload.
pub fn custom<'a>(workload: &WorkloadRef, list: &'a [CustomWorkload]) -> Option<&'a CustomWorkload> {
    list.iter()
        .find(|custom| workload.is_of(&custom.kind.group, &custom.kind.kind))
}

/// Whether Pods of this owner, or the owner itself, can belong to a workload that is spread.
pub fn is_watched(owner: &WorkloadRef, list: &[CustomWorkload]) -> bool {
    let is_between = || {
        let mut between = list.iter().flat_map(|custom| &custom.sub_resources);
        between.any(|sub| owner.is_of(&sub.group, &sub.kind))
    };
    is_known(owner) || custom(owner, list).is_some() || is_between()
}

/// Whether a workload's Pods are told apart by their ordinals, and need no ledger.
pub fn has_ordinals(spread: &WorkloadSpread) -> bool {
    let target = spread.spec.target_ref.as_ref();
    target.is_some_and(|target| target.kind == "StatefulSet")
}
