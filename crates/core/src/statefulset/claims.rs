//! The claims of a set: one per template and ordinal, named `<template>-<set>-<ordinal>`.
//!
//! - Missing claims are created before their Pod, and again as long as it is Pending ([`Claims::create_missing`]). A claim that is there is used as it is,
//!   whoever made it: that is how volumes follow their ordinal.
//! - A Pod is not created on a claim that is about to go ([`Claims::obstacle`]): one that is being deleted, and one that belongs to a Pod or a set of the
//!   right name and another UID, as the garbage collector is going to find it.
//! - Who keeps claims and who does not is said by their owners ([`Claims::fix_owners`]). Somebody else's claim keeps its owners.
//! - With `volumeClaimUpdateStrategy: OnPodRollingUpdate` claims grow with their templates ([`Claims::expand`]).
//!
//! A claim that is missing or on its way out has no say in anything else.

mod expansion;
mod retention;

use std::collections::BTreeMap;
use std::sync::Arc;

use kruise_api::gates::{Gate, Gates};
use kruise_api::kind::Kind as _;
use kruise_api::meta::Meta;
use kruise_api::names::{annotation, event, pattern};
use kruise_api::pod::Pod;
use kruise_api::statefulset::v1beta1::{ClaimUpdateType, StatefulSet};
use kruise_api::storage::{PersistentVolumeClaim, StorageClass};
use serde_json::{Map, Value, json};

pub use expansion::Expansion;
use expansion::Template;
use retention::Retention;

use crate::plan::{Action, Body, Event, PodNames, Target, Write};
use crate::shared::owner::Owner;

/// The claims of a set, and what it wants of them.
#[derive(Debug)]
pub struct Claims<'a> {
    owner: &'a Owner,
    namespace: &'a str,
    templates: Vec<Template>,
    by_name: BTreeMap<&'a str, &'a PersistentVolumeClaim>,
    /// Whose claims are, unless the gate leaves them alone.
    retention: Option<Retention>,
    /// Claims follow the size of their template.
    expands: bool,
    classes: BTreeMap<&'a str, &'a StorageClass>,
}

/// Why a Pod cannot be created now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A claim is being deleted.
    Terminating(String),
    /// A claim goes with an owner that is gone.
    Stale(String),
}

impl<'a> Claims<'a> {
    /// Returns the claims of a set. `claims` may have more than those.
    pub fn of(
        set: &'a StatefulSet,
        owner: &'a Owner,
        claims: impl IntoIterator<Item = &'a PersistentVolumeClaim>,
        classes: impl IntoIterator<Item = &'a StorageClass>,
        gates: Gates,
    ) -> Self {
        let follows = set.spec.volume_claim_update_strategy.type_ == ClaimUpdateType::OnPodRollingUpdate;
        let retention = gates
            .enabled(Gate::StatefulSetAutoDeletePVC)
            .then(|| Retention::of(set));
        Self {
            owner,
            namespace: set.metadata.namespace.as_deref().unwrap_or_default(),
            templates: templates(set),
            by_name: claims.into_iter().map(|claim| (&*claim.metadata.name, claim)).collect(),
            retention,
            expands: follows && gates.enabled(Gate::StatefulSetAutoResizePVCGate),
            classes: classes
                .into_iter()
                .map(|class| (&*class.metadata.name, class))
                .collect(),
        }
    }

    /// True when Pods of the set have no claims.
    pub fn are_none(&self) -> bool {
        self.templates.is_empty()
    }

    fn name(&self, template: &Template, ordinal: i32) -> String {
        pattern::stateful_set_claim(&template.name, &self.owner.name, ordinal)
    }

    /// The claims of an ordinal that are there, with their templates; those on their way out too.
    fn existing(&self, ordinal: i32) -> impl Iterator<Item = (&Template, &'a PersistentVolumeClaim)> {
        self.templates.iter().filter_map(move |template| {
            let claim = self.by_name.get(&*self.name(template, ordinal))?;
            Some((template, *claim))
        })
    }

    /// The same without those on their way out.
    fn living(&self, ordinal: i32) -> impl Iterator<Item = (&Template, &'a PersistentVolumeClaim)> {
        let existing = self.existing(ordinal);
        existing.filter(|(_, claim)| !claim.metadata.is_deleting())
    }

    /// Returns why the Pod of an ordinal cannot be created now.
    pub fn obstacle(&self, ordinal: i32) -> Option<Obstacle> {
        let pod = format!("{}-{ordinal}", self.owner.name);
        self.existing(ordinal).find_map(|(_, claim)| {
            let name = || claim.metadata.name.to_string();
            if claim.metadata.is_deleting() {
                Some(Obstacle::Terminating(name()))
            } else if self.retention.is_some() && retention::is_stale(&claim.metadata, &pod, self.owner) {
                Some(Obstacle::Stale(name()))
            } else {
                None
            }
        })
    }

    /// Returns the writes that make the claims which an ordinal does not have. An ordinal in `excess` is not wanted by the set.
    pub fn create_missing(&self, ordinal: i32, excess: bool) -> Vec<Write> {
        let templates = self
            .templates
            .iter()
            .map(|template| (template, self.name(template, ordinal)));
        let missing = templates.filter(|(_, name)| !self.by_name.contains_key(&**name));
        missing
            .map(|(template, name)| self.create(template, &name, ordinal, excess))
            .collect()
    }

    fn create(&self, template: &Template, name: &str, ordinal: i32, excess: bool) -> Write {
        let mut metadata = Map::from_iter([("name".to_owned(), json!(name))]);
        // The Pod is not there yet; if the claim is to go with it, it is told so when it is.
        if self.retention.is_some_and(|retention| retention.wants_set(excess)) {
            metadata.insert("ownerReferences".to_owned(), json!([self.owner.plain_reference()]));
        }
        let target = Target::new(PersistentVolumeClaim::RESOURCE, self.namespace, name);
        let body = Body::new(template.object.clone(), json!({ "metadata": metadata }));
        let (set, pod) = (&self.owner.name, format!("{}-{ordinal}", self.owner.name));
        Write::from(Action::create(target, body))
            .then(Event::normal(
                event::SUCCESSFUL_CREATE,
                format!("create Claim {name} Pod {pod} in StatefulSet {set} success"),
            ))
            .or_else(Event::warning(
                event::FAILED_CREATE,
                format!("create Claim {name} for Pod {pod} in StatefulSet {set} failed error"),
            ))
    }

    /// Returns the writes that give a Pod's claims the owners that the retention policy wants.
    pub fn fix_owners(&self, pod: &Pod, ordinal: i32, excess: bool) -> Vec<Write> {
        let Some(retention) = self.retention else {
            return Vec::new();
        };
        let living = self.living(ordinal).map(|(_, claim)| &claim.metadata);
        living
            .filter(|claim| !retention::is_of_others(claim, pod, self.owner))
            .filter_map(|claim| retention.fix(claim, pod, self.owner, excess))
            .collect()
    }

    /// Returns the claims of Pods that somebody else manages, and whose owners are therefore left as they are.
    pub fn of_others<'p>(&self, pods: impl IntoIterator<Item = (i32, &'p Pod)>) -> PodNames {
        let mut names = PodNames::default();
        for (ordinal, pod) in pods {
            let claims = self.living(ordinal).map(|(_, claim)| &claim.metadata);
            for claim in claims.filter(|claim| retention::is_of_others(claim, pod, self.owner)) {
                names.push(&claim.name);
            }
        }
        names
    }
}

fn templates(set: &StatefulSet) -> Vec<Template> {
    let templates = set.spec.volume_claim_templates.value();
    let templates = templates.as_array().map(Vec::as_slice).unwrap_or_default();
    templates
        .iter()
        .filter_map(|template| Template::of(set, template))
        .collect()
}

/// The claim that a template makes, but for its name.
fn object(set: &StatefulSet, template: &Value) -> Arc<Value> {
    let part = |name: &str| match template.pointer(&format!("/metadata/{name}")) {
        Some(Value::Object(part)) => part.clone(),
        _ => Map::new(),
    };
    let mut labels = part("labels");
    let selected = set.spec.selector.match_labels.iter().flatten();
    labels.extend(selected.map(|(key, value)| (key.clone(), json!(value))));
    Arc::new(json!({
        "apiVersion": PersistentVolumeClaim::API_VERSION,
        "kind": PersistentVolumeClaim::KIND,
        "metadata": {
            "namespace": set.metadata.namespace,
            "labels": labels,
            "annotations": part("annotations"),
        },
        "spec": template.get("spec"),
    }))
}

/// Returns the names of sets that may wait for a change of this claim: the one that owns it or lets it grow, and the one of the Pod that owns it.
pub fn sets_of(claim: &Meta) -> impl Iterator<Item = &str> {
    let owners = claim.owner_references.0.iter().filter_map(|owner| match &*owner.kind {
        Pod::KIND => owner.name.rsplit_once('-').map(|(set, _)| set),
        _ => owner.is_a::<StatefulSet>().then_some(&*owner.name),
    });
    owners.chain(claim.annotation(annotation::CLAIM_OWNED_BY_STATEFUL_SET))
}

#[cfg(test)]
mod tests;
