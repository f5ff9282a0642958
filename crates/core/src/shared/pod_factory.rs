//! New Pods and their claims, made from a template.
//!
//! A Pod is made from the template of its revision and gets, besides: the workload as its controller, what its kind adds for all Pods of a revision
//! ([`Additions`]), what is its own ([`PodIdentity`]), and for each claim template a volume of that name (instead of the template's own) that uses the
//! Pod's claim. A claim gets the labels of the selector on top of those of its template. Missing claims are made before the Pod.
//!
//! What Pods of a revision have in common is made once ([`PodPrototype`]) and kept once: a thousand Pods are a thousand small parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use kruise_api::raw::VolumeClaimTemplates;
use serde_json::{Map, Value, json};

use super::owner::Owner;
use crate::plan::{Action, Body, Target};

/// Makes the Pods of a workload.
#[derive(Clone, Copy, Debug)]
pub struct PodFactory<'a> {
    /// The workload.
    pub owner: &'a Owner,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its claim templates.
    pub claim_templates: &'a VolumeClaimTemplates,
    /// Labels that claims get, those of the selector.
    pub claim_labels: Option<&'a BTreeMap<String, String>>,
}

/// What a kind adds to all Pods of a revision.
#[derive(Clone, Debug, Default)]
pub struct Additions<'a> {
    /// Labels: the revision's, and the first lifecycle state.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Readiness gates, unless the template has them.
    pub readiness_gates: &'a [&'a str],
}

/// What one Pod and its claims have of their own.
pub trait PodIdentity {
    /// The Pod's name.
    fn pod_name(&self) -> String;

    /// The name of its claim by a template of this name.
    fn claim_name(&self, template: &str) -> String;

    /// Labels of the Pod.
    fn pod_labels(&self) -> Map<String, Value>;

    /// Labels of its claims.
    fn claim_labels(&self) -> Map<String, Value> {
        Map::new()
    }

    /// Fields of the Pod's spec, as a JSON merge patch.
    fn spec(&self) -> Map<String, Value> {
        Map::new()
    }
}

/// A Pod of one revision, except for what each Pod has of its own.
#[derive(Clone, Debug)]
pub struct PodPrototype {
    common: Arc<Value>,
    /// The template's volumes that no claim replaces; `None` when there are no claims.
    volumes: Option<Vec<Value>>,
    claims: Vec<ClaimPrototype>,
}

#[derive(Clone, Debug)]
struct ClaimPrototype {
    name: String,
    common: Arc<Value>,
}

/// The writes that make one Pod, claims first.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPod {
    /// Claims that have to be made, by name.
    pub claims: Vec<(String, Action)>,
    /// Name of the Pod.
    pub name: String,
    /// The Pod.
    pub pod: Action,
}

impl PodFactory<'_> {
    /// Returns what the Pods of a revision with this template have in common.
    pub fn prototype(&self, template: &Value, additions: Additions<'_>) -> PodPrototype {
        let metadata = |name: &str| template.pointer(&format!("/metadata/{name}")).cloned();
        let mut labels = object(metadata("labels"));
        labels.extend(additions.labels.into_iter().map(|(key, value)| (key, json!(value))));
        let mut annotations = object(metadata("annotations"));
        annotations.extend(
            additions
                .annotations
                .into_iter()
                .map(|(key, value)| (key, json!(value))),
        );
        let mut meta = json!({
            "generateName": generate_name(&self.owner.name),
            "namespace": self.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [self.owner.reference()],
        });
        if let (Some(meta), Some(finalizers)) = (meta.as_object_mut(), metadata("finalizers")) {
            meta.insert("finalizers".to_owned(), finalizers);
        }
        let mut spec = object(template.get("spec").cloned());
        for gate in additions.readiness_gates {
            add_readiness_gate(&mut spec, gate);
        }
        let claims = self.claim_prototypes();
        let volumes = (!claims.is_empty()).then(|| other_volumes(&spec, &claims));
        let common = json!({
            "apiVersion": Pod::API_VERSION, "kind": "Pod", "metadata": meta, "spec": spec,
        });
        PodPrototype {
            common: Arc::new(common),
            volumes,
            claims,
        }
    }

    fn claim_prototypes(&self) -> Vec<ClaimPrototype> {
        let templates = self.claim_templates.value();
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
        let selected = self.claim_labels.into_iter().flatten();
        labels.extend(selected.map(|(key, value)| (key.clone(), json!(value))));
        let common = json!({
            "apiVersion": PersistentVolumeClaim::API_VERSION,
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

    /// Returns the writes that make one Pod; `has_claim` tells which claims are there already.
    pub fn pod(
        &self,
        prototype: &PodPrototype,
        identity: &impl PodIdentity,
        has_claim: impl Fn(&str) -> bool,
    ) -> NewPod {
        let mut spec = identity.spec();
        if let Some(volumes) = &prototype.volumes {
            let claimed = prototype.claims.iter().map(|claim| {
                let claim_name = identity.claim_name(&claim.name);
                json!({ "name": claim.name, "persistentVolumeClaim": { "claimName": claim_name } })
            });
            let volumes: Vec<Value> = claimed.chain(volumes.iter().cloned()).collect();
            spec.insert("volumes".to_owned(), json!(volumes));
        }
        let names = prototype
            .claims
            .iter()
            .map(|claim| (claim, identity.claim_name(&claim.name)));
        let missing = names.filter(|(_, name)| !has_claim(name));
        let claims = missing.map(|(claim, name)| {
            let own = json!({ "metadata": { "name": name, "labels": identity.claim_labels() } });
            let target = Target::new(PersistentVolumeClaim::RESOURCE, self.namespace, &name);
            let action = Action::create(target, Body::new(claim.common.clone(), own));
            (name, action)
        });
        let claims = claims.collect();
        let name = identity.pod_name();
        let mut own = json!({ "metadata": { "name": name, "labels": identity.pod_labels() } });
        if let (Some(own), false) = (own.as_object_mut(), spec.is_empty()) {
            own.insert("spec".to_owned(), Value::Object(spec));
        }
        let target = Target::new(Pod::RESOURCE, self.namespace, &name);
        let pod = Action::create(target, Body::new(prototype.common.clone(), own));
        NewPod { claims, name, pod }
    }
}

/// Characters of an object's name.
const NAME_LENGTH: usize = 253;

/// What names of Pods begin with. A name that leaves no room for a dash is taken as it is.
fn generate_name(workload: &str) -> String {
    if workload.len() < NAME_LENGTH {
        format!("{workload}-")
    } else {
        workload.to_owned()
    }
}

fn object(value: Option<Value>) -> Map<String, Value> {
    match value {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

fn add_readiness_gate(spec: &mut Map<String, Value>, gate: &str) {
    let gates = spec.entry("readinessGates").or_insert(Value::Null);
    if !gates.is_array() {
        *gates = Value::Array(Vec::new());
    }
    let Value::Array(gates) = gates else { return };
    let has = |known: &Value| known.get("conditionType").and_then(Value::as_str) == Some(gate);
    if !gates.iter().any(has) {
        gates.push(json!({ "conditionType": gate }));
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

#[cfg(test)]
mod tests;
