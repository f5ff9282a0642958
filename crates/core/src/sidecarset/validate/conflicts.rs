//! Sets that can apply to the same Pod and contradict each other.
//!
//! - Two sets overlap unless their selectors of Pods or of namespaces exclude each other. A set without a selector of namespaces looks at all of them.
//! - Overlapping sets have no container and no init container of the same name, and no volume of the same name that is something else.
//! - They may write the same annotation only where both keep or both merge what is there, or one of them keeps it.
//!
//! Selectors exclude each other also when one asks for a label that the other does not mention (`Exists`): that is how the original reads it.

use crate::field_error::{FieldError, Path};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruise_api::meta::Object as _;
use kruise_api::sidecarset::PatchPolicy;
use kruise_api::sidecarset::container::SidecarContainer;
use kruise_api::sidecarset::v1beta1::SidecarSet;
use serde_json::Value;
use std::collections::BTreeMap;

/// What of a set contradicts others.
pub fn conflicts(new: &SidecarSet, others: &[SidecarSet]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for other in others.iter().filter(|other| can_meet(new, other)) {
        for (list, ours, theirs) in [
            ("initContainers", &new.spec.init_containers, &other.spec.init_containers),
            ("containers", &new.spec.containers, &other.spec.containers),
        ] {
            errors.extend(same_names(list, ours, theirs, other.name()));
        }
        errors.extend(volumes(new, other));
        errors.extend(annotations(new, other));
    }
    errors
}

fn can_meet(one: &SidecarSet, other: &SidecarSet) -> bool {
    let overlapping = |one: &Option<LabelSelector>, other: &Option<LabelSelector>| match (one, other) {
        (Some(one), Some(other)) => overlap(one, other),
        _ => true,
    };
    overlapping(&one.spec.namespace_selector, &other.spec.namespace_selector)
        && overlapping(&one.spec.selector, &other.spec.selector)
}

fn same_names(list: &str, ours: &[SidecarContainer], theirs: &[SidecarContainer], other: &str) -> Vec<FieldError> {
    let same = ours.iter().enumerate().filter(|(_, container)| {
        let mut theirs = theirs.iter();
        theirs.any(|their| their.name() == container.name())
    });
    same.map(|(index, container)| {
        let at = Path::new("spec").child(list).index(index).child("name");
        let detail = format!("container {} already exist in {other}", container.name());
        FieldError::invalid(&at, container.name(), &detail)
    })
    .collect()
}

fn volumes(new: &SidecarSet, other: &SidecarSet) -> Vec<FieldError> {
    let by_name = |set: &SidecarSet| -> Vec<(String, Value)> {
        let volumes = match set.spec.volumes.value() {
            Value::Array(volumes) => volumes,
            _ => Vec::new(),
        };
        let name = |volume: &Value| {
            volume
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        volumes.into_iter().map(|volume| (name(&volume), volume)).collect()
    };
    let theirs: BTreeMap<String, Value> = by_name(other).into_iter().collect();
    let ours = by_name(new).into_iter().enumerate();
    ours.filter(|(_, (name, volume))| theirs.get(name).is_some_and(|their| their != volume))
        .map(|(index, (name, _))| {
            let at = Path::new("spec").child("volumes").index(index).child("name");
            let detail = format!("volume {name} is in conflict with sidecarset {}", other.name());
            FieldError::invalid(&at, name.as_str(), &detail)
        })
        .collect()
}

fn annotations(new: &SidecarSet, other: &SidecarSet) -> Vec<FieldError> {
    let mut theirs = BTreeMap::new();
    for patch in &other.spec.patch_pod_metadata {
        theirs.extend(patch.annotations.keys().map(|key| (key.as_str(), &patch.patch_policy)));
    }
    let keeps = |policy: &PatchPolicy| matches!(policy, PatchPolicy::Retain | PatchPolicy::Unset);
    let mut errors = Vec::new();
    for (index, patch) in new.spec.patch_pod_metadata.iter().enumerate() {
        for key in patch.annotations.keys() {
            let Some(their) = theirs.get(key.as_str()) else {
                continue;
            };
            let ours = &patch.patch_policy;
            let overwrites = *ours == PatchPolicy::Overwrite || **their == PatchPolicy::Overwrite;
            if !keeps(ours) && !keeps(their) && overwrites {
                let at = Path::new("spec")
                    .child("patchPodMetadata")
                    .index(index)
                    .child("annotations")
                    .key(key);
                let detail = format!("annotation {key} is in conflict with sidecarset {}", other.name());
                errors.push(FieldError::invalid(&at, key.as_str(), &detail));
            }
        }
    }
    errors
}

/// Whether two selectors can choose the same object.
pub fn overlap(one: &LabelSelector, other: &LabelSelector) -> bool {
    !excludes(one, other) && !excludes(other, one)
}

/// What a selector says of a key.
enum Values<'a> {
    Any,
    These(Vec<&'a str>),
}

fn excludes(one: &LabelSelector, other: &LabelSelector) -> bool {
    let mut known: BTreeMap<&str, Values<'_>> = BTreeMap::new();
    for (key, value) in one.match_labels.iter().flatten() {
        known.insert(key, Values::These(vec![value]));
    }
    for term in one.match_expressions.iter().flatten() {
        match term.operator.as_str() {
            "In" => {
                let values = term.values.iter().flatten().map(String::as_str);
                match known.entry(&term.key).or_insert_with(|| Values::These(Vec::new())) {
                    Values::These(listed) => listed.extend(values),
                    Values::Any => {}
                }
            }
            "Exists" => {
                known.insert(&term.key, Values::Any);
            }
            _ => {}
        }
    }
    let listed = |key: &str| match known.get(key) {
        Some(Values::These(values)) => Some(values),
        _ => None,
    };
    let mut pairs = other.match_labels.iter().flatten();
    if pairs.any(|(key, value)| listed(key).is_some_and(|values| !values.contains(&value.as_str()))) {
        return true;
    }
    let mut terms = other.match_expressions.iter().flatten();
    terms.any(|term| {
        let values = || term.values.iter().flatten().map(String::as_str);
        match term.operator.as_str() {
            "In" => listed(&term.key).is_some_and(|listed| !values().any(|value| listed.contains(&value))),
            "NotIn" => {
                listed(&term.key).is_some_and(|listed| listed.iter().all(|value| values().any(|other| other == *value)))
            }
            "Exists" => !known.contains_key(term.key.as_str()),
            "DoesNotExist" => known.contains_key(term.key.as_str()),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_two_selectors_then_they_overlap_as_the_original_sees_it() {
        let label = |key: &str, value: &str| json!({"matchLabels": {key: value}});
        let term = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (one, other, expected) in [
            (label("a", "1"), label("a", "1"), true),
            (label("a", "1"), label("a", "2"), false),
            (label("a", "1"), label("b", "2"), true),
            (label("a", "1"), term("a", "In", &["1", "2"]), true),
            (label("a", "1"), term("a", "In", &["3", "2"]), false),
            (label("a", "1"), term("a", "NotIn", &["1", "2"]), false),
            (label("a", "1"), term("a", "NotIn", &["2"]), true),
            (term("a", "Exists", &[]), term("a", "NotIn", &["2"]), false),
            (term("a", "Exists", &[]), label("b", "c"), false),
            (term("a", "Exists", &[]), label("a", "c"), true),
            (term("a", "DoesNotExist", &[]), label("a", "c"), false),
            (term("a", "DoesNotExist", &[]), label("b", "c"), true),
        ] {
            let read = |selector: &Value| serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(overlap(&read(&one), &read(&other)), expected, "{one} {other}");
            assert_eq!(overlap(&read(&other), &read(&one)), expected, "{other} {one}");
        }
    }
}
