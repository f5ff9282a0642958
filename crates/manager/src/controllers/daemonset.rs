//! DaemonSets: what is watched and what is looked at. Every decision is made in [`kruise_core::daemonset`].
//!
//! - A change of a set, or of anything that it owns, has it looked at. A Pod that changed in nothing we read does not. A Pod that nobody manages has the sets
//!   looked at that choose it.
//! - A node has those sets looked at for which something is different now: whether it is one for their Pods, or whether their update chooses it. Nodes report
//!   every few seconds; that alone is nothing.
//! - What sets ask of nodes is read once per generation, not for each node.
//! - Pods that fail are remembered here, by set and node, and for one generation.
//! - Before a Pod is taken in, the API server is asked whether the set is still there: our view may be old, and an owner that is gone takes its Pods along.

mod memory;

use super::owned::OwnedObjects;
use crate::{
    Settings,
    platform::{ORPHANS_BY_NAMESPACE, Platform, Watched},
    reconcile::{Adoption, Enqueue, Observer, Rehearser, Watches},
};
use jiff::Timestamp;
use kruise_api::{daemonset::v1beta1::DaemonSet, gates::Gate, kind::Kind as _, meta::Owned as _, node::Node, pod::Pod};
use kruise_core::{
    daemonset::{Observed, failed_pods, target_node},
    plan::{Outcome, Plan},
    shared::{node_eligibility::NodeRequirements, selector},
};
use kruise_runtime::{
    cache::{Event, Index, Kind, Store},
    error::Error,
    resource::ObjectKey,
};
use kube::ResourceExt as _;
use memory::Memory;
use std::{sync::Arc, time::Duration};

/// Sets by their namespace.
const SETS_BY_NAMESPACE: Index<DaemonSet> = Index::new("namespace", |set, key| {
    key(set.metadata.namespace.as_deref().unwrap_or_default());
});

impl Watched for DaemonSet {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&SETS_BY_NAMESPACE)
    }
}

pub(super) struct DaemonSets {
    sets: Store<DaemonSet>,
    owned: OwnedObjects,
    nodes: Store<Node>,
    adoption: Adoption,
    memory: Memory,
}

impl Observer for DaemonSets {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        let gates = platform.settings().gates;
        let pulls_ahead = gates.enabled(Gate::PreDownloadImageForDaemonSetUpdate);
        Self {
            sets: platform.store(),
            owned: OwnedObjects::new(platform, pulls_ahead),
            nodes: platform.store(),
            adoption: Adoption::by::<DaemonSet>(platform),
            memory: Memory::default(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let (pods, nodes) = (self.clone(), self.clone());
        let watches = self.owned.watched(Watches::of(&self.sets));
        watches
            .mapped(&self.owned.pods, move |event, enqueue| {
                pods.orphan_changed(event, enqueue);
            })
            .mapped(&self.nodes, move |event, enqueue| nodes.node_changed(event, enqueue))
    }

    async fn read_ahead(&self, key: &ObjectKey) -> Result<(), Error> {
        self.adoption.forget(key);
        let Some(set) = self.sets.get(&key.namespace, &key.name) else {
            return Ok(());
        };
        if !self.orphans(key, &set).is_empty() {
            self.adoption.confirm(key, set.uid()).await?;
        }
        Ok(())
    }

    fn observe(&self, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        self.observe_as(self.sets.get(&key.namespace, &key.name)?, key, last)
    }

    /// Remembers the failed Pods that are deleted.
    fn begin(&self, plan: &Plan) -> Result<(), Duration> {
        for target in failed_pods::deletions(plan) {
            let Some(pod) = self.owned.pods.get(&target.namespace, &target.name) else {
                continue;
            };
            let owner = pod.metadata.controlled_by(DaemonSet::GROUP, DaemonSet::KIND);
            let set = owner.and_then(|name| self.sets.get(&target.namespace, name));
            let (Some(set), Some(node)) = (set, target_node(&pod)) else {
                continue;
            };
            let key = ObjectKey::new(&target.namespace, set.metadata.name.as_deref().unwrap_or_default());
            let uid = set.uid().unwrap_or_default();
            self.memory.failed(&key, &uid, generation(&set), node, Timestamp::now());
        }
        Ok(())
    }

    fn forget(&self, key: &ObjectKey) {
        self.adoption.forget(key);
        self.memory.forget(key);
    }
}

fn generation(set: &DaemonSet) -> i64 {
    set.metadata.generation.unwrap_or_default()
}

impl Rehearser for DaemonSets {
    fn observe_as(&self, set: Arc<DaemonSet>, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        let uid = set.uid()?;
        let unreadable = self.owned.unreadable(&key.namespace, &uid);
        let orphans = if self.adoption.is_confirmed(key, &uid) {
            self.orphans(key, &set)
        } else {
            Vec::new()
        };
        Some(Observed {
            unreadable,
            pods: self.owned.pods(&uid),
            orphans,
            revisions: self.owned.revisions(key, &uid),
            pull_jobs: self.owned.pull_jobs(&uid),
            nodes: self.nodes.list(),
            failed_pods: self.memory.failed_pods(key, &uid, generation(&set)),
            last,
            set,
        })
    }
}

impl DaemonSets {
    /// Pods that nobody manages and that the set chooses.
    fn orphans(&self, key: &ObjectKey, set: &DaemonSet) -> Vec<Arc<Pod>> {
        let is_chosen = |pod: &Pod| !pod.metadata.is_deleting() && chooses(set, pod);
        if set.metadata.deletion_timestamp.is_some() || selector::is_empty(&set.spec.selector) {
            return Vec::new();
        }
        self.owned.pods.select(&ORPHANS_BY_NAMESPACE, &key.namespace, is_chosen)
    }

    /// A Pod that nobody manages came, or became another.
    fn orphan_changed(&self, event: &Event<'_, Pod>, enqueue: &Enqueue<'_>) {
        let Some(pod) = event.new.filter(|pod| pod.metadata.controller().is_none()) else {
            return;
        };
        let is_same = event.old.is_some_and(|old| {
            old.metadata.labels == pod.metadata.labels && old.metadata.owner_references == pod.metadata.owner_references
        });
        if !is_same && !pod.metadata.is_deleting() {
            let sets = self
                .sets
                .select(&SETS_BY_NAMESPACE, &pod.metadata.namespace, |set| chooses(set, pod));
            self.enqueue(&sets, enqueue);
        }
    }

    fn node_changed(&self, event: &Event<'_, Node>, enqueue: &Enqueue<'_>) {
        let (old, new) = (event.old.map(|node| &**node), event.new.map(|node| &**node));
        let is_same = old.zip(new).is_some_and(|(old, new)| old.places_pods_like(new));
        if is_same || old.is_none() && new.is_none() {
            return;
        }
        let mut sets = self.sets.list();
        sets.retain(|set| {
            let requirements = self.requirements(set);
            concerns(set, requirements.as_deref(), old) != concerns(set, requirements.as_deref(), new)
                || is_another(old, new)
        });
        self.enqueue(&sets, enqueue);
    }

    /// What the Pods of a set ask of their nodes; none when that cannot be read.
    fn requirements(&self, set: &DaemonSet) -> Option<Arc<NodeRequirements>> {
        let key = ObjectKey::new(
            set.metadata.namespace.as_deref().unwrap_or_default(),
            set.metadata.name.as_deref().unwrap_or_default(),
        );
        self.memory.requirements(&key, set)
    }

    fn enqueue(&self, sets: &[Arc<DaemonSet>], enqueue: &Enqueue<'_>) {
        for set in sets {
            let key = self.sets.name(set);
            enqueue.key(key.namespace, key.name);
        }
    }
}

fn chooses(set: &DaemonSet, pod: &Pod) -> bool {
    selector::matches(&set.spec.selector, |key| pod.metadata.label(key))
}

/// What a node is to a set: whether a Pod should run there, whether one stays, and whether the update chooses it.
fn concerns(set: &DaemonSet, requirements: Option<&NodeRequirements>, node: Option<&Node>) -> (bool, bool, bool) {
    let Some((node, requirements)) = node.zip(requirements) else {
        return (false, false, false);
    };
    let fit = requirements.fit(node);
    let rolling = set.spec.update_strategy.rolling_update.as_ref();
    let chosen = rolling.and_then(|rolling| rolling.selector.as_ref());
    let is_chosen = chosen.is_some_and(|chosen| selector::matches(chosen, |key| node.metadata.label(key)));
    (fit.runs(), fit.stays(), is_chosen)
}

/// A node was made again under the name of one that is gone.
fn is_another(old: Option<&Node>, new: Option<&Node>) -> bool {
    old.zip(new)
        .is_some_and(|(old, new)| old.metadata.uid != new.metadata.uid)
}
