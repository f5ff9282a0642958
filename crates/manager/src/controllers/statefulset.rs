//! StatefulSets: what is watched and what is looked at. Every decision is made in [`kruise_core::statefulset`].
//!
//! - A change of a set, or of anything that it owns, has it looked at. A Pod that changed in nothing we read does not.
//! - A Pod that comes or goes wakes the set whose name it has: it may be adopted, or have been in the way.
//! - A claim wakes the sets that it belongs to, that grow it, or whose Pod owns it. A storage class wakes all sets with claims: it may let them grow now.
//! - A node that stops answering, goes, or is back wakes the sets with Pods that are terminating there: they tell it.
//! - Before anything is adopted, the API server is asked whether the set is really there.

use super::owned::OwnedObjects;
use crate::{
    Settings,
    platform::{PODS_BY_NAMESPACE, PODS_BY_NODE, PODS_BY_OWNER, Platform, Watched},
    reconcile::{Adoption, Enqueue, Observer, Rehearser, Watches},
};
use kruise_api::{
    gates::{Gate, Gates},
    kind::Kind as _,
    meta::Owned as _,
    names::node::taint::UNREACHABLE,
    node::Node,
    pod::Pod,
    statefulset::v1beta1::StatefulSet,
    storage::{PersistentVolumeClaim, StorageClass},
};
use kruise_core::{
    plan::Outcome,
    statefulset::{Names, Observed, claims::sets_of, ordinals::of_pod_name},
};
use kruise_runtime::{
    cache::{Event, Index, Kind, Store},
    error::Error,
    resource::ObjectKey,
};
use kube::ResourceExt as _;
use std::{collections::BTreeSet, sync::Arc};

/// Storage classes, all under one key.
const ALL_CLASSES: Index<StorageClass> = Index::new("all", |_, key| key(""));

impl Watched for StatefulSet {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of()
    }
}

impl Watched for PersistentVolumeClaim {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of()
    }
}

impl Watched for StorageClass {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&ALL_CLASSES)
    }
}

pub(super) struct StatefulSets {
    sets: Store<StatefulSet>,
    owned: OwnedObjects,
    claims: Store<PersistentVolumeClaim>,
    nodes: Store<Node>,
    /// Only where claims grow with their templates.
    classes: Option<Store<StorageClass>>,
    adoption: Adoption,
    gates: Gates,
}

impl Observer for StatefulSets {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        let pulls_ahead = platform.plan_settings().image_pull_jobs;
        let gates = platform.settings().gates;
        let grows = gates.enabled(Gate::StatefulSetAutoResizePVCGate);
        Self {
            sets: platform.store(),
            owned: OwnedObjects::new(platform, pulls_ahead),
            claims: platform.store(),
            nodes: platform.store(),
            classes: grows.then(|| platform.store()),
            adoption: Adoption::by::<StatefulSet>(platform),
            gates,
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let (this, nodes, sets) = (self.clone(), self.clone(), self.sets.clone());
        let watches = self.owned.watched(Watches::of(&self.sets));
        let watches = watches
            .mapped(&self.owned.pods, move |event, enqueue| {
                this.pod_came_or_went(event, enqueue);
            })
            .mapped(&self.claims, claim_changed)
            .mapped(&self.nodes, move |event, enqueue| nodes.node_changed(event, enqueue));
        match &self.classes {
            Some(classes) => watches.mapped(classes, move |_, enqueue| class_changed(&sets, enqueue)),
            None => watches,
        }
    }

    async fn read_ahead(&self, key: &ObjectKey) -> Result<(), Error> {
        self.adoption.forget(key);
        let Some(set) = self.sets.get(&key.namespace, &key.name) else {
            return Ok(());
        };
        if !self.orphans(key).is_empty() || self.owned.has_orphan_revisions(key) {
            self.adoption.confirm(key, set.uid()).await?;
        }
        Ok(())
    }

    fn observe(&self, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        self.observe_as(self.sets.get(&key.namespace, &key.name)?, key, last)
    }

    fn forget(&self, key: &ObjectKey) {
        self.adoption.forget(key);
    }
}

impl Rehearser for StatefulSets {
    fn observe_as(&self, set: Arc<StatefulSet>, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        let uid = set.uid()?;
        let unreadable = self.owned.unreadable(&key.namespace, &uid);
        let pods = self.owned.pods(&uid);
        let names = Names::of(&set, &pods, self.gates);
        let orphans = self.orphans(key);
        let claims = names.claims.iter();
        let claims = claims
            .filter_map(|name| self.claims.get(&key.namespace, name))
            .collect();
        let classes = self.classes.as_ref().map(|classes| classes.by(&ALL_CLASSES, ""));
        Some(Observed {
            unreadable,
            names_taken: self.names_taken(key, &uid, names.pods, &orphans),
            claims,
            classes: classes.unwrap_or_default(),
            revisions: self.owned.revisions(key, &uid),
            pull_jobs: self.owned.pull_jobs(&uid),
            lost_nodes: self.lost_nodes(&pods),
            is_confirmed: self.adoption.is_confirmed(key, &uid),
            orphans,
            last,
            pods,
            set,
        })
    }
}

impl StatefulSets {
    /// Pods named like those of a set that nobody controls.
    fn orphans(&self, key: &ObjectKey) -> Vec<Arc<Pod>> {
        self.owned.pods.select(&PODS_BY_NAMESPACE, &key.namespace, |pod| {
            pod.metadata.controller().is_none()
                && of_pod_name(&pod.metadata.name).is_some_and(|(set, _)| *set == *key.name)
        })
    }

    /// Wanted names that Pods of somebody else have; an orphan that does not belong to the set has its name, too.
    fn names_taken(&self, key: &ObjectKey, uid: &str, names: Vec<String>, orphans: &[Arc<Pod>]) -> BTreeSet<String> {
        let orphans: BTreeSet<&str> = orphans.iter().map(|pod| &*pod.metadata.name).collect();
        let is_taken = |name: &String| {
            orphans.contains(&**name)
                || self
                    .owned
                    .pods
                    .get(&key.namespace, name)
                    .is_some_and(|pod| !PODS_BY_OWNER.matches(&pod, uid))
        };
        names.into_iter().filter(is_taken).collect()
    }

    /// Nodes of terminating Pods that are gone or do not answer.
    fn lost_nodes(&self, pods: &[Arc<Pod>]) -> BTreeSet<String> {
        let going = pods.iter().filter(|pod| pod.metadata.is_deleting());
        let nodes: BTreeSet<&str> = going
            .map(|pod| &*pod.spec.node_name)
            .filter(|node| !node.is_empty())
            .collect();
        let is_lost = |name: &&str| is_lost(self.nodes.get("", name).as_deref());
        nodes.into_iter().filter(is_lost).map(str::to_owned).collect()
    }

    fn node_changed(&self, event: &Event<'_, Node>, enqueue: &Enqueue<'_>) {
        let of = |node: Option<&Arc<Node>>| is_lost(node.map(|node| &**node));
        let Some(node) = event.latest().filter(|_| of(event.old) != of(event.new)) else {
            return;
        };
        let going = self.owned.pods.by(&PODS_BY_NODE, &node.metadata.name).into_iter();
        for pod in going.filter(|pod| pod.metadata.is_deleting()) {
            if let Some(set) = pod.metadata.controlled_by(StatefulSet::GROUP, StatefulSet::KIND) {
                enqueue.key(&pod.metadata.namespace, set);
            }
        }
    }

    fn pod_came_or_went(&self, event: &Event<'_, Pod>, enqueue: &Enqueue<'_>) {
        let is_owned = |pod: &Pod| pod.metadata.controller().is_some();
        let changes_hands = match (event.old, event.new) {
            (Some(old), Some(new)) => {
                is_owned(old) != is_owned(new) || old.metadata.is_deleting() != new.metadata.is_deleting()
            }
            _ => true,
        };
        let Some(pod) = event.latest().filter(|_| changes_hands) else {
            return;
        };
        let namespace = &*pod.metadata.namespace;
        if let Some((set, _)) = of_pod_name(&pod.metadata.name)
            && self.sets.contains(namespace, set)
        {
            enqueue.key(namespace, set);
        }
    }
}

/// A node that is gone or does not answer.
fn is_lost(node: Option<&Node>) -> bool {
    node.is_none_or(|node| node.spec.taints.iter().any(|taint| *taint.key == *UNREACHABLE))
}

fn claim_changed(event: &Event<'_, PersistentVolumeClaim>, enqueue: &Enqueue<'_>) {
    let both = event.old.into_iter().chain(event.new);
    let names: BTreeSet<(&str, &str)> = both
        .flat_map(|claim| sets_of(&claim.metadata).map(|set| (&*claim.metadata.namespace, set)))
        .collect();
    for (namespace, set) in names {
        enqueue.key(namespace, set);
    }
}

fn class_changed(sets: &Store<StatefulSet>, enqueue: &Enqueue<'_>) {
    let with_claims = |set: &Arc<StatefulSet>| !set.spec.volume_claim_templates.is_empty();
    for set in sets.list().into_iter().filter(with_claims) {
        let key = sets.name(&set);
        enqueue.key(key.namespace, key.name);
    }
}

#[cfg(test)]
mod tests {
    use kruise_api::names::component::controller;
    use kruise_runtime::cache::Change;
    use serde_json::{Value, json};

    use super::*;
    use crate::platform::fixture::{platform, unanswered};

    fn read<K: serde::de::DeserializeOwned>(object: &Value) -> K {
        serde_json::from_str(&object.to_string()).expect("an object")
    }

    #[tokio::test]
    async fn given_a_class_that_lets_claims_grow_then_sets_with_claims_are_looked_at() {
        let (_silent, client) = unanswered().await;
        let mut platform = platform(client, &["--feature-gates=StatefulSetAutoResizePVCGate=true"]);
        let observer = Arc::new(StatefulSets::new(&mut platform));
        let context = platform.context_of(controller::STATEFUL_SET);
        for subscribe in observer.watches().subscriptions {
            subscribe(&context);
        }
        let templates = json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}}]});
        for (name, spec) in [("plain", json!({})), ("web", templates)] {
            let meta = json!({"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1"});
            let set = json!({"metadata": meta, "spec": spec});
            observer.sets.feed(Change::Applied(read(&set)));
        }
        let queue = context.queue();
        while !queue.is_empty() {
            drop(queue.next().await);
        }
        let classes = observer.classes.as_ref().expect("claims grow");
        for allowed in [false, true] {
            let class = json!({
                "metadata": {"name": "slow", "resourceVersion": if allowed { "3" } else { "2" }},
                "allowVolumeExpansion": allowed,
            });
            classes.feed(Change::Applied(read(&class)));
            let taken = queue.next().await.expect("a key");
            assert_eq!((taken.key(), queue.len()), (&ObjectKey::new("shop", "web"), 0));
        }
    }
}
