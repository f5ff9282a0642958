//! Which subset each Pod that is there belongs to.
//!
//! - A Pod that was given a subset belongs to it. If the subset is no more, the Pod is in none.
//! - A Pod that was there before the spread belongs to the subset that suits its node best: its taints have to be tolerated and its required term has to hold. Of
//!   several, preferred terms count most, then a patch that the Pod looks like already, then room; then their order. That is written to the Pod.
//! - One without a node, or for whose node there is no subset, is in none.

use std::collections::BTreeMap;
use std::sync::Arc;

use kruise_api::names::annotation;
use kruise_api::node::Node;
use kruise_api::pod::{NodeTerm, Pod, Toleration};
use kruise_api::workloadspread::v1beta1::{WorkloadSpread, WorkloadSpreadSubset};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::related::{Matched, matched};
use crate::shared::node_eligibility::{NodeRequirements, affinity};

/// A Pod and its subset.
#[derive(Clone, Copy, Debug)]
pub struct Assigned<'a> {
    pub pod: &'a Pod,
    /// Place of the subset in the spec; nothing when it is in none.
    pub subset: Option<usize>,
    /// It has to be told.
    pub is_new: bool,
}

/// Assigns the Pods of one version; `limits` are those of the subsets.
pub fn assign<'a>(
    spread: &WorkloadSpread,
    pods: &[&'a Pod],
    nodes: &BTreeMap<String, Arc<Node>>,
    limits: &[Option<i32>],
) -> Vec<Assigned<'a>> {
    let mut counts = vec![0_i32; spread.spec.subsets.len()];
    let mut assigned = Vec::with_capacity(pods.len());
    let mut rest = Vec::new();
    for pod in pods {
        match given(spread, pod) {
            Some(name) => {
                let subset = spread.spec.subsets.iter().position(|subset| subset.name == name);
                count(&mut counts, subset);
                assigned.push(Assigned {
                    pod,
                    subset,
                    is_new: false,
                });
            }
            None => rest.push(*pod),
        }
    }
    for pod in rest {
        let node = nodes.get(&*pod.spec.node_name);
        let subset = node.and_then(|node| best(spread, pod, node, &counts, limits));
        count(&mut counts, subset);
        let is_new = subset.is_some();
        assigned.push(Assigned { pod, subset, is_new });
    }
    assigned.sort_unstable_by(|one, other| one.pod.metadata.name.cmp(&other.pod.metadata.name));
    assigned
}

/// Returns the name of the subset that a Pod was given by this spread.
pub fn given(spread: &WorkloadSpread, pod: &Pod) -> Option<String> {
    let matched = matched(&pod.metadata)?;
    (spread.metadata.name.as_deref() == Some(matched.name.as_str())).then_some(matched.subset)
}

fn count(counts: &mut [i32], subset: Option<usize>) {
    if let Some(count) = subset.and_then(|subset| counts.get_mut(subset)) {
        *count += 1;
    }
}

fn best(spread: &WorkloadSpread, pod: &Pod, node: &Node, counts: &[i32], limits: &[Option<i32>]) -> Option<usize> {
    let mut best: Option<(i64, usize)> = None;
    for (index, subset) in spread.spec.subsets.iter().enumerate() {
        if !suits(subset, pod, node) {
            continue;
        }
        let taken = counts.get(index).copied().unwrap_or_default();
        let has_room = limits.get(index).copied().flatten().is_none_or(|most| taken < most);
        let preferred = subset.preferred_node_selector.iter().filter(|preferred| {
            read::<NodeTerm>(&preferred.preference).is_some_and(|term| affinity::holds(&[term], node))
        });
        let weight: i64 = preferred.map(|preferred| i64::from(preferred.weight)).sum();
        let score = 100 * weight + 10 * i64::from(looks_like(subset, pod)) + i64::from(has_room);
        if best.is_none_or(|(highest, _)| score > highest) {
            best = Some((score, index));
        }
    }
    best.map(|(_, index)| index)
}

/// Whether a Pod on this node could have been one of the subset.
fn suits(subset: &WorkloadSpreadSubset, pod: &Pod, node: &Node) -> bool {
    let tolerations = subset.tolerations.iter().filter_map(read::<Toleration>);
    let term = subset.required_node_selector.as_ref().and_then(read::<NodeTerm>);
    let wanted = NodeRequirements::of_pod(pod).and(term.as_ref(), tolerations);
    wanted.fit(node).runs()
}

/// The slice of a part of the API that decisions read.
fn read<T: DeserializeOwned>(part: &impl Serialize) -> Option<T> {
    serde_json::from_value(serde_json::to_value(part).ok()?).ok()
}

/// Whether the patch would change nothing of a Pod but annotations. Of the Pod only the metadata is known here: a patch with a spec would change something.
fn looks_like(subset: &WorkloadSpreadSubset, pod: &Pod) -> bool {
    if subset.patch.is_empty() {
        return true;
    }
    let patch = subset.patch.value();
    let is_empty = |part: &Value| part.is_null() || part.as_object().is_some_and(Map::is_empty);
    let labels = patch.pointer("/metadata/labels").and_then(Value::as_object);
    let mut labels = labels.into_iter().flatten();
    patch.get("spec").is_none_or(is_empty)
        && labels.all(|(key, value)| match value {
            Value::Null => pod.metadata.label(key).is_none(),
            value => pod.metadata.label(key) == value.as_str() && value.is_string(),
        })
}

/// Returns what is written to the metadata of a Pod that was assigned now: the labels and annotations of the subset's patch, unless the user wants Pods that
/// were there before left alone, and the subset.
pub fn metadata(spread: &WorkloadSpread, subset: &WorkloadSpreadSubset) -> Value {
    let annotations = spread.metadata.annotations.as_ref();
    let ignored = annotations.and_then(|all| all.get(annotation::IGNORE_EXISTING_PODS));
    let is_ignored = ignored.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let mut metadata = json!({});
    if !is_ignored && !subset.patch.is_empty() {
        let patch = subset.patch.value();
        for part in ["labels", "annotations"] {
            let wanted = patch.get("metadata").and_then(|metadata| metadata.get(part));
            if let Some(wanted) = wanted.and_then(Value::as_object) {
                // No directives: other writers' labels and annotations stay.
                let plain = wanted.iter().filter(|(key, _)| !key.starts_with('$'));
                for (key, value) in plain {
                    set(&mut metadata, part, key, value.clone());
                }
            }
        }
    }
    let matched = Matched {
        name: spread.metadata.name.clone().unwrap_or_default(),
        subset: subset.name.clone(),
        uid: String::new(),
    };
    let matched = Value::from(matched.text());
    set(
        &mut metadata,
        "annotations",
        annotation::MATCHED_WORKLOAD_SPREAD,
        matched,
    );
    metadata
}

/// Sets a label or an annotation.
pub(super) fn set(metadata: &mut Value, part: &str, key: &str, value: Value) {
    if let Some(parts) = metadata.as_object_mut()
        && let Some(all) = parts.entry(part).or_insert_with(|| json!({})).as_object_mut()
    {
        all.insert(key.to_owned(), value);
    }
}
