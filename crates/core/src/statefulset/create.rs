//! New Pods of a StatefulSet (see [`crate::shared::pod_factory`]), and at which revision they begin.
//!
//! A Pod is named `<set>-<ordinal>`, which is also its hostname, and tells name and ordinal by labels; its subdomain is the set's `serviceName`. It begins in the
//! lifecycle state `Normal`, or with a `preNormal` hook that is not on its template already in `PreparingNormal`. Its claims are made before it
//! ([`super::claims`]).
//!
//! A missing Pod begins at the update revision, unless the partition keeps its place at the current one:
//!
//! | update | the current revision, if |
//! |---|---|
//! | `OnDelete` | never |
//! | by ordinals | its rank is below the partition |
//! | `unorderedUpdate` | fewer others than the partition are not updated |
//! | `RollingUpdate` without any rules | its ordinal is below the number of Pods that the status counts at the current revision |
//!
//! It does not begin at another one when the current revision cannot be read: it is not made then, and the set says so.

use std::collections::BTreeMap;

use kruise_api::gates::Gate;
use kruise_api::names::{annotation, event, label};
use serde_json::{Map, Value, json};

use super::counts::{is_rolling, is_unordered};
use super::ordinals::{pod_name, start};
use super::snapshot::Snapshot;
use crate::plan::{Chain, Event, Write};
use crate::shared::lifecycle::State;
use crate::shared::pod_factory::{Additions, PodFactory, PodIdentity, PodPrototype};
use crate::shared::revision;
use crate::shared::seconds::to_the_second;

/// A Pod of a set, told apart by its ordinal.
struct Identity<'a> {
    set: &'a str,
    service: &'a str,
    ordinal: i32,
    tells_index: bool,
}

impl PodIdentity for Identity<'_> {
    fn pod_name(&self) -> String {
        pod_name(self.set, self.ordinal)
    }

    fn claim_name(&self, template: &str) -> String {
        kruise_api::names::pattern::stateful_set_claim(template, self.set, self.ordinal)
    }

    fn pod_labels(&self) -> Map<String, Value> {
        let name = (label::STATEFUL_SET_POD_NAME.to_owned(), json!(self.pod_name()));
        let index = (
            label::STATEFUL_SET_POD_INDEX.to_owned(),
            json!(self.ordinal.to_string()),
        );
        [name].into_iter().chain(self.tells_index.then_some(index)).collect()
    }

    fn spec(&self) -> Map<String, Value> {
        let service = (!self.service.is_empty()).then_some(self.service);
        Map::from_iter([
            ("hostname".to_owned(), json!(self.pod_name())),
            ("subdomain".to_owned(), json!(service)),
        ])
    }
}

/// Makes Pods.
pub(super) struct NewPods<'r, 'a> {
    snapshot: &'r Snapshot<'a>,
    factory: PodFactory<'r>,
    /// Missing Pods that the partition still wants at the current revision, where any may be.
    old_left: i64,
    current: Option<PodPrototype>,
    update: Option<PodPrototype>,
}

impl<'r, 'a> NewPods<'r, 'a> {
    /// For the missing Pods of a set, which have to be asked for from the lowest ordinal up.
    pub(super) fn of(snapshot: &'r Snapshot<'a>) -> Self {
        Self {
            snapshot,
            factory: PodFactory {
                owner: snapshot.owner,
                namespace: snapshot.namespace(),
                claim_templates: &snapshot.set.spec.volume_claim_templates,
                claim_labels: None,
            },
            old_left: missing_old(snapshot),
            current: None,
            update: None,
        }
    }

    /// Returns the writes that make the Pod of an ordinal, claims first. Fails with the name of the revision at which it begins when that has no template:
    /// somebody has put something else in its place.
    pub(super) fn with_ordinal(&mut self, ordinal: i32) -> Result<Chain, &'r str> {
        let snapshot = self.snapshot;
        let revisions = &snapshot.revisions;
        let begins_old = self.begins_old(ordinal) && !revisions.are_same();
        let (revision, kept) = if begins_old {
            (&revisions.current, &mut self.current)
        } else {
            (&revisions.update, &mut self.update)
        };
        let prototype = if let Some(prototype) = kept {
            prototype
        } else {
            // Not from the data of the update revision: that has only the fields which count for its hash.
            let template = if begins_old {
                revision.template()
            } else {
                snapshot.set.spec.template.value()
            };
            if template.is_null() {
                return Err(revision.name());
            }
            kept.insert(prototype(snapshot, &self.factory, &template, revision.name()))
        };
        let identity = Identity {
            set: &snapshot.owner.name,
            service: &snapshot.set.spec.service_name,
            ordinal,
            tells_index: snapshot.env.gates.enabled(Gate::PodIndexLabel),
        };
        // The claims are made as the set wants them, not as a controller's own.
        let new = self.factory.pod(prototype, &identity, |_| true);
        let (set, name) = (&snapshot.owner.name, new.name);
        let pod = Write::from(new.pod)
            .then(Event::normal(
                event::SUCCESSFUL_CREATE,
                format!("create Pod {name} in StatefulSet {set} successful"),
            ))
            .or_else(Event::warning(
                event::FAILED_CREATE,
                format!("create Pod {name} in StatefulSet {set} failed error"),
            ));
        let claims = snapshot.claims.create_missing(ordinal, false);
        Ok(claims.into_iter().chain([pod]).collect())
    }

    fn begins_old(&mut self, ordinal: i32) -> bool {
        let snapshot = self.snapshot;
        let spec = &snapshot.set.spec;
        if !is_rolling(spec) {
            return false;
        }
        if spec.update_strategy.rolling_update.is_none() {
            let status = snapshot.set.status.as_ref();
            let current = status.map_or(0, |status| status.current_replicas);
            return i64::from(ordinal) < i64::from(start(snapshot.set, snapshot.env.gates)) + i64::from(current);
        }
        if is_unordered(spec) {
            self.old_left -= 1;
            return self.old_left >= 0;
        }
        let rank = snapshot.ordinals.rank(ordinal);
        rank.is_some_and(|rank| rank < snapshot.desired.partition)
    }
}

/// Missing Pods that an unordered update wants at the current revision.
pub(super) fn missing_old(snapshot: &Snapshot<'_>) -> i64 {
    let counts_early = snapshot.env.gates.enabled(Gate::PreparingUpdateAsUpdate);
    let update = snapshot.revisions.update.name();
    let old = snapshot.replicas.values().filter(|pod| {
        let is_updated = revision::is_at(pod.pod(), update);
        !(is_updated || counts_early && pod.member.state == State::PreparingUpdate)
    });
    (snapshot.desired.partition - old.count() as i64).clamp(0, snapshot.missing())
}

fn prototype(snapshot: &Snapshot<'_>, factory: &PodFactory<'_>, template: &Value, revision: &str) -> PodPrototype {
    let mut labels = Snapshot::pod_labels(revision);
    let first = first_state(snapshot, template).as_str().to_owned();
    labels.insert(label::LIFECYCLE_STATE.to_owned(), first);
    let since = to_the_second(snapshot.now());
    factory.prototype(
        template,
        Additions {
            labels,
            annotations: BTreeMap::from([(annotation::LIFECYCLE_TIMESTAMP.to_owned(), since)]),
            readiness_gates: &[],
        },
    )
}

/// The state in which a Pod begins.
fn first_state(snapshot: &Snapshot<'_>, template: &Value) -> State {
    let Some(hook) = snapshot.lifecycle().and_then(|hooks| hooks.pre_normal.as_ref()) else {
        return State::Normal;
    };
    let finalizers = template.pointer("/metadata/finalizers").and_then(Value::as_array);
    let has_finalizer = |name: &String| finalizers.is_some_and(|list| list.iter().any(|known| known == name));
    let labels = template.pointer("/metadata/labels");
    let has_label = |key: &str, value: &str| labels.and_then(|labels| labels.get(key)?.as_str()) == Some(value);
    let is_hooked = hook.finalizers_handler.iter().all(has_finalizer)
        && hook.labels_handler.iter().all(|(key, value)| has_label(key, value));
    if is_hooked {
        State::Normal
    } else {
        State::PreparingNormal
    }
}
