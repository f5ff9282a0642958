//! PersistentPodStates: what is watched and what is looked at. Every decision is made in [`kruise_core::persistentpodstate`].
//!
//! - A change of a PersistentPodState has it looked at. A Pod does so when it becomes ready, begins to go or is gone; a StatefulSet when its replicas, its ordinals or
//!   its annotations change. Annotations concern the one of the set's name, everything else those that are about it.
//! - Of kinds that an administrator lists only the metadata is watched, for what it says in annotations ([`listed`]). Their replicas are read each time one about
//!   them is looked at, by their scale; Pods wake those.
//! - Annotations of Pods that are to be remembered are not in the cache: they are read from the API server, once for each state of a Pod.

mod listed;

use crate::{
    Settings,
    platform::{PODS_BY_OWNER, Platform, Watched, live, look_up},
    reconcile::{Enqueue, Observer, Watches},
};
use k8s_openapi::api::apps::v1::StatefulSet;
use kruise_admission::STATES_BY_TARGET;
use kruise_api::{
    gates::{Gate, Gates},
    kind::Kind as _,
    meta::{Meta, Object as _},
    node::Node,
    persistentpodstate::v1beta1::PersistentPodState,
    pod::Pod,
    resource::Resource,
    scaled::Scaled,
    statefulset::v1beta1::StatefulSet as OurStatefulSet,
};
use kruise_core::{
    persistentpodstate::{
        Observed, Workload, generate::Wish, kinds::is_stateful_set, record::to_read, target_key, workload_of,
    },
    plan::Outcome,
    shared::{
        availability::is_ready,
        ordinals::Ordinals,
        workload::{Replicas, WorkloadRef},
    },
};
use kruise_runtime::{
    cache::{Event, Kind, Store},
    error::Error,
    resource::ObjectKey,
};
use kube::Client;
use listed::Listed;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

impl Watched for PersistentPodState {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&STATES_BY_TARGET)
    }
}

/// Annotations of a Pod, and the version of the Pod that has them.
type Annotations = (u64, BTreeMap<String, String>);

/// What was read for one PersistentPodState.
#[derive(Clone, Default)]
struct Read {
    /// The workload, when its kind is not watched.
    target: Option<Result<Option<Workload>, String>>,
    annotations: BTreeMap<String, Annotations>,
}

pub(super) struct PersistentPodStates {
    states: Store<PersistentPodState>,
    /// StatefulSets, ours first.
    sets: [Store<Scaled>; 2],
    listed: Listed,
    pods: Store<Pod>,
    nodes: Store<Node>,
    client: Client,
    gates: Gates,
    read: Mutex<HashMap<ObjectKey, Read>>,
}

impl Observer for PersistentPodStates {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        let sets: [&'static Resource; 2] = [OurStatefulSet::RESOURCE, StatefulSet::RESOURCE];
        Self {
            states: platform.store(),
            sets: sets.map(|resource| platform.scaled_store(resource)),
            listed: Listed::new(platform),
            pods: platform.store(),
            nodes: platform.store(),
            client: platform.client().clone(),
            gates: platform.settings().gates,
            read: Mutex::default(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let pods = self.clone();
        let mut watches =
            Watches::of(&self.states).mapped(&self.pods, move |event, enqueue| pods.pod_changed(event, enqueue));
        for store in &self.sets {
            let (this, resource) = (self.clone(), store.resource());
            watches = watches.mapped(store, move |event, enqueue| this.set_changed(resource, event, enqueue));
        }
        let this = self.clone();
        watches.mapped(self.listed.configuration(), move |_, enqueue| {
            let kept = this.clone();
            this.listed.list_changed(enqueue, move |resource, event, enqueue| {
                kept.workload_changed(resource, event, |listed| &listed.metadata, |_| (), enqueue);
            });
        })
    }

    async fn read_ahead(&self, key: &ObjectKey) -> Result<(), Error> {
        if Listed::is_about(key) {
            self.listed.follow().await;
            return Ok(());
        }
        let Some(state) = self.states.get(&key.namespace, &key.name) else {
            return Ok(());
        };
        let reference = workload_of(&state.spec.target_ref);
        let mut read = Read::default();
        if !is_stateful_set(&reference) {
            read.target = Some(self.look_up(&key.namespace, reference).await);
        }
        let target = self.target(&key.namespace, &state, &read);
        let pods = self.pods_of(&target);
        let known = self
            .read
            .lock()
            .get(key)
            .map(|read| read.annotations.clone())
            .unwrap_or_default();
        for pod in to_read(&state, &pods) {
            let name = pod.metadata.name.to_string();
            let version = pod.metadata.resource_version;
            match known.get(&name).filter(|(known, _)| *known == version) {
                Some(same) => drop(read.annotations.insert(name, same.clone())),
                None => {
                    if let Some(annotations) = self.annotations(pod).await? {
                        read.annotations.insert(name, (version, annotations));
                    }
                }
            }
        }
        self.read.lock().insert(key.clone(), read);
        Ok(())
    }

    fn observe(&self, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        let state = self.states.get(&key.namespace, &key.name);
        let namesakes = self.sets.iter().filter_map(|store| {
            let set = store.get(&key.namespace, &key.name)?;
            Some(self.workload(store.resource(), &set))
        });
        let namesakes: Vec<Workload> = namesakes.chain(self.listed.named(&key.namespace, &key.name)).collect();
        if state.is_none() && !namesakes.iter().any(|workload| workload.wish.is_wanted) {
            return None;
        }
        let read = self.read.lock().get(key).cloned().unwrap_or_default();
        let target = match &state {
            Some(state) => self.target(&key.namespace, state, &read),
            None => Ok(None),
        };
        let pods = self.pods_of(&target);
        let nodes = pods.iter().filter_map(|pod| self.nodes.get("", &pod.spec.node_name));
        Some(Observed {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            namesakes,
            nodes: nodes.map(|node| (node.metadata.name.to_string(), node)).collect(),
            annotations: read
                .annotations
                .into_iter()
                .map(|(pod, (_, annotations))| (pod, annotations))
                .collect(),
            target,
            pods,
            state,
            last,
        })
    }

    fn forget(&self, key: &ObjectKey) {
        self.read.lock().remove(key);
    }
}

impl PersistentPodStates {
    fn target(&self, namespace: &str, state: &PersistentPodState, read: &Read) -> Result<Option<Workload>, String> {
        let reference = workload_of(&state.spec.target_ref);
        let is_it = |store: &&Store<Scaled>| reference.is_of(store.resource().group, store.resource().kind);
        match self.sets.iter().find(is_it) {
            Some(store) => Ok(store
                .get(namespace, &reference.name)
                .map(|set| self.workload(store.resource(), &set))),
            None => read
                .target
                .clone()
                .unwrap_or_else(|| Err("it is not read yet".to_owned())),
        }
    }

    fn workload(&self, resource: &'static Resource, set: &Scaled) -> Workload {
        let is_ours = resource == OurStatefulSet::RESOURCE;
        // Of a set of ours the start counts only with its gate.
        let counts_from_start = !is_ours || self.gates.enabled(Gate::StatefulSetStartOrdinal);
        let start = set
            .spec
            .ordinals
            .as_ref()
            .filter(|_| counts_from_start)
            .map_or(0, |ordinals| ordinals.start.max(0));
        let reserved = if is_ours { &*set.spec.reserve_ordinals } else { &[] };
        Workload {
            reference: WorkloadRef::new(resource.api_version, resource.kind, set.name()),
            uid: set.metadata.uid.to_string(),
            is_deleting: set.is_deleting(),
            ordinals: Some(Ordinals::new(start, set.spec.replicas.unwrap_or(1), reserved)),
            wish: Wish::of(&set.metadata),
        }
    }

    async fn look_up(&self, namespace: &str, reference: WorkloadRef) -> Result<Option<Workload>, String> {
        let found = look_up(&self.client, namespace, &reference).await?;
        Ok(found.map(|found| Workload {
            reference,
            uid: found.uid,
            is_deleting: found.is_deleting,
            ordinals: match found.replicas {
                Replicas::Wanted(count) => Some(Ordinals::new(0, count, &[])),
                Replicas::Unknown => None,
            },
            wish: Wish::default(),
        }))
    }

    fn pods_of(&self, target: &Result<Option<Workload>, String>) -> Vec<Arc<Pod>> {
        match target {
            Ok(Some(workload)) => self.pods.select(&PODS_BY_OWNER, &workload.uid, |pod| {
                let owner = pod.metadata.controller();
                owner.is_some_and(|owner| owner.uid.to_string() == workload.uid)
            }),
            _ => Vec::new(),
        }
    }

    /// Reads the annotations of a Pod; nothing when it is another one meanwhile.
    async fn annotations(&self, pod: &Pod) -> Result<Option<BTreeMap<String, String>>, Error> {
        let meta = &pod.metadata;
        let found = live::read_metadata(&self.client, Pod::RESOURCE, &meta.namespace, &meta.name).await?;
        let same = found.filter(|found| found.uid.as_deref() == Some(&*meta.uid.to_string()));
        Ok(same.map(|found| found.annotations.unwrap_or_default()))
    }

    /// Has those looked at that are about a workload.
    fn about(&self, namespace: &str, workload: &WorkloadRef, enqueue: &Enqueue<'_>) {
        for state in self.states.by(&STATES_BY_TARGET, &target_key(namespace, workload)) {
            enqueue.key(namespace, state.name());
        }
    }

    fn pod_changed(&self, event: &Event<'_, Pod>, enqueue: &Enqueue<'_>) {
        let Some(owner) = event
            .latest()
            .filter(|_| !self.states.is_empty())
            .and_then(|pod| pod.metadata.controller())
        else {
            return;
        };
        let counts = |pod: Option<&Arc<Pod>>| {
            pod.map(|pod| {
                (
                    pod.metadata.is_deleting(),
                    is_ready(pod),
                    pod.spec.node_name.clone(),
                    pod.metadata.uid.clone(),
                )
            })
        };
        if counts(event.old) != counts(event.new)
            && let Some(pod) = event.latest()
        {
            self.about(&pod.metadata.namespace, &WorkloadRef::from(owner), enqueue);
        }
    }

    fn set_changed(&self, resource: &'static Resource, event: &Event<'_, Scaled>, enqueue: &Enqueue<'_>) {
        self.workload_changed(resource, event, |set| &set.metadata, |set| set.spec.clone(), enqueue);
    }

    /// Has looked at what a change of a workload concerns; `counts` is what of it counts besides its annotations and that it is there.
    fn workload_changed<K, C: PartialEq>(
        &self,
        resource: &'static Resource,
        event: &Event<'_, K>,
        meta: fn(&K) -> &Meta,
        counts: impl Fn(&K) -> C,
        enqueue: &Enqueue<'_>,
    ) {
        let Some(Meta { namespace, name, .. }) = event.latest().map(|workload| meta(workload)) else {
            return;
        };
        let wish = |workload: Option<&Arc<K>>| workload.map(|workload| Wish::of(meta(workload))).unwrap_or_default();
        if wish(event.old) != wish(event.new) {
            enqueue.key(namespace, name);
        }
        let counts = |workload: Option<&Arc<K>>| {
            let meta = |workload: &K| (meta(workload).is_deleting(), meta(workload).uid.clone());
            workload.map(|workload| (meta(workload), counts(workload)))
        };
        if counts(event.old) != counts(event.new) {
            let workload = WorkloadRef::new(resource.api_version, resource.kind, name);
            self.about(namespace, &workload, enqueue);
        }
    }
}
