//! EphemeralJobs: what is watched and what is looked at. Every decision is made in [`kruise_core::ephemeraljob`].
//!
//! - A change of a job has it looked at. So does a Pod that its selector matches, or matched, when it comes or goes, ends, gets other labels, or when something is new about its
//!   ephemeral containers.
//! - What else happens to Pods costs the question whether their namespace has a job that has not ended.

use crate::{
    Settings,
    apply::Applied,
    platform::{PODS_BY_NAMESPACE, Platform, Watched},
    reconcile::{Enqueue, LastWrites, Observer, Watches},
};
use kruise_api::{
    ephemeraljob::v1alpha1::EphemeralJob,
    meta::{Object as _, PartialObject},
    pod::Pod,
};
use kruise_core::{
    ephemeraljob::{Observed, is_finished, select},
    plan::{Outcome, Plan},
    shared::availability::is_active,
};
use kruise_runtime::{
    cache::{Event, Index, Kind, Store},
    resource::ObjectKey,
};
use std::sync::Arc;

/// Jobs that have not ended, by namespace.
const ACTIVE: Index<EphemeralJob> = Index::new("active", |job, key| {
    if !is_finished(job) && job.metadata.deletion_timestamp.is_none() {
        key(job.namespace());
    }
});

impl Watched for EphemeralJob {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&ACTIVE)
    }
}

pub(super) struct EphemeralJobs {
    jobs: Store<EphemeralJob>,
    pods: Store<Pod>,
    /// When the progress of a job was last written.
    last_written: LastWrites,
}

impl Observer for EphemeralJobs {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        Self {
            jobs: platform.store(),
            pods: platform.store(),
            last_written: LastWrites::default(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let pods = self.clone();
        Watches::of(&self.jobs).mapped(&self.pods, move |event, enqueue| pods.pod_changed(event, enqueue))
    }

    fn observe(&self, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        let job = self.jobs.get(&key.namespace, &key.name)?;
        if is_finished(&job) {
            return Some(Observed {
                job,
                ..Observed::default()
            });
        }
        // Before the Pods: one that is read in between is then among them.
        let unreadable = self.pods.unreadable_in(&key.namespace).into_iter();
        let is_chosen = |head: &Arc<PartialObject>| select::matches(&job, |label| head.metadata.label(label));
        Some(Observed {
            unreadable: unreadable.filter(is_chosen).collect(),
            pods: self
                .pods
                .select(&PODS_BY_NAMESPACE, &key.namespace, |pod| chooses(&job, pod)),
            last_written: self.last_written.of(key),
            last,
            job,
        })
    }

    fn applied(&self, key: &ObjectKey, plan: &Plan, _: &Applied) {
        self.last_written.remember(key, plan);
    }

    fn forget(&self, key: &ObjectKey) {
        self.last_written.forget(key);
    }
}

impl EphemeralJobs {
    fn pod_changed(&self, event: &Event<'_, Pod>, enqueue: &Enqueue<'_>) {
        let Some(pod) = event.latest().filter(|_| !self.jobs.is_empty()) else {
            return;
        };
        let namespace = &*pod.metadata.namespace;
        let is_new = has_progressed(event);
        for job in self.jobs.by(&ACTIVE, namespace) {
            let mut states = [event.old, event.new].into_iter().flatten();
            if !states.any(|pod| chooses(&job, pod)) {
                continue;
            }
            if is_new {
                enqueue.key(namespace, job.name());
            } else {
                enqueue.if_waiting(namespace, job.name());
            }
        }
    }
}

fn chooses(job: &EphemeralJob, pod: &Pod) -> bool {
    select::matches(job, |label| pod.metadata.label(label))
}

/// Whether a job may count its Pod otherwise than before.
fn has_progressed(event: &Event<'_, Pod>) -> bool {
    let Some((old, new)) = event.old.zip(event.new) else {
        return true;
    };
    is_active(old) != is_active(new)
        || old.metadata.labels != new.metadata.labels
        || old.spec.ephemeral_containers != new.spec.ephemeral_containers
        || old.status.ephemeral_container_statuses != new.status.ephemeral_container_statuses
}
