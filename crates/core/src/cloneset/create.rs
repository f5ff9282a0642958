//! New Pods and their claims.
//!
//! A Pod is named `<set>-<id>`, where the id is five random characters that no Pod or claim of the set has. It is made
//! from the template of its revision and gets, besides: the labels of its revision and its id, the lifecycle state
//! `PreparingNormal`, the set as its controller, the readiness gate `InPlaceUpdateReady`, and for each claim template a
//! volume of that name (instead of the template's own) that uses the claim `<template>-<set>-<id>`. Missing claims are
//! made before the Pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kruise_api::cloneset::v1beta1::CloneSetSpec;
use kruise_api::names::condition::pod::IN_PLACE_UPDATE_READY;
use kruise_api::names::{annotation, event, label, pattern};
use serde_json::{Map, Value, json};

use super::claims::Claims;
use crate::plan::{Action, Body, Chain, Event, IdSource, ObjectKind, Target, Write};
use crate::shared::lifecycle::State;
use crate::shared::owner::Owner;
use crate::shared::pod_change::to_the_second;

/// Everything the Pods of one round have in common.
pub(super) struct PodFactory<'a> {
    /// Name and UID of the set.
    pub(super) owner: &'a Owner,
    /// Its namespace.
    pub(super) namespace: &'a str,
    /// Its spec.
    pub(super) spec: &'a CloneSetSpec,
    /// The claims there are.
    pub(super) claims: &'a Claims<'a>,
    /// The time of the decision.
    pub(super) now: jiff::Timestamp,
}

/// A Pod of one revision, except for what each Pod has of its own.
pub(super) struct PodPrototype {
    common: Arc<Value>,
    /// The template's volumes that no claim replaces; `None` when there are no claims.
    volumes: Option<Vec<Value>>,
    claims: Vec<ClaimPrototype>,
}

struct ClaimPrototype {
    name: String,
    common: Arc<Value>,
}

impl PodFactory<'_> {
    /// The common part of the Pods of a revision with these labels.
    pub(super) fn prototype(&self, template: &Value, revision_labels: &BTreeMap<String, String>) -> PodPrototype {
        let metadata = |name: &str| template.pointer(&format!("/metadata/{name}")).cloned();
        let mut labels = object(metadata("labels"));
        labels.extend(revision_labels.iter().map(|(key, value)| (key.clone(), json!(value))));
        labels.insert(
            label::LIFECYCLE_STATE.to_owned(),
            json!(State::PreparingNormal.as_str()),
        );
        let mut annotations = object(metadata("annotations"));
        annotations.insert(
            annotation::LIFECYCLE_TIMESTAMP.to_owned(),
            json!(to_the_second(self.now)),
        );
        let mut meta = json!({
            "generateName": format!("{}-", self.owner.name),
            "namespace": self.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [self.owner.reference()],
        });
        if let (Some(meta), Some(finalizers)) = (meta.as_object_mut(), metadata("finalizers")) {
            meta.insert("finalizers".to_owned(), finalizers);
        }
        let mut spec = object(template.get("spec").cloned());
        add_readiness_gate(&mut spec);
        let claims = self.claim_prototypes();
        let volumes = (!claims.is_empty()).then(|| other_volumes(&spec, &claims));
        let common = json!({
            "apiVersion": ObjectKind::Pod.api_version(), "kind": "Pod", "metadata": meta, "spec": spec,
        });
        PodPrototype {
            common: Arc::new(common),
            volumes,
            claims,
        }
    }

    fn claim_prototypes(&self) -> Vec<ClaimPrototype> {
        let templates = self.spec.volume_claim_templates.value();
        let templates = templates.as_array().map(Vec::as_slice).unwrap_or_default();
        templates
            .iter()
            .filter_map(|template| self.claim_prototype(template))
            .collect()
    }

    fn claim_prototype(&self, template: &Value) -> Option<ClaimPrototype> {
        let metadata = template.get("metadata")?;
        let name = metadata.get("name")?.as_str()?.to_owned();
        let mut labels = object(metadata.get("labels").cloned());
        let selected = self.spec.selector.match_labels.iter().flatten();
        labels.extend(selected.map(|(key, value)| (key.clone(), json!(value))));
        let common = json!({
            "apiVersion": ObjectKind::PersistentVolumeClaim.api_version(),
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "namespace": self.namespace,
                "labels": labels,
                "annotations": object(metadata.get("annotations").cloned()),
                "ownerReferences": [self.owner.reference()],
            },
            "spec": template.get("spec"),
        });
        Some(ClaimPrototype {
            name,
            common: Arc::new(common),
        })
    }

    /// The writes that make one Pod.
    pub(super) fn pod(&self, prototype: &PodPrototype, id: &str) -> Chain {
        let set = &self.owner.name;
        let name = pattern::clone_set_pod(set, id);
        let mut own = json!({ "metadata": { "name": name, "labels": { (label::POD_INSTANCE_ID): id } } });
        let mut writes: Vec<Write> = Vec::with_capacity(prototype.claims.len() + 1);
        if let (Some(volumes), Some(own)) = (&prototype.volumes, own.as_object_mut()) {
            let claimed = prototype.claims.iter().map(|claim| {
                let claim_name = pattern::clone_set_claim(&claim.name, set, id);
                json!({ "name": claim.name, "persistentVolumeClaim": { "claimName": claim_name } })
            });
            let volumes: Vec<Value> = claimed.chain(volumes.iter().cloned()).collect();
            own.insert("spec".to_owned(), json!({ "volumes": volumes }));
        }
        for claim in &prototype.claims {
            let claim_name = pattern::clone_set_claim(&claim.name, set, id);
            if !self.claims.has(id, &claim_name) {
                writes.push(self.claim(claim, &claim_name, id));
            }
        }
        let object = Target::new(ObjectKind::Pod, self.namespace, &name);
        let write = Write::from(Action::create(object, Body::new(prototype.common.clone(), own)));
        writes.push(
            write
                .then(Event::normal(
                    event::SUCCESSFUL_CREATE,
                    format!("succeed to create pod {name}"),
                ))
                .or_else(Event::warning(
                    event::FAILED_CREATE,
                    format!("failed to create pod {name}"),
                )),
        );
        writes.into_iter().collect()
    }

    fn claim(&self, claim: &ClaimPrototype, name: &str, id: &str) -> Write {
        let own = json!({ "metadata": { "name": name, "labels": { (label::POD_INSTANCE_ID): id } } });
        let object = Target::new(ObjectKind::PersistentVolumeClaim, self.namespace, name);
        let write = Write::from(Action::create(object, Body::new(claim.common.clone(), own)));
        write.or_else(Event::warning(
            event::FAILED_CREATE,
            format!("failed to create claim {name}"),
        ))
    }
}

fn object(value: Option<Value>) -> Map<String, Value> {
    match value {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

fn add_readiness_gate(spec: &mut Map<String, Value>) {
    let gates = spec.entry("readinessGates").or_insert(Value::Null);
    if !gates.is_array() {
        *gates = Value::Array(Vec::new());
    }
    let Value::Array(gates) = gates else { return };
    let has = |gate: &Value| gate.get("conditionType").and_then(Value::as_str) == Some(IN_PLACE_UPDATE_READY);
    if !gates.iter().any(has) {
        gates.push(json!({ "conditionType": IN_PLACE_UPDATE_READY }));
    }
}

fn other_volumes(spec: &Map<String, Value>, claims: &[ClaimPrototype]) -> Vec<Value> {
    let volumes = spec
        .get("volumes")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let is_claimed = |volume: &&Value| {
        let name = volume.get("name").and_then(Value::as_str);
        claims.iter().any(|claim| Some(&*claim.name) == name)
    };
    volumes.iter().filter(|volume| !is_claimed(volume)).cloned().collect()
}

/// So many fresh ids that nobody has.
pub(super) fn fresh_ids(mut source: IdSource, taken: &BTreeSet<&str>, count: usize) -> Vec<String> {
    let mut fresh: BTreeSet<String> = BTreeSet::new();
    let mut ids = Vec::with_capacity(count);
    // There are 14 million ids; the bound is for an absurd number of replicas.
    for _ in 0..count.saturating_mul(64) {
        if ids.len() >= count {
            break;
        }
        let id = source.next_id();
        if !taken.contains(&*id) && fresh.insert(id.clone()) {
            ids.push(id);
        }
    }
    ids
}

#[cfg(test)]
mod tests;
