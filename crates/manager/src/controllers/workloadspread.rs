//! WorkloadSpreads: what is watched and what is looked at. Every decision is made in [`kruise_core::workloadspread`].
//!
//! - A change of a spread has it looked at. A Pod of it does so when it is new or gone, ends or begins to go, gets another version, or finds no node. A Pod that
//!   says no subset does so for the spread of its workload when it is new or got a node. A workload does so when its replicas or its newest revision change.
//! - While there is no spread none of these costs more than that question.
//! - Workloads of kinds that are not watched, and those of which a user says where the replicas are, are read each time their spread is looked at, and at times
//!   without a change.

mod target;

use crate::{
    Settings,
    platform::{Platform, Watched, Workloads},
    reconcile::{Enqueue, Observer, Watches},
};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kruise_admission::SPREADS_BY_NAMESPACE;
use kruise_api::{
    cloneset::v1beta1::CloneSet, job::Job, kind::Kind as _, meta::Object as _, names::annotation, node::Node, pod::Pod,
    scaled::Scaled, workloadspread::v1beta1::WorkloadSpread,
};
use kruise_core::{
    plan::Outcome,
    shared::{availability::is_active, workload::WorkloadRef},
    workloadspread::{Observed, assign, related, schedulable::is_unschedulable, version::VersionedKinds},
};
use kruise_runtime::{
    cache::{Event, Kind, Store},
    error::Error,
    resource::ObjectKey,
};
use std::{collections::BTreeMap, sync::Arc};
use target::Targets;

impl Watched for WorkloadSpread {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&SPREADS_BY_NAMESPACE)
    }
}

pub(super) struct WorkloadSpreads {
    spreads: Store<WorkloadSpread>,
    pods: Store<Pod>,
    nodes: Store<Node>,
    targets: Targets,
    versioned: VersionedKinds,
}

impl Observer for WorkloadSpreads {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        Self {
            spreads: platform.store(),
            pods: platform.store(),
            nodes: platform.store(),
            targets: Targets::new(platform),
            versioned: platform.spreads().versioned().clone(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let (pods, sets, jobs, replica_sets) = (self.clone(), self.clone(), self.clone(), self.clone());
        let mut watches = Watches::of(&self.spreads)
            .mapped(&self.pods, move |event, enqueue| pods.pod_changed(event, enqueue))
            .mapped(self.workloads().clone_sets(), move |event, enqueue| {
                let seen = |set: &Arc<CloneSet>| {
                    let newest = set.status.as_ref().map(|status| status.update_revision.clone());
                    (set.spec.replicas, set.is_deleting(), newest)
                };
                if event.old.map(seen) != event.new.map(seen)
                    && let Some(set) = event.latest()
                {
                    let reference = WorkloadRef::new(CloneSet::API_VERSION, CloneSet::KIND, set.name());
                    sets.workload_changed(&reference, set.namespace(), enqueue);
                }
            })
            .mapped(&self.targets.jobs, move |event, enqueue| {
                let seen = |job: &Arc<Job>| (job.spec.parallelism, job.is_deleting());
                if event.old.map(seen) != event.new.map(seen)
                    && let Some(job) = event.latest()
                {
                    let reference = WorkloadRef::new(Job::API_VERSION, Job::KIND, job.name());
                    jobs.workload_changed(&reference, job.namespace(), enqueue);
                }
            })
            .mapped(&self.targets.replica_sets, move |event, enqueue| {
                let revision =
                    |meta: &kruise_api::meta::Meta| meta.annotation(annotation::DEPLOYMENT_REVISION).map(str::to_owned);
                let seen =
                    |set: &Arc<kruise_api::meta::PartialObject>| (set.metadata.generation, revision(&set.metadata));
                let Some(set) = event.latest().filter(|_| event.old.map(seen) != event.new.map(seen)) else {
                    return;
                };
                let reference = WorkloadRef::new(ReplicaSet::API_VERSION, ReplicaSet::KIND, set.name());
                replica_sets.workload_changed(&reference, set.namespace(), enqueue);
                if let Some(owner) = set.metadata.controller() {
                    replica_sets.workload_changed(&owner.into(), set.namespace(), enqueue);
                }
            });
        for store in self.workloads().scaled() {
            let (this, resource) = (self.clone(), store.resource());
            watches = watches.mapped(store, move |event, enqueue| {
                let seen = |scaled: &Arc<Scaled>| {
                    let revision = scaled
                        .metadata
                        .annotation(annotation::DEPLOYMENT_REVISION)
                        .map(str::to_owned);
                    (scaled.spec.replicas, scaled.is_deleting(), revision)
                };
                if event.old.map(seen) != event.new.map(seen)
                    && let Some(scaled) = event.latest()
                {
                    let reference = WorkloadRef::new(resource.api_version, resource.kind, scaled.name());
                    this.workload_changed(&reference, scaled.namespace(), enqueue);
                }
            });
        }
        watches
    }

    async fn read_ahead(&self, key: &ObjectKey) -> Result<(), Error> {
        match self.spreads.get(&key.namespace, &key.name) {
            Some(spread) => self.targets.read(key, &spread).await,
            None => self.targets.forget(key),
        }
        Ok(())
    }

    fn observe(&self, key: &ObjectKey, _: Outcome) -> Option<Observed> {
        let spread = self.spreads.get(&key.namespace, &key.name)?;
        let found = self.targets.find(key, &spread, &self.versioned);
        let mut pods = found.pods;
        pods.retain(|pod| related::selects(&spread, |key| pod.metadata.label(key)));
        let unassigned = pods.iter().filter(|pod| assign::given(&spread, pod).is_none());
        let nodes = unassigned.filter_map(|pod| self.nodes.get("", &pod.spec.node_name));
        let nodes: BTreeMap<String, Arc<Node>> = nodes.map(|node| (node.metadata.name.to_string(), node)).collect();
        Some(Observed {
            workload: found.workload,
            is_watched: found.is_watched,
            versioned: self.versioned.clone(),
            spread,
            pods,
            nodes,
        })
    }

    fn forget(&self, key: &ObjectKey) {
        self.targets.forget(key);
    }
}

impl WorkloadSpreads {
    fn workloads(&self) -> &Workloads {
        &self.targets.workloads
    }

    fn pod_changed(&self, event: &Event<'_, Pod>, enqueue: &Enqueue<'_>) {
        let Some(pod) = event.latest().filter(|_| !self.spreads.is_empty()) else {
            return;
        };
        let namespace = &*pod.metadata.namespace;
        let Some(matched) = related::matched(&pod.metadata) else {
            let node = |pod: &Arc<Pod>| pod.spec.node_name.clone();
            if event.old.map(node) != event.new.map(node) {
                self.enqueue_of_workload(pod, enqueue);
            }
            return;
        };
        let seen = |pod: &Arc<Pod>| {
            let owner = pod.metadata.controller().map(|owner| &*owner.kind);
            let version = self.versioned.version_of(owner, |key| pod.metadata.label(key));
            (is_active(pod), is_unschedulable(pod), version)
        };
        if event.old.map(seen) == event.new.map(seen) {
            enqueue.if_waiting(namespace, &matched.name);
        } else {
            enqueue.key(namespace, &matched.name);
        }
    }

    /// Looks at the spread of the workload that a Pod belongs to.
    fn enqueue_of_workload(&self, pod: &Pod, enqueue: &Enqueue<'_>) {
        let namespace = &*pod.metadata.namespace;
        let Some(owner) = pod.metadata.controller() else { return };
        if self.spreads.by(&SPREADS_BY_NAMESPACE, namespace).is_empty() {
            return;
        }
        let above = self.workloads().of_owner(namespace, owner);
        self.workload_changed(&owner.into(), namespace, enqueue);
        if above.kind == Deployment::KIND {
            self.workload_changed(&above, namespace, enqueue);
        }
    }

    fn workload_changed(&self, workload: &WorkloadRef, namespace: &str, enqueue: &Enqueue<'_>) {
        if self.spreads.is_empty() {
            return;
        }
        for spread in self.spreads.by(&SPREADS_BY_NAMESPACE, namespace) {
            if related::target(&spread).is_some_and(|target| target.is_same(workload)) {
                enqueue.key(namespace, spread.name());
            }
        }
    }
}
