//! How claim templates may change where claims follow them (gate `StatefulSetAutoResizePVCGate`, and another strategy than `OnDelete`).
//!
//! None is added, removed or renamed. Class and access modes stay; the size may change if the class allows volumes to grow, or says nothing about it. Without a class
//! it is the default class that counts; without that, nothing is known. The new object's strategy decides: whoever turns to `OnDelete` may change templates at once.

use std::collections::BTreeSet;

use kruise_api::gates::{Gate, Gates};
use kruise_api::statefulset::v1beta1::{ClaimUpdateType, StatefulSetSpec};
use serde_json::{Value, json};

use super::super::Submitted;
use crate::admission::{Lookups, ObjectRef};
use crate::field_error::{FieldError, Path};
use crate::shared::quantity;

/// The storage classes that have to be known.
pub fn classes_to_look_up(new: &Submitted, old: Option<&Submitted>, gates: Gates) -> BTreeSet<ObjectRef> {
    let Some(old) = old.filter(|_| follows(&new.spec, gates)) else {
        return BTreeSet::new();
    };
    let old = templates(&old.spec);
    let new = templates(&new.spec);
    let changed = new.iter().filter(|template| {
        let before = old.iter().find(|before| name(before) == name(template));
        before.is_some_and(|before| sizes(before) != sizes(template))
    });
    changed.map(class_of).collect()
}

fn follows(spec: &StatefulSetSpec, gates: Gates) -> bool {
    let strategy = &spec.volume_claim_update_strategy.type_;
    gates.enabled(Gate::StatefulSetAutoResizePVCGate)
        && !matches!(strategy, ClaimUpdateType::Unset | ClaimUpdateType::OnDelete)
}

pub(super) fn validate(
    new: &StatefulSetSpec,
    old: &StatefulSetSpec,
    gates: Gates,
    lookups: &Lookups,
) -> Vec<FieldError> {
    let path = Path::new("spec").child("volumeClaimTemplates");
    if !follows(new, gates) {
        return Vec::new();
    }
    let (new, old) = (templates(new), templates(old));
    if new.len() != old.len() {
        let names: Vec<&str> = new.iter().map(name).collect();
        let detail = "volumeClaimTemplate can not be added or deleted when OnRollingUpdate";
        return vec![FieldError::invalid(&path, json!(names), detail)];
    }
    let mut errors = Vec::new();
    for template in &new {
        let path = path.key(name(template));
        let Some(before) = old.iter().find(|before| name(before) == name(template)) else {
            let detail = "volumeClaimTemplate name can not be modified";
            errors.push(FieldError::forbidden(&path.child("name"), detail));
            continue;
        };
        if !is_alike(template, before) {
            let detail = "only the size can be changed when OnRollingUpdate";
            errors.push(FieldError::invalid(&path, template.clone(), detail));
        } else if sizes(template) != sizes(before) {
            errors.extend(class_fault(template, &path.child("spec"), lookups));
        }
    }
    errors
}

fn templates(spec: &StatefulSetSpec) -> Vec<Value> {
    match spec.volume_claim_templates.value() {
        Value::Array(templates) => templates,
        _ => Vec::new(),
    }
}

fn name(template: &Value) -> &str {
    let name = template.pointer("/metadata/name").and_then(Value::as_str);
    name.unwrap_or_default()
}

fn class(template: &Value) -> Option<&str> {
    template.pointer("/spec/storageClassName").and_then(Value::as_str)
}

fn class_of(template: &Value) -> ObjectRef {
    class(template).map_or(ObjectRef::DefaultStorageClass, |class| {
        ObjectRef::StorageClass(class.to_owned())
    })
}

fn sizes(template: &Value) -> [Option<i128>; 2] {
    ["requests", "limits"].map(|which| {
        let size = template.pointer(&format!("/spec/resources/{which}/storage"))?;
        quantity::of_value(size)
    })
}

fn is_alike(one: &Value, other: &Value) -> bool {
    let modes = |template: &Value| template.pointer("/spec/accessModes").cloned().unwrap_or(json!([]));
    let classes = class(one).zip(class(other));
    classes.is_none_or(|(one, other)| one == other) && modes(one) == modes(other)
}

fn class_fault(template: &Value, path: &Path, lookups: &Lookups) -> Option<FieldError> {
    let wanted = class_of(template);
    let at = path.child("storageClassName");
    let named = class(template);
    let found = match lookups.object(&wanted) {
        Ok(found) => found,
        Err(reason) => return Some(FieldError::invalid(&at, named, &format!("can not get sc: {reason}"))),
    };
    let Some(found) = found else {
        return named.map(|named| FieldError::invalid(&at, named, "can not get sc"));
    };
    let forbids = found.get("allowVolumeExpansion").and_then(Value::as_bool) == Some(false);
    forbids.then(|| {
        let class = found
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let at = path.child("resources").child("requests").child("storage");
        FieldError::forbidden(&at, &format!("storage class {class} does not support volume expansion"))
    })
}
