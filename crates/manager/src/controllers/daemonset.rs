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

use crate::{
    Settings,
    platform::{HEADS_BY_OWNER, ORPHANS_BY_NAMESPACE, PODS_BY_OWNER, Platform, REVISIONS_BY_NAMESPACE, Watched},
    reconcile::{Enqueue, Observer, Rehearser, Watches},
};
use jiff::Timestamp;
use kruise_api::{
    daemonset::v1beta1::DaemonSet, gates::Gate, imagepulljob::v1beta1::ImagePullJob, kind::Kind as _, meta::Owned as _,
    meta::PartialObject, node::Node, pod::Pod, revision::ControllerRevision,
};
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
use kube::{Api, Client, ResourceExt as _};
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
    client: Client,
    sets: Store<DaemonSet>,
    pods: Store<Pod>,
    revisions: Store<ControllerRevision>,
    nodes: Store<Node>,
    /// Only where images can be pulled ahead.
    pull_jobs: Option<Store<PartialObject>>,
    memory: Memory,
}

impl Observer for DaemonSets {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        let gates = platform.settings().gates;
        let pulls_ahead = gates.enabled(Gate::PreDownloadImageForDaemonSetUpdate);
        Self {
            client: platform.client().clone(),
            sets: platform.store(),
            pods: platform.store(),
            revisions: platform.store(),
            nodes: platform.store(),
            pull_jobs: pulls_ahead.then(|| platform.metadata_store(ImagePullJob::RESOURCE)),
            memory: Memory::default(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let (pods, nodes) = (self.clone(), self.clone());
        let watches = Watches::of(&self.sets)
            .owned_if(&self.pods, super::pods::has_changed)
            .mapped(&self.pods, move |event, enqueue| pods.orphan_changed(event, enqueue))
            .owned(&self.revisions)
            .mapped(&self.nodes, move |event, enqueue| nodes.node_changed(event, enqueue));
        match &self.pull_jobs {
            Some(jobs) => watches.owned(jobs),
            None => watches,
        }
    }

    async fn read_ahead(&self, key: &ObjectKey) -> Result<(), Error> {
        let Some(set) = self.sets.get(&key.namespace, &key.name) else {
            return Ok(());
        };
        let adopts = !self.orphans(key, &set).is_empty();
        let is_live = adopts && {
            let sets: Api<DaemonSet> = Api::namespaced(self.client.clone(), &key.namespace);
            let live = sets.get_metadata_opt(&key.name).await?;
            live.is_some_and(|live| live.uid() == set.uid() && live.metadata.deletion_timestamp.is_none())
        };
        self.memory.confirm(key, is_live);
        Ok(())
    }

    fn observe(&self, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        self.observe_as(self.sets.get(&key.namespace, &key.name)?, key, last)
    }

    /// Remembers the failed Pods that are deleted.
    fn begin(&self, plan: &Plan) -> Result<(), Duration> {
        for target in failed_pods::deletions(plan) {
            let Some(pod) = self.pods.get(&target.namespace, &target.name) else {
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
        self.memory.forget(key);
    }
}

fn generation(set: &DaemonSet) -> i64 {
    set.metadata.generation.unwrap_or_default()
}

impl Rehearser for DaemonSets {
    fn observe_as(&self, set: Arc<DaemonSet>, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        let uid = set.uid()?;
        // Before the Pods: one that is read in between is then among them.
        let unreadable = self.pods.unreadable_in(&key.namespace).into_iter();
        let unreadable = unreadable.filter(|head| HEADS_BY_OWNER.matches(head, &uid)).collect();
        let is_ours = |revision: &ControllerRevision| match revision.metadata.controller() {
            // One that is named like ours may be of a set that was deleted and applied again.
            Some(owner) => owner.uid.to_string() == uid || *owner.name == *key.name,
            None => true,
        };
        let orphans = if self.memory.is_confirmed(key) {
            self.orphans(key, &set)
        } else {
            Vec::new()
        };
        let pull_jobs = self.pull_jobs.as_ref().map(|jobs| jobs.by(&HEADS_BY_OWNER, &uid));
        Some(Observed {
            unreadable,
            pods: self.pods.by(&PODS_BY_OWNER, &uid),
            orphans,
            revisions: self.revisions.select(&REVISIONS_BY_NAMESPACE, &key.namespace, is_ours),
            pull_jobs: pull_jobs.unwrap_or_default(),
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
        self.pods.select(&ORPHANS_BY_NAMESPACE, &key.namespace, is_chosen)
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
