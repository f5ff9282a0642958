//! Pods that a user wants to be gone first.

use super::super::version::Submitted;
use crate::admission::{NamedPod, Version};
use crate::field_error::{FieldError, Path};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Wrong names that are told one by one; of the others only how many.
const TOLD: usize = 20;

/// The Pods that have to be known for [`Lookups::pods`](crate::admission::Lookups::pods), in the CloneSet's namespace.
pub fn pods_to_look_up<'a>(new: &'a Submitted, old: Option<&Submitted>) -> BTreeSet<&'a str> {
    if new.version() != Version::V1alpha1 {
        return BTreeSet::new();
    }
    let before = old.map(Submitted::pods_to_delete).unwrap_or_default();
    let before: BTreeSet<&str> = before.iter().map(String::as_str).collect();
    let named = new.pods_to_delete().iter().map(String::as_str);
    named.filter(|name| !before.contains(name)).collect()
}

pub(super) fn validate(new: &Submitted, old: Option<&Submitted>, pods: &BTreeMap<String, NamedPod>) -> Vec<FieldError> {
    let path = Path::new("spec").child("scaleStrategy").child("podsToDelete");
    let mut errors = Vec::new();
    let named = new.pods_to_delete();
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<&str> = named
        .iter()
        .map(String::as_str)
        .filter(|name| !seen.insert(*name))
        .collect();
    if !twice.is_empty() {
        let twice: Vec<_> = twice.into_iter().collect();
        let detail = format!("duplicated items [{}]", twice.join(" "));
        errors.push(FieldError::invalid(&path, json!(named), &detail));
        return errors;
    }
    let uid = new.metadata().uid.as_deref().filter(|uid| !uid.is_empty());
    let added = pods_to_look_up(new, old).into_iter();
    let mut faults = added.filter_map(|name| Some((name, fault(name, pods.get(name), uid)?)));
    for (name, fault) in faults.by_ref().take(TOLD) {
        errors.push(FieldError::invalid(&path, name, &format!("find pod {name} {fault}")));
    }
    if let Some((name, _)) = faults.next() {
        let more = format!("and {} more Pods", 1 + faults.count());
        errors.push(FieldError::invalid(&path, name, &more));
    }
    errors
}

fn fault(name: &str, pod: Option<&NamedPod>, uid: Option<&str>) -> Option<String> {
    match pod {
        Some(NamedPod::Found { controller, .. }) if uid.is_none() || controller.as_deref() != uid => {
            Some("owner is not this CloneSet".to_owned())
        }
        Some(NamedPod::Found { is_being_deleted, .. }) => {
            is_being_deleted.then(|| "failed: it is being deleted already".to_owned())
        }
        Some(NamedPod::Missing) => Some(format!("failed: Pod {name:?} not found")),
        Some(NamedPod::Unknown(reason)) => Some(format!("failed: {reason}")),
        None => Some("failed: it was not looked up".to_owned()),
    }
}
