//! v1alpha1 and v1beta1 of UnitedDeployment.
//!
//! | v1alpha1 | v1beta1 |
//! |---|---|
//! | `status.updateStatus.updatedRevision` | `status.updatedRevision` |
//! | `status.subsetReplicas{name}` | `status.subsetStatuses[name].replicas` |
//! | `status.updateStatus.currentPartitions{name}` | `status.subsetStatuses[name].partition` |
//!
//! **The CloneSet template** has the v1beta1 shape in both versions. Manifests written for release 1.9 or older carry
//! the v1alpha1 shape; on the way up it is translated like a CloneSet of its own. On the way down only the new shape
//! is written. A template counts as old when its update strategy is written the old way or when it has
//! `disablePVCReuse`; one that could be either is left alone.

use crate::shared::cloneset_shape;
use crate::shared::convert::{ConvertError, Rules, Warning};
use crate::shared::tree::{Object, child, child_or_new, drop_empty, take_child};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

pub const RULES: Rules = Rules {
    only_v1alpha1: &[
        "spec.template.cloneSetTemplate.spec.scaleStrategy.disablePVCReuse",
        "spec.template.cloneSetTemplate.spec.updateStrategy.inPlaceUpdateStrategy",
        "spec.template.cloneSetTemplate.spec.updateStrategy.maxSurge",
        "spec.template.cloneSetTemplate.spec.updateStrategy.maxUnavailable",
        "spec.template.cloneSetTemplate.spec.updateStrategy.partition",
        "spec.template.cloneSetTemplate.spec.updateStrategy.paused",
        "spec.template.cloneSetTemplate.spec.updateStrategy.priorityStrategy",
        "spec.template.cloneSetTemplate.spec.updateStrategy.scatterStrategy",
        "status.subsetReplicas",
        "status.updateStatus.currentPartitions",
        "status.updateStatus.updatedRevision",
    ],
    only_v1beta1: &["status.updatedRevision"],
    up,
    down,
    ..Rules::SAME
};

pub fn up(object: &mut Object, warnings: &mut Vec<Warning>) -> Result<(), ConvertError> {
    let template = child(object, "spec").and_then(|spec| child(spec, "template"));
    if let Some(clone_set) = template.and_then(|template| child(template, "cloneSetTemplate")) {
        template_up(clone_set, warnings);
    }
    if let Some(status) = child(object, "status") {
        status_up(status);
    }
    Ok(())
}

pub fn down(object: &mut Object, _: &mut Vec<Warning>) -> Result<(), ConvertError> {
    if let Some(status) = child(object, "status") {
        status_down(status);
    }
    Ok(())
}

fn template_up(clone_set: &mut Object, warnings: &mut Vec<Warning>) {
    let Some(spec) = child(clone_set, "spec") else { return };
    let old_strategy = child(spec, "updateStrategy").is_some_and(|update| cloneset_shape::is_old_strategy(update));
    // What the new shape says about PVC reuse stands; the old shape reuses unless it says otherwise.
    let scale = child(spec, "scaleStrategy");
    let old_reuse = scale
        .as_ref()
        .is_some_and(|scale| scale.contains_key("disablePVCReuse"));
    let reuse = scale.and_then(|scale| scale.remove("enablePVCReuse"));
    let mut found = Vec::new();
    if old_strategy {
        cloneset_shape::up(clone_set, &mut found);
    } else if old_reuse {
        cloneset_shape::pvc_reuse_up(spec, &mut found);
    }
    if let Some(reuse) = reuse
        && let Some(scale) = child(clone_set, "spec").and_then(|spec| child(spec, "scaleStrategy"))
    {
        scale.insert("enablePVCReuse".into(), reuse);
    }
    warnings.extend(found.into_iter().map(|warning| Warning {
        field: format!("spec.template.cloneSetTemplate.{}", warning.field),
        ..warning
    }));
}

fn status_up(status: &mut Object) {
    let replicas = take_child(status, "subsetReplicas").unwrap_or_default();
    let mut partitions = Map::new();
    let mut revision = None;
    if let Some(update) = child(status, "updateStatus") {
        partitions = take_child(update, "currentPartitions").unwrap_or_default();
        revision = update.remove("updatedRevision");
        drop_empty(status, "updateStatus");
    }
    if let Some(revision) = revision {
        status.insert("updatedRevision".into(), revision);
    }
    if replicas.is_empty() && partitions.is_empty() {
        return;
    }
    let entry = status.entry("subsetStatuses").or_insert(Value::Null);
    if entry.is_null() {
        *entry = Value::Array(Vec::new());
    }
    let Some(subsets) = entry.as_array_mut() else { return };
    for (field, values) in [("replicas", replicas), ("partition", partitions)] {
        for (name, value) in values.into_iter().collect::<BTreeMap<_, _>>() {
            set_subset(subsets, name, field, value);
        }
    }
}

/// Zero is the same as absent and is only written over another value, so that a round trip changes nothing.
fn set_subset(subsets: &mut Vec<Value>, name: String, field: &str, value: Value) {
    let zero = value.is_null() || value.as_i64() == Some(0);
    let value = if zero { 0.into() } else { value };
    let known = subsets
        .iter_mut()
        .filter_map(Value::as_object_mut)
        .find(|subset| subset.get("name").and_then(Value::as_str) == Some(&name));
    if let Some(subset) = known {
        if !zero || subset.get(field).is_some_and(|old| !old.is_null()) {
            subset.insert(field.to_owned(), value);
        }
        return;
    }
    let mut subset = Map::new();
    subset.insert("name".into(), Value::String(name));
    if !zero {
        subset.insert(field.to_owned(), value);
    }
    subsets.push(Value::Object(subset));
}

fn status_down(status: &mut Object) {
    let mut replicas = Map::new();
    let mut partitions = Map::new();
    for subset in status
        .get("subsetStatuses")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let Some(name) = subset
            .get("name")
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty())
        else {
            continue;
        };
        let count = |field| {
            subset
                .get(field)
                .filter(|value| !value.is_null())
                .cloned()
                .unwrap_or(0.into())
        };
        // The first of two entries of one name, as on the way up.
        replicas.entry(name).or_insert_with(|| count("replicas"));
        partitions.entry(name).or_insert_with(|| count("partition"));
    }
    if !replicas.is_empty() {
        status.insert("subsetReplicas".into(), Value::Object(replicas));
    }
    let revision = status
        .remove("updatedRevision")
        .filter(|revision| !revision.is_null() && revision != "");
    if (revision.is_some() || !partitions.is_empty())
        && let Some(update) = child_or_new(status, "updateStatus")
    {
        if let Some(revision) = revision {
            update.insert("updatedRevision".into(), revision);
        }
        if !partitions.is_empty() {
            update.insert("currentPartitions".into(), Value::Object(partitions));
        }
    }
    drop_empty(status, "updateStatus");
}
