//! CloneSets: what is watched, what is looked at, and what came of it. Every decision is made in [`kruise_core::cloneset`].
//!
//! - A change of a set, or of anything that it owns, wakes it up. A Pod that changed in nothing we read does not.
//! - Nothing is decided before the cache shows what we wrote ourselves.
//! - What failed is remembered for the next plan, which tells it in the set's conditions and leaves alone for a while what it was about. Whoever changes the
//!   set has it tried at once.

use super::{ControllerHandle, Planned};
use crate::apply::{Applier, LastOutcomes};
use crate::platform::{ControllerContext, HEADS_BY_OWNER, PODS_BY_OWNER, Platform, REVISIONS_BY_NAMESPACE};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kruise_admission::descriptor::Controller;
use kruise_api::{
    cloneset::v1beta1::CloneSet,
    gates::{Gate, Gates},
    imagepulljob::v1beta1::ImagePullJob,
    kind::Kind as _,
    meta::{Meta, OwnerReference, PartialObject},
    names::{label, pattern},
    node::Node,
    pod::Pod,
    revision::ControllerRevision,
};
use kruise_core::{
    cloneset::{self, Observed},
    plan::{Env, Plan, Server, Settings},
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
use std::{collections::BTreeSet, sync::Arc};

struct CloneSets {
    sets: Store<CloneSet>,
    pods: Store<Pod>,
    claims: Store<PartialObject>,
    revisions: Store<ControllerRevision>,
    nodes: Store<PartialObject>,
    /// Only where images can be pulled ahead.
    pull_jobs: Option<Store<PartialObject>>,
    context: Arc<ControllerContext>,
    applier: Applier,
    last: LastOutcomes,
    gates: Gates,
    settings: Settings,
    server: Server,
}

pub(super) fn build(platform: &mut Platform, controller: &'static Controller) -> ControllerHandle {
    let gates = platform.settings().gates;
    let context = Arc::new(platform.context(controller));
    let pods: Store<Pod> = platform.store();
    let sets: Store<CloneSet> = platform.store();
    let revisions: Store<ControllerRevision> = platform.store();
    let claims = platform.metadata_store(PersistentVolumeClaim::RESOURCE);
    let pulls_ahead = gates.enabled(Gate::PreDownloadImageForInPlaceUpdate);
    let pull_jobs = pulls_ahead.then(|| platform.metadata_store(ImagePullJob::RESOURCE));
    let applier = Applier::new(context.clone())
        .watching(Pod::RESOURCE, pods.clone())
        .watching(CloneSet::RESOURCE, sets.clone())
        .watching(ControllerRevision::RESOURCE, revisions.clone())
        .watching(PersistentVolumeClaim::RESOURCE, claims.clone());
    let applier = match &pull_jobs {
        Some(store) => applier.watching(ImagePullJob::RESOURCE, store.clone()),
        None => applier,
    };
    let this = Arc::new(CloneSets {
        nodes: platform.metadata_store(Node::RESOURCE),
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
        last: LastOutcomes::default(),
        gates,
        sets,
        pods,
        claims,
        revisions,
        pull_jobs,
        context: context.clone(),
        applier,
    });
    super::planned(platform, controller, CloneSet::KIND, this)
}

impl Planned for CloneSets {
    fn context(&self) -> &ControllerContext {
        &self.context
    }

    fn subscribe(self: &Arc<Self>) {
        let queue = self.context.queue();
        for_objects(&self.sets, queue);
        let (this, pod_queue) = (self.clone(), queue.clone());
        self.pods.subscribe(move |event| {
            let waits = |key: &ObjectKey| this.context.expectations().check(key) != Visible::All;
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
        // Before the plan is made: should the set change in between, the outcome is about the older one.
        let set = self.sets.get(&key.namespace, &key.name);
        let generation = set.and_then(|set| set.metadata.generation);
        let Some((regarding, plan)) = self.plan(key) else {
            self.context.expectations().forget(key);
            self.last.forget(key);
            return Ok(Outcome::done());
        };
        let applied = self.applier.apply(key, &regarding, &plan).await;
        self.last.remember(key, generation, applied.outcome);
        Ok(applied.result)
    }

    /// What to do for a set now. Asking changes nothing.
    fn plan(&self, key: &ObjectKey) -> Option<(Regarding, Plan)> {
        // Before looking: what is seen is then at least as new as what was asked for.
        let waiting = super::waiting_for_cache(&self.context, key);
        let observed = self.observe(key)?;
        let regarding = Regarding::new(
            CloneSet::RESOURCE,
            &key.namespace,
            &key.name,
            observed.set.metadata.uid.as_deref().unwrap_or_default(),
        );
        if let Some(waiting) = waiting {
            return Some((regarding, waiting));
        }
        let env = Env {
            settings: self.settings,
            ..super::env_now(self.gates, self.server)
        };
        Some((regarding, cloneset::plan(&observed, &env)))
    }
}

impl CloneSets {
    fn observe(&self, key: &ObjectKey) -> Option<Observed> {
        let set = self.sets.get(&key.namespace, &key.name)?;
        let uid = set.uid()?;
        // Before the Pods: one that is read in between is then among them.
        let unreadable = self.pods.unreadable_in(&key.namespace).into_iter();
        let unreadable = unreadable.filter(|head| HEADS_BY_OWNER.matches(head, &uid)).collect();
        let pods = self.pods.by(&PODS_BY_OWNER, &uid);
        let nodes = if cloneset::spreads_pods(&set) {
            let names: BTreeSet<&str> = pods.iter().map(|pod| &*pod.spec.node_name).collect();
            names.into_iter().filter_map(|name| self.nodes.get("", name)).collect()
        } else {
            Vec::new()
        };
        let is_ours = |revision: &ControllerRevision| match revision.metadata.controller() {
            // One that is named like ours may be of a set that was deleted and applied again.
            Some(owner) => owner.uid.to_string() == uid || *owner.name == *key.name,
            None => true,
        };
        let claims = self.claims.by(&HEADS_BY_OWNER, &uid);
        Some(Observed {
            unreadable,
            pods_claims: self.pods_claims(&set, &uid, &pods, &claims),
            names_taken: self.names_taken(&set, key, &pods, &claims),
            claims,
            revisions: self.revisions.select(&REVISIONS_BY_NAMESPACE, &key.namespace, is_ours),
            pull_jobs: self
                .pull_jobs
                .as_ref()
                .map(|jobs| jobs.by(&HEADS_BY_OWNER, &uid))
                .unwrap_or_default(),
            last: self.last.of(key, set.metadata.generation),
            nodes,
            pods,
            set,
        })
    }

    /// Claims of a set's Pods that belong to the Pod and not to the set.
    fn pods_claims(
        &self,
        set: &CloneSet,
        uid: &str,
        pods: &[Arc<Pod>],
        claims: &[Arc<PartialObject>],
    ) -> Vec<Arc<PartialObject>> {
        if set.spec.volume_claim_templates.is_empty() && claims.is_empty() {
            return Vec::new();
        }
        let of_pod = |pod: &Arc<Pod>| self.claims.by(&HEADS_BY_OWNER, &pod.metadata.uid.to_string());
        let is_sets = |claim: &Arc<PartialObject>| HEADS_BY_OWNER.matches(claim, uid);
        pods.iter().flat_map(of_pod).filter(|claim| !is_sets(claim)).collect()
    }

    /// Names of Pods that would come back with their claims, if it were not for another Pod of that name.
    fn names_taken(
        &self,
        set: &CloneSet,
        key: &ObjectKey,
        pods: &[Arc<Pod>],
        claims: &[Arc<PartialObject>],
    ) -> BTreeSet<String> {
        if !set.spec.scale_strategy.enable_pvc_reuse {
            return BTreeSet::new();
        }
        let own: BTreeSet<&str> = pods.iter().map(|pod| &*pod.metadata.name).collect();
        let ids = claims
            .iter()
            .filter_map(|claim| claim.metadata.label(label::POD_INSTANCE_ID));
        let names = ids.map(|id| pattern::clone_set_pod(&key.name, id));
        let taken = |name: &String| !own.contains(&**name) && self.pods.contains(&key.namespace, name);
        names.filter(taken).collect()
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
