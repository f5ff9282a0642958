//! StatefulSets: what is watched and what is looked at. Every decision is made in [`kruise_core::statefulset`].
//!
//! - A change of a set, or of anything that it owns, has it looked at. A Pod that changed in nothing we read does not.
//! - A Pod that comes or goes wakes the set whose name it has: it may be adopted, or have been in the way.
//! - A claim wakes the sets that it belongs to, that grow it, or whose Pod owns it.
//! - Before anything is adopted, the API server is asked whether the set is really there.

use crate::{
    Settings,
    platform::{HEADS_BY_OWNER, PODS_BY_NAMESPACE, PODS_BY_OWNER, Platform, REVISIONS_BY_NAMESPACE, Watched},
    reconcile::{Enqueue, Observer, Rehearser, Watches},
};
use kruise_api::{
    gates::{Gate, Gates},
    imagepulljob::v1beta1::ImagePullJob,
    kind::Kind as _,
    meta::{Meta, PartialObject},
    names::node::taint::UNREACHABLE,
    node::Node,
    pod::Pod,
    revision::ControllerRevision,
    statefulset::v1beta1::StatefulSet,
    storage::{PersistentVolumeClaim, StorageClass},
};
use kruise_core::{
    plan::Outcome,
    statefulset::{Names, Observed, claims::sets_of, ordinals::of_pod_name},
};
use kruise_runtime::{
    cache::{Event, Index, Kind, Store},
    error::{Class, Error},
    resource::ObjectKey,
};
use kube::{
    Client, ResourceExt as _,
    core::{Request, params::GetParams},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};
use tokio::time::timeout;

/// How long a set may take to be read.
const DEADLINE: Duration = Duration::from_secs(10);

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
    pods: Store<Pod>,
    claims: Store<PersistentVolumeClaim>,
    revisions: Store<ControllerRevision>,
    nodes: Store<Node>,
    /// Only where claims grow with their templates.
    classes: Option<Store<StorageClass>>,
    /// Only where images can be pulled ahead.
    pull_jobs: Option<Store<PartialObject>>,
    client: Client,
    gates: Gates,
    /// UIDs of sets that the API server confirmed in the last round.
    confirmed: Mutex<HashMap<ObjectKey, String>>,
}

impl Observer for StatefulSets {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        let pulls_ahead = platform.plan_settings().image_pull_jobs;
        let gates = platform.settings().gates;
        let grows = gates.enabled(Gate::StatefulSetAutoResizePVCGate);
        Self {
            sets: platform.store(),
            pods: platform.store(),
            claims: platform.store(),
            revisions: platform.store(),
            nodes: platform.store(),
            classes: grows.then(|| platform.store()),
            pull_jobs: pulls_ahead.then(|| platform.metadata_store(ImagePullJob::RESOURCE)),
            client: platform.client().clone(),
            gates,
            confirmed: Mutex::default(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let this = self.clone();
        let watches = Watches::of(&self.sets)
            .owned_if(&self.pods, super::pods::has_changed)
            .mapped(&self.pods, move |event, enqueue| this.pod_came_or_went(event, enqueue))
            .mapped(&self.claims, claim_changed)
            .owned(&self.revisions);
        match &self.pull_jobs {
            Some(jobs) => watches.owned(jobs),
            None => watches,
        }
    }

    async fn read_ahead(&self, key: &ObjectKey) -> Result<(), Error> {
        self.confirmed.lock().remove(key);
        let Some(set) = self.sets.get(&key.namespace, &key.name) else {
            return Ok(());
        };
        let is_orphan = |meta: &Meta| meta.controller().is_none() && meta.name.starts_with(&*key.name);
        let adopts = !self.orphans(key).is_empty()
            || !self
                .revisions
                .select(&REVISIONS_BY_NAMESPACE, &key.namespace, |revision| {
                    is_orphan(&revision.metadata)
                })
                .is_empty();
        if adopts
            && let Some(found) = self.read(key).await?
            && !found.metadata.is_deleting()
            && set.uid() == Some(found.metadata.uid.to_string())
        {
            self.confirmed
                .lock()
                .insert(key.clone(), found.metadata.uid.to_string());
        }
        Ok(())
    }

    fn observe(&self, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        self.observe_as(self.sets.get(&key.namespace, &key.name)?, key, last)
    }

    fn forget(&self, key: &ObjectKey) {
        self.confirmed.lock().remove(key);
    }
}

impl Rehearser for StatefulSets {
    fn observe_as(&self, set: Arc<StatefulSet>, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        let uid = set.uid()?;
        // Before the Pods: one that is read in between is then among them.
        let unreadable = self.pods.unreadable_in(&key.namespace).into_iter();
        let unreadable = unreadable.filter(|head| HEADS_BY_OWNER.matches(head, &uid)).collect();
        let pods = self.pods.by(&PODS_BY_OWNER, &uid);
        let names = Names::of(&set, &pods, self.gates);
        let is_ours = |revision: &ControllerRevision| match revision.metadata.controller() {
            // One that is named like ours may be of a set that was deleted and applied again.
            Some(owner) => owner.uid.to_string() == uid || *owner.name == *key.name,
            None => true,
        };
        let orphans = self.orphans(key);
        let claims = names.claims.iter();
        let claims = claims
            .filter_map(|name| self.claims.get(&key.namespace, name))
            .collect();
        let pull_jobs = self.pull_jobs.as_ref().map(|jobs| jobs.by(&HEADS_BY_OWNER, &uid));
        let classes = self.classes.as_ref().map(|classes| classes.by(&ALL_CLASSES, ""));
        Some(Observed {
            unreadable,
            names_taken: self.names_taken(key, &uid, names.pods, &orphans),
            claims,
            classes: classes.unwrap_or_default(),
            revisions: self.revisions.select(&REVISIONS_BY_NAMESPACE, &key.namespace, is_ours),
            pull_jobs: pull_jobs.unwrap_or_default(),
            lost_nodes: self.lost_nodes(&pods),
            is_confirmed: self.confirmed.lock().get(key) == Some(&uid),
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
        self.pods.select(&PODS_BY_NAMESPACE, &key.namespace, |pod| {
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
        let is_lost = |name: &&str| {
            let node = self.nodes.get("", name);
            node.is_none_or(|node| node.spec.taints.iter().any(|taint| *taint.key == *UNREACHABLE))
        };
        nodes.into_iter().filter(is_lost).map(str::to_owned).collect()
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

    async fn read(&self, key: &ObjectKey) -> Result<Option<PartialObject>, Error> {
        let path = StatefulSet::RESOURCE.path(&key.namespace);
        let request = Request::new(path).get(&key.name, &GetParams::default());
        let request = request.map_err(|error| Error::new(Class::Permanent, error.to_string()))?;
        let late = |_| Error::new(Class::Transient, "a StatefulSet could not be read in time");
        match timeout(DEADLINE, self.client.request(request)).await.map_err(late)? {
            Ok(set) => Ok(Some(set)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
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
