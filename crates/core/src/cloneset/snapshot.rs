//! Everything that the decisions of one round look at, seen at the same time.

use std::collections::{BTreeMap, BTreeSet};

use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_api::gates::Gate;
use kruise_api::meta::Uid;
use kruise_api::pod::Pod;
use kruise_api::shared::lifecycle::Lifecycle;
use serde_json::Value;

use super::claims::{self, Claims};
use super::counts::{CountOptions, Desired};
use super::observed::Observed;
use super::rank::Topology;
use super::revisions;
use crate::plan::{Env, PodNames};
use crate::shared::availability::is_active;
use crate::shared::membership::{Member, Membership};
use crate::shared::owner::{Owner, is_controlled_by};
use crate::shared::revision::Revisions;
use crate::shared::selector;

/// One look at a CloneSet.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    /// What was seen.
    pub(super) observed: &'a Observed,
    /// The set.
    pub(super) set: &'a CloneSet,
    /// Its UID.
    pub(super) uid: Uid,
    /// The set as owner of what is made.
    pub(super) owner: Owner,
    /// The surroundings.
    pub(super) env: &'a Env,
    /// What the user asked for, in numbers.
    pub(super) desired: Desired,
    /// The set's active Pods, by name.
    pub(super) members: Vec<Member<'a>>,
    /// Active Pods that its selector no longer chooses: they are released.
    pub(super) released_pods: Vec<&'a Pod>,
    /// The set's Pods that cannot be read.
    pub(super) unreadable: PodNames,
    /// The set's claims.
    pub(super) claims: Claims<'a>,
    /// Claims that its Pods own instead of it.
    pub(super) pods_claims: Claims<'a>,
    /// The revisions.
    pub(super) revisions: Revisions<'a>,
}

impl<'a> Snapshot<'a> {
    /// Looks at everything once. Fails with a sentence when the set cannot be understood.
    pub(super) fn of(observed: &'a Observed, env: &'a Env) -> Result<Self, String> {
        let set = &*observed.set;
        let uid = Uid::from(set.metadata.uid.as_deref().unwrap_or_default());
        if uid.is_empty() {
            return Err("the set has no UID".to_owned());
        }
        if selector::is_empty(&set.spec.selector) {
            return Err("spec.selector chooses everything".to_owned());
        }
        let owner = Owner::of::<CloneSet>(&set.metadata);
        let revisions = revisions::revisions(observed, &owner)?;
        let mut snapshot = Self {
            observed,
            set,
            uid,
            owner,
            env,
            desired: Desired::of(&set.spec),
            members: Vec::new(),
            released_pods: Vec::new(),
            unreadable: PodNames::default(),
            claims: Claims::of(observed.claims.iter().map(|claim| &**claim)),
            pods_claims: Claims::of(observed.pods_claims.iter().map(|claim| &**claim)),
            revisions,
        };
        snapshot.look_at_pods();
        Ok(snapshot)
    }

    fn look_at_pods(&mut self) {
        let listed = &self.set.spec.scale_strategy.pods_to_delete;
        let listed: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
        let unreadable = self.observed.unreadable.iter().map(|head| &head.metadata);
        self.unreadable = unreadable
            .filter(|meta| is_controlled_by(meta, &self.uid))
            .map(|meta| &*meta.name)
            .collect();
        let pods = self.observed.pods.iter().map(|pod| &**pod);
        let active = pods.filter(|pod| is_active(pod));
        let Membership { members, released, .. } = Membership::of(active, &self.uid, |pod| self.selects(pod));
        let mut members: Vec<Member<'_>> = members.into_iter().map(|pod| self.member(pod, &listed)).collect();
        members.sort_by(|one, other| one.name().cmp(other.name()));
        self.members = members;
        self.released_pods = released;
    }

    fn member(&self, pod: &'a Pod, listed: &BTreeSet<&str>) -> Member<'a> {
        let update = self.revisions.update.name();
        let mut member = Member::of(pod, update, self.set.spec.min_ready_seconds, self.env.now);
        member.is_specified_delete |= listed.contains(member.name());
        member
    }

    /// The selector chooses the Pod.
    pub(super) fn selects(&self, pod: &Pod) -> bool {
        selector::matches(&self.set.spec.selector, |key| pod.metadata.label(key))
    }

    /// All Pods of the set, ended and terminating ones too.
    pub(super) fn all_pods(&self) -> impl Iterator<Item = &'a Pod> {
        let pods = self.observed.pods.iter().map(|pod| &**pod);
        pods.filter(|pod| is_controlled_by(&pod.metadata, &self.uid))
    }

    /// All Pods of the set by instance id, with whether they are active.
    pub(super) fn pods_by_id(&self) -> BTreeMap<&'a str, (&'a Pod, bool)> {
        let pods = self.all_pods();
        pods.filter_map(|pod| Some((claims::instance_id(&pod.metadata)?, (pod, is_active(pod)))))
            .collect()
    }

    /// The namespace.
    pub(super) fn namespace(&self) -> &'a str {
        self.set.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The set's hooks.
    pub(super) fn lifecycle(&self) -> Option<&'a Lifecycle> {
        self.set.spec.lifecycle.as_ref()
    }

    /// A new Pod takes the claims of one that was removed by somebody else.
    pub(super) fn reuses_claims(&self) -> bool {
        self.set.spec.scale_strategy.enable_pvc_reuse
    }

    /// What else decides how many Pods.
    pub(super) fn count_options(&self) -> CountOptions {
        let rollback = self.env.gates.enabled(Gate::CloneSetPartitionRollback);
        CountOptions {
            may_roll_back: rollback && !self.revisions.are_same(),
            exclude_preparing_delete: self.env.settings.exclude_preparing_delete
                || self.set.spec.scale_strategy.exclude_preparing_delete,
        }
    }

    /// The labels that tell a Pod's revision.
    pub(super) fn pod_labels(&self, revision: &str) -> BTreeMap<String, String> {
        revisions::pod_labels(revision, self.env.gates)
    }

    /// Over which nodes the Pods are spread.
    pub(super) fn topology(&self) -> Topology<'a> {
        let keys = spread_keys(self.set);
        let nodes = if keys.is_empty() { &[][..] } else { &self.observed.nodes };
        Topology {
            nodes: nodes
                .iter()
                .map(|node| (&*node.metadata.name, &node.metadata.labels))
                .collect(),
            keys,
        }
    }
}

/// The node labels over which the template spreads Pods.
pub(super) fn spread_keys(set: &CloneSet) -> Vec<String> {
    let template = set.spec.template.value();
    let constraints = template
        .pointer("/spec/topologySpreadConstraints")
        .and_then(Value::as_array);
    let keys = constraints
        .into_iter()
        .flatten()
        .filter_map(|constraint| constraint.get("topologyKey")?.as_str());
    keys.map(str::to_owned).collect()
}
