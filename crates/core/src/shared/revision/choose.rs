//! Which revision the current template is, and what to do when there is none yet.

use std::collections::BTreeMap;

use kruise_api::names::{annotation, label};
use kruise_api::raw::{PodTemplate, VolumeClaimTemplates};
use kruise_api::revision::ControllerRevision;
use serde_json::{Value, json};

use super::{claims_hash, data, hash, is_same_data, is_same_workload_data, name, workload_data};
use crate::shared::owner::Owner;

/// What a revision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// The workload.
    pub owner: &'a Owner,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its annotations, which a new revision gets too.
    pub annotations: Option<&'a BTreeMap<String, String>>,
    /// Its Pod template.
    pub template: &'a PodTemplate,
    /// Its claim templates, when the hash of these belongs to its revisions.
    pub claims: Option<&'a VolumeClaimTemplates>,
}

/// The revision that the current template asks for.
#[derive(Clone, Debug)]
pub struct Candidate {
    data: String,
    /// Whether the data of two revisions is the same.
    same: fn(&str, &str) -> bool,
    claims_hash: Option<String>,
    /// The label that has the hash.
    hash_label: &'static str,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    owner: Owner,
    namespace: String,
}

/// What to do to have the revision that the current template asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice<'a> {
    /// It is there, and the newest.
    Use(&'a ControllerRevision),
    /// It is there, but older than others: it gets the highest number.
    Renumber {
        /// The revision.
        revision: &'a ControllerRevision,
        /// A merge patch that does it.
        patch: Value,
    },
    /// There is none.
    Create {
        /// Its name.
        name: String,
        /// The count of collisions with which this name was made.
        collisions: i32,
        /// The object to create.
        object: Value,
    },
}

/// What it means that the name of a new revision is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameTaken {
    /// It is the revision we want: use it.
    Use,
    /// It is another one: count a collision and choose again.
    Collision,
}

impl Candidate {
    /// The candidate of a workload as it is now.
    pub fn of(workload: &Workload<'_>) -> Self {
        let template = workload.template.value();
        let labels = template.pointer("/metadata/labels").and_then(Value::as_object);
        let labels = labels.into_iter().flatten();
        Self {
            data: data(&template),
            same: is_same_data,
            claims_hash: workload.claims.map(|claims| claims_hash(&claims.value())),
            hash_label: label::REVISION_DATA_HASH,
            labels: labels
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
            annotations: workload.annotations.cloned().unwrap_or_default(),
            owner: workload.owner.clone(),
            namespace: workload.namespace.to_owned(),
        }
    }

    /// The candidate of an owner of workloads: its revisions keep the template of a workload, and have labels of their own.
    pub fn of_workload_template(
        template: &Value,
        labels: BTreeMap<String, String>,
        owner: &Owner,
        namespace: &str,
    ) -> Self {
        Self {
            data: workload_data(template),
            same: is_same_workload_data,
            claims_hash: None,
            hash_label: label::REVISION_DATA_HASH,
            labels,
            annotations: BTreeMap::new(),
            owner: owner.clone(),
            namespace: namespace.to_owned(),
        }
    }

    /// The same, with the hash in another label than most kinds have it in.
    #[must_use]
    pub fn hashed_in(self, hash_label: &'static str) -> Self {
        Self { hash_label, ..self }
    }

    /// Who would own it.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Where it would be.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The data it would have.
    pub fn data(&self) -> &str {
        &self.data
    }

    /// Whether a revision is what this candidate asks for.
    pub fn is(&self, revision: &ControllerRevision) -> bool {
        (self.same)(&self.data, revision.data.json())
    }

    fn object(&self, name: &str, hash: &str, number: i64) -> Value {
        let mut labels = self.labels.clone();
        labels.insert(self.hash_label.to_owned(), hash.to_owned());
        let mut annotations = self.annotations.clone();
        if let Some(hash) = &self.claims_hash {
            annotations.insert(annotation::CLAIM_TEMPLATES_HASH.to_owned(), hash.clone());
        }
        json!({
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [self.owner.reference()],
            },
            "data": serde_json::from_str::<Value>(&self.data).unwrap_or_default(),
            "revision": number,
        })
    }

    fn renumber<'a>(&self, revision: &'a ControllerRevision, number: i64) -> Choice<'a> {
        let patch = match &self.claims_hash {
            Some(hash) if revision.metadata.annotation(annotation::CLAIM_TEMPLATES_HASH) != Some(hash) => {
                let annotations = json!({(annotation::CLAIM_TEMPLATES_HASH): hash});
                json!({"metadata": {"annotations": annotations}, "revision": number})
            }
            _ => json!({"revision": number}),
        };
        Choice::Renumber { revision, patch }
    }
}

/// Chooses among the workload's revisions, which are sorted by age as [`super::belonging`] gives them.
pub fn choose<'a>(candidate: &Candidate, known: &[&'a ControllerRevision], collisions: i32) -> Choice<'a> {
    let next = known.last().map_or(0, |newest| newest.revision).saturating_add(1);
    let newest = known.last().copied();
    if let Some(newest) = newest.filter(|newest| candidate.is(newest)) {
        return Choice::Use(newest);
    }
    if let Some(older) = known.iter().rev().find(|older| candidate.is(older)) {
        return candidate.renumber(older, next);
    }
    let named = |collisions: i32| {
        let hash = hash(&candidate.data, collisions);
        (collisions, name(&candidate.owner.name, &hash), hash)
    };
    // A collision that can be seen already costs no attempt.
    let is_free = |name: &str| known.iter().all(|revision| revision.name() != name);
    let mut attempts = (collisions..=i32::MAX).take(known.len() + 1).map(named);
    let free = attempts.find(|(_, name, _)| is_free(name));
    let (collisions, name, hash) = free.unwrap_or_else(|| named(collisions));
    let object = candidate.object(&name, &hash, next);
    Choice::Create {
        name,
        collisions,
        object,
    }
}

/// What to do when the name of a new revision turned out to be taken by an object that was not among the workload's own.
pub fn name_taken(candidate: &Candidate, by: &ControllerRevision) -> NameTaken {
    if candidate.is(by) {
        NameTaken::Use
    } else {
        NameTaken::Collision
    }
}
