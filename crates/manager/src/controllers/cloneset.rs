//! CloneSets: what is watched and what is looked at. Every decision is made in [`kruise_core::cloneset`].
//!
//! - A change of a set, or of anything that it owns, has it looked at. A Pod that changed in nothing we read does not.
//! - What failed is remembered for the next plan, which tells it in the set's conditions and leaves alone for a while what it was about.

mod claims;

use super::owned::OwnedObjects;
use crate::{
    platform::{HEADS_BY_OWNER, Platform},
    reconcile::{Observer, Rehearser, Watches},
};
use kruise_api::{cloneset::v1beta1::CloneSet, meta::PartialObject, node::Node, pod::Pod};
use kruise_core::{
    cloneset::{Observed, spreads_pods},
    plan::Outcome,
};
use kruise_runtime::{cache::Store, resource::ObjectKey};
use kube::ResourceExt as _;
use std::{collections::BTreeSet, sync::Arc};

pub(super) struct CloneSets {
    sets: Store<CloneSet>,
    owned: OwnedObjects,
    claims: Store<PartialObject>,
    nodes: Store<Node>,
}

impl Observer for CloneSets {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        let pulls_ahead = platform.plan_settings().image_pull_jobs;
        Self {
            sets: platform.store(),
            owned: OwnedObjects::new(platform, pulls_ahead),
            claims: claims::store(platform),
            nodes: platform.store(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        self.owned.watched(Watches::of(&self.sets)).owned(&self.claims)
    }

    fn observe(&self, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        self.observe_as(self.sets.get(&key.namespace, &key.name)?, key, last)
    }
}

impl Rehearser for CloneSets {
    fn observe_as(&self, set: Arc<CloneSet>, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        let uid = set.uid()?;
        let unreadable = self.owned.unreadable(&key.namespace, &uid);
        let pods = self.owned.pods(&uid);
        let claims = self.claims.by(&HEADS_BY_OWNER, &uid);
        Some(Observed {
            unreadable,
            pods_claims: claims::of_pods(&self.claims, &set, &uid, &pods, &claims),
            names_taken: claims::names_taken(&self.owned.pods, &set, key, &pods, &claims),
            claims,
            revisions: self.owned.revisions(key, &uid),
            pull_jobs: self.owned.pull_jobs(&uid),
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
}
