//! New Pods of a CloneSet and their claims (see [`crate::shared::pod_factory`]).
//!
//! A Pod is named `<set>-<id>`, where the id is five random characters that no Pod or claim of the set has, and its claims
//! `<template>-<set>-<id>`; all carry the id as a label. A Pod begins in the lifecycle state `PreparingNormal` and has the readiness gate
//! `InPlaceUpdateReady`.

use std::collections::{BTreeMap, BTreeSet};

use kruise_api::names::condition::pod::IN_PLACE_UPDATE_READY;
use kruise_api::names::{annotation, event, label, pattern};
use serde_json::{Map, Value, json};

use super::snapshot::Snapshot;
use crate::plan::{Chain, Event, IdSource, Write};
use crate::shared::lifecycle::State;
use crate::shared::pod_factory::{Additions, PodFactory, PodIdentity, PodPrototype};
use crate::shared::seconds::to_the_second;

/// A Pod of a set, told apart by its id.
struct Instance<'a> {
    set: &'a str,
    id: &'a str,
}

impl PodIdentity for Instance<'_> {
    fn pod_name(&self) -> String {
        pattern::clone_set_pod(self.set, self.id)
    }

    fn claim_name(&self, template: &str) -> String {
        pattern::clone_set_claim(template, self.set, self.id)
    }

    fn pod_labels(&self) -> Map<String, Value> {
        Map::from_iter([(label::POD_INSTANCE_ID.to_owned(), json!(self.id))])
    }

    fn claim_labels(&self) -> Map<String, Value> {
        self.pod_labels()
    }
}

/// Makes the Pods of one revision.
pub(super) struct NewPods<'r, 'a> {
    snapshot: &'r Snapshot<'a>,
    factory: PodFactory<'r>,
    prototype: PodPrototype,
}

impl<'r, 'a> NewPods<'r, 'a> {
    /// Pods of a revision with this template.
    pub(super) fn of(snapshot: &'r Snapshot<'a>, template: &Value, revision: &str) -> Self {
        let factory = PodFactory {
            owner: &snapshot.owner,
            namespace: snapshot.namespace(),
            claim_templates: &snapshot.set.spec.volume_claim_templates,
            claim_labels: snapshot.set.spec.selector.match_labels.as_ref(),
        };
        let mut labels = snapshot.pod_labels(revision);
        let first = State::PreparingNormal.as_str().to_owned();
        labels.insert(label::LIFECYCLE_STATE.to_owned(), first);
        let since = (
            annotation::LIFECYCLE_TIMESTAMP.to_owned(),
            to_the_second(snapshot.env.now),
        );
        let additions = Additions {
            labels,
            annotations: BTreeMap::from([since]),
            readiness_gates: &[IN_PLACE_UPDATE_READY],
        };
        Self {
            prototype: factory.prototype(template, additions),
            snapshot,
            factory,
        }
    }

    /// The writes that make one Pod.
    pub(super) fn with_id(&self, id: &str) -> Chain {
        let set = &self.snapshot.owner.name;
        let has_claim = |name: &str| self.snapshot.claims.has(id, name);
        let new = self.factory.pod(&self.prototype, &Instance { set, id }, has_claim);
        let name = new.name;
        let claims = new.claims.into_iter().map(|(claim, action)| {
            let failed = format!("failed to create claim {claim}");
            Write::from(action).or_else(Event::warning(event::FAILED_CREATE, failed))
        });
        let pod = Write::from(new.pod)
            .then(Event::normal(
                event::SUCCESSFUL_CREATE,
                format!("succeed to create pod {name}"),
            ))
            .or_else(Event::warning(
                event::FAILED_CREATE,
                format!("failed to create pod {name}"),
            ));
        claims.chain(std::iter::once(pod)).collect()
    }
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
