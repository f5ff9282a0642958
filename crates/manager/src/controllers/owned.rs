//! What workloads that make their Pods themselves own: Pods, revisions, and jobs that pull images ahead.

use crate::{
    platform::{HEADS_BY_OWNER, PODS_BY_OWNER, Platform, REVISIONS_BY_NAMESPACE},
    reconcile::Watches,
};
use kruise_api::{
    imagepulljob::v1beta1::ImagePullJob, kind::Kind as _, meta::PartialObject, pod::Pod, revision::ControllerRevision,
};
use kruise_runtime::{cache::Store, resource::ObjectKey};
use std::sync::Arc;

pub(super) struct OwnedObjects {
    pub(super) pods: Store<Pod>,
    revisions: Store<ControllerRevision>,
    /// Only where images can be pulled ahead.
    pull_jobs: Option<Store<PartialObject>>,
}

impl OwnedObjects {
    pub(super) fn new(platform: &mut Platform, pulls_ahead: bool) -> Self {
        Self {
            pods: platform.store(),
            revisions: platform.store(),
            pull_jobs: pulls_ahead.then(|| platform.metadata_store(ImagePullJob::RESOURCE)),
        }
    }

    /// Has the owner looked at when any of them changes. A Pod that changed in nothing we read does not count.
    pub(super) fn watched(&self, watches: Watches) -> Watches {
        let watches = watches
            .owned_if(&self.pods, super::pods::has_changed)
            .owned(&self.revisions);
        match &self.pull_jobs {
            Some(jobs) => watches.owned(jobs),
            None => watches,
        }
    }

    /// Pods of an owner that cannot be read. Ask before [`Self::pods`]: one that is read in between is then among them.
    pub(super) fn unreadable(&self, namespace: &str, uid: &str) -> Vec<Arc<PartialObject>> {
        unreadable(&self.pods, namespace, uid)
    }

    /// Pods of an owner.
    pub(super) fn pods(&self, uid: &str) -> Vec<Arc<Pod>> {
        self.pods.by(&PODS_BY_OWNER, uid)
    }

    /// Revisions that are an owner's, or that nobody owns. One that is named like it may be of an object that was deleted and applied again.
    pub(super) fn revisions(&self, key: &ObjectKey, uid: &str) -> Vec<Arc<ControllerRevision>> {
        let is_ours = |revision: &ControllerRevision| match revision.metadata.controller() {
            Some(owner) => owner.uid.to_string() == uid || *owner.name == *key.name,
            None => true,
        };
        self.revisions.select(&REVISIONS_BY_NAMESPACE, &key.namespace, is_ours)
    }

    /// Whether there are revisions that nobody owns and that are named after an owner.
    pub(super) fn has_orphan_revisions(&self, key: &ObjectKey) -> bool {
        let is_orphan = |revision: &ControllerRevision| {
            let meta = &revision.metadata;
            meta.controller().is_none() && meta.name.starts_with(&*key.name)
        };
        let orphans = self
            .revisions
            .select(&REVISIONS_BY_NAMESPACE, &key.namespace, is_orphan);
        !orphans.is_empty()
    }

    /// Jobs that pull images for an owner.
    pub(super) fn pull_jobs(&self, uid: &str) -> Vec<Arc<PartialObject>> {
        let jobs = self.pull_jobs.as_ref();
        jobs.map(|jobs| jobs.by(&HEADS_BY_OWNER, uid)).unwrap_or_default()
    }
}

/// Pods of an owner that cannot be read. Ask before looking at the Pods: one that is read in between is then among them.
pub(super) fn unreadable(pods: &Store<Pod>, namespace: &str, uid: &str) -> Vec<Arc<PartialObject>> {
    let mut unreadable = pods.unreadable_in(namespace);
    unreadable.retain(|head| HEADS_BY_OWNER.matches(head, uid));
    unreadable
}
