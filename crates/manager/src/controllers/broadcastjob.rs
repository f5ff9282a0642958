//! BroadcastJobs: what is watched and what is looked at. Every decision is made in [`kruise_core::broadcastjob`].
//!
//! - A change of a job has it looked at. So does a Pod of it that ends, restarts, comes to a node or goes; what else kubelets report does not.
//! - A node that comes, goes, or changes in what places Pods has all jobs looked at that have not ended. Heartbeats are nothing.

use super::owned;
use crate::{
    Settings,
    apply::Applied,
    platform::{PODS_BY_OWNER, Platform, Watched},
    reconcile::{Enqueue, LastWrites, Observer, Watches},
};
use kruise_api::{
    broadcastjob::v1beta1::BroadcastJob,
    node::Node,
    pod::{Pod, status::ContainerStatus},
};
use kruise_core::{
    broadcastjob::{Observed, is_finished},
    plan::{Outcome, Plan},
};
use kruise_runtime::{
    cache::{Event, Index, Kind, Store},
    resource::ObjectKey,
};
use std::sync::Arc;

/// Jobs that have not ended, all under the key `true`.
const ACTIVE: Index<BroadcastJob> = Index::new("active", |job, key| {
    if !is_finished(job) && job.metadata.deletion_timestamp.is_none() {
        key("true");
    }
});

/// Jobs by the UID of the owner that manages them.
pub(super) const BROADCAST_JOBS_BY_OWNER: Index<BroadcastJob> = Index::new("owner", |job, key| {
    let owners = job.metadata.owner_references.iter().flatten();
    for owner in owners.filter(|owner| owner.controller == Some(true)) {
        key(&owner.uid);
    }
});

impl Watched for BroadcastJob {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&ACTIVE).index(&BROADCAST_JOBS_BY_OWNER)
    }
}

pub(super) struct BroadcastJobs {
    jobs: Store<BroadcastJob>,
    pods: Store<Pod>,
    nodes: Store<Node>,
    /// When the progress of a job was last written.
    last_written: LastWrites,
    is_scheduled: bool,
}

impl Observer for BroadcastJobs {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        Self {
            jobs: platform.store(),
            pods: platform.store(),
            nodes: platform.store(),
            last_written: LastWrites::default(),
            is_scheduled: platform.settings().flags.rules.assign_bcj_pods_by_scheduler,
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let nodes = self.clone();
        Watches::of(&self.jobs)
            .owned_if(&self.pods, has_progressed)
            .mapped(&self.nodes, move |event, enqueue| nodes.node_changed(event, enqueue))
    }

    fn observe(&self, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        let job = self.jobs.get(&key.namespace, &key.name)?;
        let uid = job.metadata.uid.clone().unwrap_or_default();
        let unreadable = owned::unreadable(&self.pods, &key.namespace, &uid);
        let nodes = if is_finished(&job) {
            Vec::new()
        } else {
            self.nodes.list()
        };
        Some(Observed {
            unreadable,
            pods: self.pods.by(&PODS_BY_OWNER, &uid),
            nodes,
            is_scheduled: self.is_scheduled,
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

impl BroadcastJobs {
    fn node_changed(&self, event: &Event<'_, Node>, enqueue: &Enqueue<'_>) {
        let is_same = |old: &Node, new: &Node| {
            old.places_pods_like(new)
                && old.spec.unschedulable == new.spec.unschedulable
                && old.status.allocatable == new.status.allocatable
        };
        if event.old.zip(event.new).is_some_and(|(old, new)| is_same(old, new)) {
            return;
        }
        for job in self.jobs.by(&ACTIVE, "true") {
            let key = self.jobs.name(&job);
            enqueue.key(key.namespace, key.name);
        }
    }
}

/// Whether a job counts its Pod otherwise than before, or may have to move it.
fn has_progressed(event: &Event<'_, Pod>) -> bool {
    let Some((old, new)) = event.old.zip(event.new) else {
        return true;
    };
    let restarts = |statuses: &[ContainerStatus]| -> i32 { statuses.iter().map(|status| status.restart_count).sum() };
    let standing = |pod: &Pod| {
        let status = &pod.status;
        (
            status.phase.clone(),
            pod.metadata.is_deleting(),
            restarts(&status.container_statuses),
            restarts(&status.init_container_statuses),
        )
    };
    standing(old) != standing(new) || old.spec != new.spec || old.metadata.labels != new.metadata.labels
}
