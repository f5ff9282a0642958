//! Everything that the decisions of one round look at, seen at the same time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kruise_api::meta::Uid;
use kruise_api::names::label;
use kruise_api::pod::Pod;
use kruise_api::pod::status::PodPhase;
use kruise_api::shared::lifecycle::Lifecycle;
use kruise_api::statefulset::v1beta1::StatefulSet;

use super::claims::Claims;
use super::counts::Desired;
use super::observed::Observed;
use super::ordinals::{Ordinals, of_pod_name};
use crate::plan::{Env, PodNames};
use crate::shared::membership::{Member, Membership};
use crate::shared::owner::{Owner, is_controlled_by};
use crate::shared::revision::{self, History, Revisions, Workload};
use crate::shared::selector;

/// One look at a StatefulSet.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    /// What was seen.
    pub(super) observed: &'a Observed,
    /// The set.
    pub(super) set: &'a StatefulSet,
    /// Its UID.
    pub(super) uid: Uid,
    /// The set as owner of what is made.
    pub(super) owner: &'a Owner,
    /// The surroundings.
    pub(super) env: &'a Env,
    /// What the user asked for, in numbers.
    pub(super) desired: Desired,
    /// The ordinals that are wanted.
    pub(super) ordinals: Ordinals,
    /// Pods with wanted ordinals, the lowest first.
    pub(super) replicas: BTreeMap<i32, OrdinalPod<'a>>,
    /// Pods with ordinals that are not wanted, the lowest first.
    pub(super) condemned: BTreeMap<i32, OrdinalPod<'a>>,
    /// Pods that no longer belong to the set: they are released.
    pub(super) released: Vec<&'a Pod>,
    /// Pods that belong to the set and that nobody controls.
    pub(super) adoptable: Vec<&'a Pod>,
    /// The set's Pods that cannot be read.
    pub(super) unreadable: PodNames,
    /// The claims.
    pub(super) claims: Claims<'a>,
    /// The revisions.
    pub(super) revisions: Revisions<'a>,
}

/// A Pod of the set.
#[derive(Clone, Debug)]
pub(super) struct OrdinalPod<'a> {
    /// The ordinal in its name.
    pub(super) ordinal: i32,
    /// The Pod, and what decisions ask about it.
    pub(super) member: Member<'a>,
}

impl<'a> OrdinalPod<'a> {
    /// The Pod.
    pub(super) fn pod(&self) -> &'a Pod {
        self.member.pod
    }

    /// Its name.
    pub(super) fn name(&self) -> &'a str {
        self.member.name()
    }

    /// It is on its way out.
    pub(super) fn is_terminating(&self) -> bool {
        self.member.pod.metadata.is_deleting()
    }

    /// It ran to an end, good or bad.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.member.pod.status.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// It is ready, between no hooks, and stays.
    pub(super) fn is_healthy(&self) -> bool {
        self.member.is_ready && !self.is_terminating()
    }
}

/// The set as owner of what is made.
pub(super) fn owner_of(observed: &Observed) -> Owner {
    Owner::of::<StatefulSet>(&observed.set.metadata)
}

impl<'a> Snapshot<'a> {
    /// Looks at everything once. Fails with a sentence when the set cannot be understood.
    pub(super) fn of(observed: &'a Observed, owner: &'a Owner, env: &'a Env) -> Result<Self, String> {
        let set = &*observed.set;
        let uid = Uid::from(set.metadata.uid.as_deref().unwrap_or_default());
        if uid.is_empty() {
            return Err("the set has no UID".to_owned());
        }
        if selector::is_empty(&set.spec.selector) {
            return Err("spec.selector chooses everything".to_owned());
        }
        let claims = observed.claims.iter().map(|claim| &**claim);
        let classes = observed.classes.iter().map(|class| &**class);
        let mut snapshot = Self {
            observed,
            set,
            uid,
            owner,
            env,
            desired: Desired::of(&set.spec),
            ordinals: Ordinals::of(set, env.gates),
            replicas: BTreeMap::new(),
            condemned: BTreeMap::new(),
            released: Vec::new(),
            adoptable: Vec::new(),
            unreadable: PodNames::default(),
            claims: Claims::of(set, owner, claims, classes, env.gates),
            revisions: revisions(observed, owner)?,
        };
        snapshot.look_at_pods();
        Ok(snapshot)
    }

    fn look_at_pods(&mut self) {
        let observed = self.observed;
        let unreadable = observed.unreadable.iter().map(|head| &head.metadata);
        self.unreadable = unreadable
            .filter(|meta| is_controlled_by(meta, &self.uid))
            .map(|meta| &*meta.name)
            .collect();
        let pods = observed.pods.iter().chain(&observed.orphans).map(|pod| &**pod);
        let Membership {
            members,
            released,
            adoptable,
        } = Membership::of(pods, &self.uid, |pod| self.belongs(pod));
        for pod in members {
            let Some((_, ordinal)) = of_pod_name(&pod.metadata.name) else {
                continue;
            };
            let found = OrdinalPod {
                ordinal,
                member: self.member(pod),
            };
            let list = if self.ordinals.contains(ordinal) {
                &mut self.replicas
            } else {
                &mut self.condemned
            };
            list.insert(ordinal, found);
        }
        self.released = released;
        self.adoptable = adoptable;
    }

    fn member(&self, pod: &'a Pod) -> Member<'a> {
        let update = self.revisions.update.name();
        let member = Member::of(pod, update, self.desired.min_ready_seconds, self.env.now);
        Member {
            // Pods carry the whole name of their revision.
            is_updated: revision::of_pod(pod) == update,
            ..member
        }
    }

    /// The selector chooses the Pod, and its name is the set's with an ordinal.
    fn belongs(&self, pod: &Pod) -> bool {
        let is_named = of_pod_name(&pod.metadata.name).is_some_and(|(set, _)| set == self.owner.name);
        is_named && selector::matches(&self.set.spec.selector, |key| pod.metadata.label(key))
    }

    /// All Pods of the set, wanted or not.
    pub(super) fn all_pods(&self) -> impl Iterator<Item = &OrdinalPod<'a>> {
        self.replicas.values().chain(self.condemned.values())
    }

    /// Wanted Pods that are not there.
    pub(super) fn missing(&self) -> i64 {
        self.ordinals.count() - self.replicas.len() as i64
    }

    /// The namespace.
    pub(super) fn namespace(&self) -> &'a str {
        self.set.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The set's hooks.
    pub(super) fn lifecycle(&self) -> Option<&'a Lifecycle> {
        self.set.spec.lifecycle.as_ref()
    }

    /// The label that tells a Pod's revision: its whole name.
    pub(super) fn pod_labels(revision: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(label::REVISION.to_owned(), revision.to_owned())])
    }

    /// Now.
    pub(super) fn now(&self) -> Timestamp {
        self.env.now
    }
}

/// Finds the revisions of a set, or makes what is missing. Fails when the template cannot be kept.
fn revisions<'a>(observed: &'a Observed, owner: &Owner) -> Result<Revisions<'a>, String> {
    let set = &*observed.set;
    let status = set.status.as_ref();
    let workload = Workload {
        owner,
        namespace: set.metadata.namespace.as_deref().unwrap_or_default(),
        annotations: set.metadata.annotations.as_ref(),
        template: &set.spec.template,
        // Claim templates are no part of a revision.
        claims: None,
    };
    let history = History {
        seen: &observed.revisions,
        selector: &set.spec.selector,
        current: status.map_or("", |status| &status.current_revision),
        collisions: status.and_then(|status| status.collision_count).unwrap_or_default(),
    };
    Revisions::of(&workload, &history)
}
