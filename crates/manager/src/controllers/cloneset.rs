//! CloneSets: what is watched and what is looked at. Every decision is made in [`kruise_core::cloneset`].
//!
//! - A change of a set, or of anything that it owns, has it looked at. A Pod that changed in nothing we read does not.
//! - What failed is remembered for the next plan, which tells it in the set's conditions and leaves alone for a while what it was about.

use crate::{
    platform::{HEADS_BY_OWNER, PODS_BY_OWNER, Platform, REVISIONS_BY_NAMESPACE},
    reconcile::{Observer, Rehearser, Watches},
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kruise_api::{
    cloneset::v1beta1::CloneSet,
    imagepulljob::v1beta1::ImagePullJob,
    kind::Kind as _,
    meta::PartialObject,
    names::{label, pattern},
    node::Node,
    pod::Pod,
    revision::ControllerRevision,
};
use kruise_core::{
    cloneset::{Observed, spreads_pods},
    plan::Outcome,
};
use kruise_runtime::{cache::Store, resource::ObjectKey};
use kube::ResourceExt as _;
use std::{collections::BTreeSet, sync::Arc};

pub(super) struct CloneSets {
    sets: Store<CloneSet>,
    pods: Store<Pod>,
    claims: Store<PartialObject>,
    revisions: Store<ControllerRevision>,
    nodes: Store<Node>,
    /// Only where images can be pulled ahead.
    pull_jobs: Option<Store<PartialObject>>,
}

impl Observer for CloneSets {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        let pulls_ahead = platform.plan_settings().image_pull_jobs;
        Self {
            sets: platform.store(),
            pods: platform.store(),
            claims: platform.metadata_store(PersistentVolumeClaim::RESOURCE),
            revisions: platform.store(),
            nodes: platform.store(),
            pull_jobs: pulls_ahead.then(|| platform.metadata_store(ImagePullJob::RESOURCE)),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let watches = Watches::of(&self.sets)
            .owned_if(&self.pods, super::pods::has_changed)
            .owned(&self.claims)
            .owned(&self.revisions);
        match &self.pull_jobs {
            Some(jobs) => watches.owned(jobs),
            None => watches,
        }
    }

    fn observe(&self, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        self.observe_as(self.sets.get(&key.namespace, &key.name)?, key, last)
    }
}

impl Rehearser for CloneSets {
    fn observe_as(&self, set: Arc<CloneSet>, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        let uid = set.uid()?;
        // Before the Pods: one that is read in between is then among them.
        let unreadable = self.pods.unreadable_in(&key.namespace).into_iter();
        let unreadable = unreadable.filter(|head| HEADS_BY_OWNER.matches(head, &uid)).collect();
        let pods = self.pods.by(&PODS_BY_OWNER, &uid);
        let is_ours = |revision: &ControllerRevision| match revision.metadata.controller() {
            // One that is named like ours may be of a set that was deleted and applied again.
            Some(owner) => owner.uid.to_string() == uid || *owner.name == *key.name,
            None => true,
        };
        let claims = self.claims.by(&HEADS_BY_OWNER, &uid);
        let pull_jobs = self.pull_jobs.as_ref().map(|jobs| jobs.by(&HEADS_BY_OWNER, &uid));
        Some(Observed {
            unreadable,
            pods_claims: self.pods_claims(&set, &uid, &pods, &claims),
            names_taken: self.names_taken(&set, key, &pods, &claims),
            claims,
            revisions: self.revisions.select(&REVISIONS_BY_NAMESPACE, &key.namespace, is_ours),
            pull_jobs: pull_jobs.unwrap_or_default(),
            nodes: self.nodes(&set, &pods),
            last,
            pods,
            set,
        })
    }
}

impl CloneSets {
    /// The nodes of the Pods, where it matters on which they are.
    fn nodes(&self, set: &CloneSet, pods: &[Arc<Pod>]) -> Vec<Arc<Node>> {
        if !spreads_pods(set) {
            return Vec::new();
        }
        let names: BTreeSet<&str> = pods.iter().map(|pod| &*pod.spec.node_name).collect();
        names.into_iter().filter_map(|name| self.nodes.get("", name)).collect()
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
