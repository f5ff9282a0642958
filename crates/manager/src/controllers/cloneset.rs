//! CloneSets: what is watched, what is looked at, and what came of it. Every decision is made in [`kruise_core::cloneset`].
//!
//! - A change of a set, or of anything that it owns, wakes it up. A Pod that changed in nothing we read does not.
//! - Nothing is decided before the cache shows what we wrote ourselves.
//! - What failed is remembered for the next plan, which tells it in the set's conditions.

use super::{Part, Planned};
use crate::apply::{Applier, resource};
use crate::platform::{
    CLAIMS, HEADS_BY_OWNER, IMAGE_PULL_JOBS, NODES, PODS_BY_OWNER, Platform, REVISIONS_BY_NAMESPACE, Workplace,
};
use kruise_admission::descriptor::Controller;
use kruise_api::{
    cloneset::v1beta1::CloneSet,
    gates::{Gate, Gates},
    kind::Kind as _,
    meta::{Head, Meta, OwnerReference},
    pod::Pod,
    revision::ControllerRevision,
};
use kruise_core::{
    cloneset::{self, Observed},
    plan::{Env, ObjectKind, Outcome as LastOutcome, Plan, Server, Settings},
};
use kruise_runtime::{
    cache::{Event, Store},
    controller::{Outcome, for_objects, priority},
    error::Error,
    events::Regarding,
    expectations::Visible,
    queue::Queue,
    resource::ObjectKey,
};
use kube::ResourceExt as _;
use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

struct CloneSets {
    sets: Store<CloneSet>,
    pods: Store<Pod>,
    claims: Store<Head>,
    revisions: Store<ControllerRevision>,
    nodes: Store<Head>,
    /// Only where images can be pulled ahead.
    pull_jobs: Option<Store<Head>>,
    place: Arc<Workplace>,
    applier: Applier,
    /// What failed in the last round of a set.
    last: Mutex<HashMap<ObjectKey, LastOutcome>>,
    gates: Gates,
    settings: Settings,
    server: Server,
}

pub(super) fn build(platform: &mut Platform, controller: &'static Controller) -> Part {
    let gates = platform.settings().gates;
    let place = Arc::new(platform.workplace(controller));
    let pods: Store<Pod> = platform.store();
    let sets: Store<CloneSet> = platform.store();
    let revisions: Store<ControllerRevision> = platform.store();
    let claims = platform.heads(&CLAIMS);
    let pulls_ahead = gates.enabled(Gate::PreDownloadImageForInPlaceUpdate);
    let pull_jobs = pulls_ahead.then(|| platform.heads(&IMAGE_PULL_JOBS));
    let applier = Applier::new(place.clone())
        .watching(ObjectKind::Pod, pods.clone())
        .watching(ObjectKind::CloneSet, sets.clone())
        .watching(ObjectKind::ControllerRevision, revisions.clone())
        .watching(ObjectKind::PersistentVolumeClaim, claims.clone());
    let applier = match &pull_jobs {
        Some(store) => applier.watching(ObjectKind::ImagePullJob, store.clone()),
        None => applier,
    };
    let this = Arc::new(CloneSets {
        nodes: platform.heads(&NODES),
        settings: Settings {
            exclude_preparing_delete: platform
                .settings()
                .flags
                .rules
                .cloneset_scaling_exclude_preparing_delete,
            image_pull_jobs: pulls_ahead,
        },
        server: Server {
            pod_resize: platform.server().has_pod_resize(),
        },
        last: Mutex::default(),
        gates,
        sets,
        pods,
        claims,
        revisions,
        pull_jobs,
        place: place.clone(),
        applier,
    });
    super::planned(platform, controller, CloneSet::KIND, this)
}

impl Planned for CloneSets {
    fn place(&self) -> &Workplace {
        &self.place
    }

    fn subscribe(self: &Arc<Self>) {
        let queue = self.place.queue();
        for_objects(&self.sets, queue);
        let (this, pod_queue) = (self.clone(), queue.clone());
        self.pods.subscribe(move |event| {
            let waits = |key: &ObjectKey| this.place.expectations().check(key) != Visible::All;
            let unchanged = event.old.zip(event.new).is_some_and(|(old, new)| same(old, new));
            for key in owners(event, |pod| &pod.metadata) {
                if !unchanged || waits(&key) {
                    pod_queue.add(key, priority(event));
                }
            }
        });
        let owned = queue.clone();
        self.revisions
            .subscribe(move |event| wake(event, |revision| &revision.metadata, &owned));
        for store in [Some(&self.claims), self.pull_jobs.as_ref()].into_iter().flatten() {
            let owned = queue.clone();
            store.subscribe(move |event| wake(event, |head| &head.metadata, &owned));
        }
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, Error> {
        let Some((regarding, plan)) = self.plan(key) else {
            self.place.expectations().forget(key);
            self.last().remove(key);
            return Ok(Outcome::done());
        };
        let applied = self.applier.apply(key, &regarding, &plan).await;
        if applied.outcome == LastOutcome::default() {
            self.last().remove(key);
        } else {
            self.last().insert(key.clone(), applied.outcome);
        }
        Ok(applied.result?.map_or_else(Outcome::done, Outcome::wake_after))
    }

    /// What to do for a set now. Asking changes nothing.
    fn plan(&self, key: &ObjectKey) -> Option<(Regarding, Plan)> {
        let observed = self.observe(key)?;
        let regarding = Regarding::new(
            resource(ObjectKind::CloneSet),
            &key.namespace,
            &key.name,
            observed.set.metadata.uid.as_deref().unwrap_or_default(),
        );
        if let Some(behind) = super::behind(&self.place, key) {
            return Some((regarding, behind));
        }
        let env = Env {
            settings: self.settings,
            ..super::surroundings(self.gates, self.server)
        };
        Some((regarding, cloneset::plan(&observed, &env)))
    }
}

impl CloneSets {
    fn observe(&self, key: &ObjectKey) -> Option<Observed> {
        let set = self.sets.get(&key.namespace, &key.name)?;
        let uid = set.uid()?;
        let pods = self.pods.by(&PODS_BY_OWNER, &uid);
        let nodes = if cloneset::spreads_pods(&set) {
            let names: BTreeSet<&str> = pods.iter().map(|pod| &*pod.spec.node_name).collect();
            names.into_iter().filter_map(|name| self.nodes.get("", name)).collect()
        } else {
            Vec::new()
        };
        let is_ours = |revision: &ControllerRevision| match revision.metadata.controller() {
            Some(owner) => owner.uid.to_string() == uid,
            None => true,
        };
        Some(Observed {
            claims: self.claims.by(&HEADS_BY_OWNER, &uid),
            revisions: self.revisions.select(&REVISIONS_BY_NAMESPACE, &key.namespace, is_ours),
            pull_jobs: self
                .pull_jobs
                .as_ref()
                .map(|jobs| jobs.by(&HEADS_BY_OWNER, &uid))
                .unwrap_or_default(),
            last: self.last().get(key).cloned().unwrap_or_default(),
            nodes,
            pods,
            set,
        })
    }

    fn last(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectKey, LastOutcome>> {
        // What is in it is replaced as a whole.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sets that control an object, before the change and after it.
fn owners<K>(event: &Event<'_, K>, meta: impl Fn(&K) -> &Meta) -> BTreeSet<ObjectKey> {
    let both = [event.old, event.new].into_iter().flatten();
    let owned = both.filter_map(|object| {
        let meta = meta(object);
        let owner = meta.controller().filter(|owner| is_set(owner))?;
        Some(ObjectKey::new(&meta.namespace, &owner.name))
    });
    owned.collect()
}

/// Of any version: the original wrote others than we do.
fn is_set(owner: &OwnerReference) -> bool {
    &*owner.kind == CloneSet::KIND
        && owner
            .api_version
            .split_once('/')
            .is_some_and(|(group, _)| group == CloneSet::GROUP)
}

fn wake<K>(event: &Event<'_, K>, meta: impl Fn(&K) -> &Meta, queue: &Queue<ObjectKey>) {
    for key in owners(event, meta) {
        queue.add(key, priority(event));
    }
}

/// Nothing that we read has changed.
fn same(old: &Pod, new: &Pod) -> bool {
    let mut before = old.metadata.clone();
    before.resource_version = new.metadata.resource_version;
    before == new.metadata && old.spec == new.spec && old.status == new.status
}
