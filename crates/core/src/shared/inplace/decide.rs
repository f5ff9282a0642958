//! Whether a change of the template can be made in place, and what it is.
//!
//! | what differs in the template | in place |
//! |---|---|
//! | anything of the metadata | yes |
//! | the image of a container, from one to another | yes |
//! | cpu or memory of a container, from one amount to another | yes, with gate `InPlaceWorkloadVerticalScaling` and when the class of service stays |
//! | anything else: other fields, init containers, added, removed, renamed or reordered containers, added or removed amounts | no |
//!
//! With gate `RecreatePodWhenChangeVCTInCloneSetGate`, changed claim templates rule it out too.

use std::fmt;

use kruise_api::gates::{Gate, Gates};
use kruise_api::names::annotation;
use kruise_api::revision::ControllerRevision;
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::change_set::ChangeSet;
use super::diff::{Difference, Operation, Step, differences, shown};
use super::env_refs::{Reference, is_counted, reference};
use super::qos;
use crate::shared::{quantity, revision};

/// What else decides.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The feature gates.
    pub gates: Gates,
    /// Changed claim templates do not matter (policy `InPlaceOnly`).
    pub ignore_claims: bool,
    /// Seconds between making a Pod not ready and changing it.
    pub grace_seconds: i32,
}

/// Why an update cannot be made in place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {reason}")]
pub struct WhyNot {
    /// The field of the revision's data that stands in the way.
    pub path: String,
    /// What about it.
    pub reason: Reason,
}

/// What stands in the way of an update in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Reason {
    /// A revision has no template that could be read.
    #[error("the revision has no readable template")]
    NoTemplate,
    /// A field that only a new Pod can have changed.
    #[error("cannot be changed in place")]
    Immutable,
    /// An image was added or removed.
    #[error("an image can be replaced in place, not added or removed")]
    ImageComesOrGoes,
    /// An amount was added or removed.
    #[error("an amount can be replaced in place, not added or removed")]
    AmountComesOrGoes,
    /// Resources change only with a gate.
    #[error("resources are changed in place only with feature gate InPlaceWorkloadVerticalScaling")]
    VerticalScalingOff,
    /// The new amount is no quantity.
    #[error("not a quantity")]
    NotAQuantity,
    /// The class of service would change.
    #[error("the quality of service class would change")]
    QosChanges,
    /// The claim templates changed.
    #[error("the volume claim templates changed")]
    ClaimsChanged,
}

/// Compares two revisions: what to change so that a Pod of the old one becomes a Pod of the new one.
pub fn decide(old: &ControllerRevision, new: &ControllerRevision, options: &Options) -> Result<ChangeSet, WhyNot> {
    let (Some(before), Some(after)) = (data_of(old), data_of(new)) else {
        return Err(why_not("spec.template", Reason::NoTemplate));
    };
    if claims_changed(old, new, options) {
        return Err(why_not("spec.volumeClaimTemplates", Reason::ClaimsChanged));
    }
    let mut change = ChangeSet {
        revision: new.name().to_owned(),
        grace_seconds: options.grace_seconds,
        ..ChangeSet::default()
    };
    let found = differences(&before, &after);
    let mut metadata_differs = false;
    for difference in &found {
        metadata_differs |= judge(difference, &before, options.gates, &mut change)?;
    }
    let template = |data: &Value| data.pointer(TEMPLATE).cloned().unwrap_or_default();
    let (before, after) = (template(&before), template(&after));
    if !change.resources.is_empty() && qos::class(&before) != qos::class(&after) {
        return Err(why_not("spec.template.spec.containers", Reason::QosChanges));
    }
    if metadata_differs {
        let metadata = |template: &Value| template.get("metadata").cloned().unwrap_or_default();
        change.metadata = metadata_patch(&metadata(&before), &metadata(&after));
    }
    if options.gates.enabled(Gate::InPlaceUpdateEnvFromMetadata) {
        for difference in &found {
            move_referenced(difference, &after, &mut change);
        }
    }
    Ok(change)
}

/// The data of a revision, written as we write it: what only looks different is no change.
fn data_of(revision: &ControllerRevision) -> Option<Value> {
    let template = revision::template(&revision.data.value())?;
    serde_json::from_str(&revision::data(&template)).ok()
}

/// Where the template is in a revision's data.
const TEMPLATE: &str = "/spec/template";

fn why_not(path: impl fmt::Display, reason: Reason) -> WhyNot {
    WhyNot {
        path: path.to_string(),
        reason,
    }
}

fn claims_changed(old: &ControllerRevision, new: &ControllerRevision, options: &Options) -> bool {
    let hash = |revision: &'_ ControllerRevision| {
        revision
            .metadata
            .annotation(annotation::CLAIM_TEMPLATES_HASH)
            .map(str::to_owned)
    };
    let changed = matches!((hash(old), hash(new)), (Some(old), Some(new)) if old != new);
    changed && !options.ignore_claims && options.gates.enabled(Gate::RecreatePodWhenChangeVCTInCloneSetGate)
}

/// Takes an allowed difference into the change and says whether it is one of the metadata; refuses any other.
fn judge(difference: &Difference<'_>, before: &Value, gates: Gates, change: &mut ChangeSet) -> Result<bool, WhyNot> {
    use Step::{Index, Key};
    let refuse = |reason| Err(why_not(shown(&difference.path), reason));
    let replaced = difference.operation == Operation::Replace;
    let Some([Key("spec"), Key("template"), place @ ..]) = difference.path.get(..) else {
        return refuse(Reason::Immutable);
    };
    match place {
        [Key("metadata"), ..] => return Ok(true),
        [Key("spec"), Key("containers"), Index(index), Key("image")] => {
            let image = difference.value.and_then(Value::as_str);
            let (true, Some(image)) = (replaced, image) else {
                return refuse(Reason::ImageComesOrGoes);
            };
            let Some(name) = container_name(before, *index) else {
                return refuse(Reason::Immutable);
            };
            change.images.insert(name.to_owned(), image.to_owned());
        }
        [
            Key("spec"),
            Key("containers"),
            Index(index),
            Key("resources"),
            rest @ ..,
        ] => {
            let [Key(kind @ ("limits" | "requests")), Key(resource @ ("cpu" | "memory"))] = rest else {
                return refuse(Reason::Immutable);
            };
            if !gates.enabled(Gate::InPlaceWorkloadVerticalScaling) {
                return refuse(Reason::VerticalScalingOff);
            }
            if !replaced {
                return refuse(Reason::AmountComesOrGoes);
            }
            let amount = difference.value.and_then(quantity::text_of_value);
            let (Some(amount), Some(name)) = (amount, container_name(before, *index)) else {
                return refuse(Reason::NotAQuantity);
            };
            let resources = change.resources.entry(name.to_owned()).or_default();
            let amounts = if *kind == "limits" {
                &mut resources.limits
            } else {
                &mut resources.requests
            };
            amounts.insert((*resource).to_owned(), amount);
        }
        _ => return refuse(Reason::Immutable),
    }
    Ok(false)
}

fn container_name(data: &Value, index: usize) -> Option<&str> {
    let containers = data.pointer(TEMPLATE)?.pointer("/spec/containers")?;
    containers.get(index)?.get("name")?.as_str()
}

/// The strategic merge patch that turns one metadata into another.
fn metadata_patch(old: &Value, new: &Value) -> Map<String, Value> {
    let empty = Map::new();
    let fields = |value: &'_ Value| value.as_object().cloned().unwrap_or_else(|| empty.clone());
    let (old, new) = (fields(old), fields(new));
    let mut patch = Map::new();
    for name in old.keys().chain(new.keys()) {
        let (before, after) = (old.get(name), new.get(name));
        if before == after || patch.contains_key(name) {
            continue;
        }
        match (before.unwrap_or(&Value::Null), after.unwrap_or(&Value::Null)) {
            (Value::Null, Value::Null) => {}
            (Value::Object(before), Value::Object(after)) => {
                patch.insert(name.clone(), Value::Object(map_patch(before, after)));
            }
            // Not the whole map: others have written into it too.
            (Value::Object(before), Value::Null) => {
                patch.insert(name.clone(), Value::Object(map_patch(before, &empty)));
            }
            (before, after) if name == "finalizers" => list_patch(&mut patch, name, before, after),
            (_, after) => {
                patch.insert(name.clone(), after.clone());
            }
        }
    }
    patch
}

fn map_patch(old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let changed = new.iter().filter(|(key, value)| old.get(*key) != Some(value));
    let removed = gone.map(|key| (key.clone(), Value::Null));
    removed
        .chain(changed.map(|(key, value)| (key.clone(), value.clone())))
        .collect()
}

/// A list of texts that is merged: what comes, what goes, and the order.
fn list_patch(patch: &mut Map<String, Value>, name: &str, old: &Value, new: &Value) {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (old, new) = (items(old), items(new));
    let added: Vec<_> = new.iter().filter(|item| !old.contains(item)).collect();
    let removed: Vec<_> = old.iter().filter(|item| !new.contains(item)).collect();
    patch.insert(format!("$setElementOrder/{name}"), json!(new));
    if !added.is_empty() {
        patch.insert(name.to_owned(), json!(added));
    }
    if !removed.is_empty() {
        patch.insert(format!("$deleteFromPrimitiveList/{name}"), json!(removed));
    }
}

/// Moves a label or annotation that feeds the environment of containers from the general patch to those containers.
fn move_referenced(difference: &Difference<'_>, template: &Value, change: &mut ChangeSet) {
    use Step::Key;
    let [Key("spec"), Key("template"), Key("metadata"), Key(map), Key(key)] = difference.path.as_slice() else {
        return;
    };
    let (Some(value), true) = (
        difference.value.and_then(Value::as_str),
        difference.operation != Operation::Remove,
    ) else {
        return;
    };
    let wanted = match *map {
        "labels" => Reference::Label(key),
        "annotations" => Reference::Annotation(key),
        _ => return,
    };
    let containers = template.pointer("/spec/containers").and_then(Value::as_array);
    let mut moved = false;
    for container in containers
        .into_iter()
        .flatten()
        .filter(|container| reads(container, wanted))
    {
        let Some(name) = container.get("name").and_then(Value::as_str) else {
            continue;
        };
        let referenced = change.referenced.entry(name.to_owned()).or_default();
        let values = match wanted {
            Reference::Label(_) => &mut referenced.labels,
            Reference::Annotation(_) => &mut referenced.annotations,
        };
        values.insert((*key).to_owned(), value.to_owned());
        moved = true;
    }
    if moved && let Some(Value::Object(values)) = change.metadata.get_mut(*map) {
        values.remove(*key);
        if values.is_empty() {
            change.metadata.remove(*map);
        }
    }
}

/// Whether a container's environment has this label or annotation in it.
fn reads(container: &Value, wanted: Reference<'_>) -> bool {
    let variables = container.get("env").and_then(Value::as_array);
    variables.into_iter().flatten().any(|variable| {
        let text = |path: &str| variable.pointer(path).and_then(Value::as_str).unwrap_or_default();
        is_counted(text("/name"))
            && text("/value").is_empty()
            && reference(text("/valueFrom/fieldRef/fieldPath")) == Some(wanted)
    })
}
