//! PodUnavailableBudgets: what is watched and what is looked at. Every decision is made in [`kruise_core::podunavailablebudget`].
//!
//! - A change of a budget has it looked at. A Pod does so when it is new or gone, when it becomes available or ceases to be, and five seconds after it began to
//!   go: endpoints are removed first. A workload does so when its replicas change.
//! - While there is no budget none of these costs more than that question.
//! - Workloads of kinds that are not watched are read each time a budget over them is looked at. A new Pod that no budget covers yet may be of such a one.
//! - Before a place is forgotten because its Pod stayed, the API server is asked whether it did: what is seen of the Pods may be old.

use crate::{
    Settings,
    apply::Applied,
    platform::{Platform, Resolved, Watched, Workloads},
    reconcile::{Enqueue, LastWrites, Observer, Watches},
};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as WholePod;
use kruise_admission::budgets::BUDGETS_BY_NAMESPACE;
use kruise_api::{
    cloneset::v1beta1::CloneSet, gates::Gates, kind::Kind as _, meta::Object as _, pod::Pod,
    podunavailablebudget::v1beta1::PodUnavailableBudget,
};
use kruise_core::{
    plan::{Outcome, Plan},
    podunavailablebudget::{
        Observed,
        availability::is_available,
        related::{self, covers},
        status,
    },
    shared::{availability::is_active, workload::WorkloadRef},
};
use kruise_runtime::{
    cache::{Event, Kind, Store},
    error::Error,
    resource::ObjectKey,
};
use kube::{Api, Client};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};
use tokio::time::timeout;

/// How long after a Pod began to go its budget is looked at.
const LEAVES_ENDPOINTS: Duration = Duration::from_secs(5);
/// How long after a new Pod the budgets over kinds that are not watched are looked at: many Pods come together.
const COME_TOGETHER: Duration = Duration::from_secs(1);
/// Workloads, and Pods, that are read for one budget at a time.
const MOST_READ: usize = 32;
/// How long a Pod may take to be read.
const DEADLINE: Duration = Duration::from_secs(3);

impl Watched for PodUnavailableBudget {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&BUDGETS_BY_NAMESPACE)
    }
}

pub(super) struct PodUnavailableBudgets {
    budgets: Store<PodUnavailableBudget>,
    pods: Store<Pod>,
    workloads: Workloads,
    gates: Gates,
    client: Client,
    /// What was read for a budget.
    read: Mutex<HashMap<ObjectKey, Read>>,
    last_written: LastWrites,
}

#[derive(Default)]
struct Read {
    workloads: BTreeMap<WorkloadRef, Resolved>,
    /// Pods that go, whatever the cache says.
    leaving: BTreeSet<String>,
}

impl Observer for PodUnavailableBudgets {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        let workloads = Workloads::new(platform);
        platform.budgets().know_replica_sets(workloads.replica_sets().clone());
        Self {
            budgets: platform.store(),
            pods: platform.store(),
            workloads,
            gates: platform.settings().gates,
            client: platform.client().clone(),
            read: Mutex::default(),
            last_written: LastWrites::default(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let (pods, sets) = (self.clone(), self.clone());
        let mut watches = Watches::of(&self.budgets)
            .mapped(&self.pods, move |event, enqueue| pods.pod_changed(event, enqueue))
            .mapped(self.workloads.clone_sets(), move |event, enqueue| {
                let replicas = |set: &Arc<CloneSet>| (set.spec.replicas, set.is_deleting());
                if event.old.map(replicas) != event.new.map(replicas)
                    && let Some(set) = event.latest()
                {
                    sets.workload_changed(
                        &WorkloadRef::new(CloneSet::API_VERSION, CloneSet::KIND, set.name()),
                        set.namespace(),
                        enqueue,
                    );
                }
            });
        for store in self.workloads.scaled() {
            let (this, resource) = (self.clone(), store.resource());
            watches = watches.mapped(store, move |event, enqueue| {
                let replicas = |scaled: &Arc<kruise_api::scaled::Scaled>| (scaled.spec.replicas, scaled.is_deleting());
                if event.old.map(replicas) != event.new.map(replicas)
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
        let Some(budget) = self.budgets.get(&key.namespace, &key.name) else {
            return Ok(());
        };
        let wanted: Vec<WorkloadRef> = if let Some(target) = &budget.spec.target_ref {
            vec![target.into()]
        } else {
            let owners = self.workloads.owners(&key.namespace, &self.labelled(&budget));
            owners.into_keys().collect()
        };
        let mut read = Read {
            leaving: self.leaving(key, &budget).await,
            ..Read::default()
        };
        let unknown = wanted
            .iter()
            .filter(|reference| self.workloads.watched(&key.namespace, reference).is_none());
        for reference in unknown.take(MOST_READ) {
            let found = self.workloads.look_up(&key.namespace, reference).await;
            read.workloads.insert(reference.clone(), found);
        }
        if read.workloads.is_empty() && read.leaving.is_empty() {
            self.read.lock().remove(key);
        } else {
            self.read.lock().insert(key.clone(), read);
        }
        Ok(())
    }

    fn observe(&self, key: &ObjectKey, _: Outcome) -> Option<Observed> {
        let budget = self.budgets.get(&key.namespace, &key.name)?;
        let (pods, expected) = match &budget.spec.target_ref {
            Some(target) => self.of_target(key, &target.into()),
            None => self.of_labels(key, &budget),
        };
        let leaving = self.read.lock().get(key).map(|read| read.leaving.clone());
        Some(Observed {
            budget,
            pods,
            expected,
            leaving: leaving.unwrap_or_default(),
            last_written: self.last_written.of(key),
        })
    }

    fn applied(&self, key: &ObjectKey, plan: &Plan, _: &Applied) {
        self.last_written.remember(key, plan);
    }

    fn forget(&self, key: &ObjectKey) {
        self.read.lock().remove(key);
        self.last_written.forget(key);
    }
}

impl PodUnavailableBudgets {
    /// Asks about Pods whose places are to be forgotten. One of which nothing is learned keeps its place.
    async fn leaving(&self, key: &ObjectKey, budget: &PodUnavailableBudget) -> BTreeSet<String> {
        let api: Api<WholePod> = Api::namespaced(self.client.clone(), &key.namespace);
        let seen = |name: &str| {
            let pod = self.pods.get(&key.namespace, name)?;
            is_available(&pod, self.gates).then(|| (name.to_owned(), pod.metadata.uid.to_string()))
        };
        let overdue = status::overdue(budget, Timestamp::now()).filter_map(seen);
        let asked = overdue.enumerate().map(async |(number, (name, uid))| {
            let stays = number < MOST_READ
                && matches!(
                    timeout(DEADLINE, api.get_metadata_opt(&name)).await,
                    Ok(Ok(Some(pod))) if pod.metadata.uid == Some(uid) && pod.metadata.deletion_timestamp.is_none()
                );
            (!stays).then_some(name)
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    fn of_target(&self, key: &ObjectKey, target: &WorkloadRef) -> (Vec<Arc<Pod>>, Result<i32, String>) {
        match self.resolve(key, target) {
            Ok(Some(workload)) if workload.expected() != 0 => {
                (self.workloads.pods(&key.namespace, &workload), Ok(workload.expected()))
            }
            Ok(_) => (Vec::new(), Ok(0)),
            Err(reason) => (Vec::new(), Err(reason)),
        }
    }

    fn of_labels(&self, key: &ObjectKey, budget: &PodUnavailableBudget) -> (Vec<Arc<Pod>>, Result<i32, String>) {
        let pods = self.labelled(budget);
        let mut sum: i32 = 0;
        for (reference, uid) in self.workloads.owners(&key.namespace, &pods) {
            match self.resolve(key, &reference) {
                Ok(Some(workload)) if uid.as_ref().is_none_or(|uid| *uid == workload.uid) => {
                    sum = sum.saturating_add(workload.expected());
                }
                Ok(_) => {}
                Err(reason) => return (pods, Err(reason)),
            }
        }
        (pods, Ok(sum))
    }

    fn labelled(&self, budget: &PodUnavailableBudget) -> Vec<Arc<Pod>> {
        let Some(labels) = &budget.spec.selector else {
            return Vec::new();
        };
        let mut pods = self.workloads.with_labels(budget.namespace(), labels);
        pods.retain(|pod| is_active(pod));
        pods
    }

    fn resolve(&self, key: &ObjectKey, reference: &WorkloadRef) -> Resolved {
        if let Some(watched) = self.workloads.watched(&key.namespace, reference) {
            return Ok(watched);
        }
        let read = self.read.lock();
        let found = read.get(key).and_then(|read| read.workloads.get(reference));
        found
            .cloned()
            .unwrap_or_else(|| Err(format!("{} {} is not read yet", reference.kind, reference.name)))
    }

    fn pod_changed(&self, event: &Event<'_, Pod>, enqueue: &Enqueue<'_>) {
        let Some(pod) = event.latest().filter(|_| !self.budgets.is_empty()) else {
            return;
        };
        let (namespace, meta) = (&*pod.metadata.namespace, &pod.metadata);
        let Some(budget) = related::budget_of(meta) else {
            // It may be one that is to be covered.
            if event.old.is_none() {
                self.enqueue_covering(pod, enqueue);
            }
            return;
        };
        match (event.old, event.new) {
            (Some(old), Some(new)) => {
                if new.metadata.is_deleting() && !old.metadata.is_deleting() {
                    enqueue.after(namespace, budget, LEAVES_ENDPOINTS);
                } else if is_available(old, self.gates) != is_available(new, self.gates) {
                    enqueue.key(namespace, budget);
                } else {
                    enqueue.if_waiting(namespace, budget);
                }
            }
            _ => enqueue.key(namespace, budget),
        }
    }

    fn enqueue_covering(&self, pod: &Pod, enqueue: &Enqueue<'_>) {
        let namespace = &*pod.metadata.namespace;
        let budgets = self.budgets.by(&BUDGETS_BY_NAMESPACE, namespace);
        if budgets.is_empty() {
            return;
        }
        let workload = pod
            .metadata
            .controller()
            .map(|owner| self.workloads.of_owner(namespace, owner));
        for budget in budgets {
            let target = budget.spec.target_ref.as_ref().map(WorkloadRef::from);
            if covers(&budget, workload.as_ref(), |key| pod.metadata.label(key)) {
                enqueue.key(namespace, budget.name());
            } else if target.is_some_and(|target| self.workloads.watched(namespace, &target).is_none()) {
                enqueue.after(namespace, budget.name(), COME_TOGETHER);
            }
        }
    }

    fn workload_changed(&self, workload: &WorkloadRef, namespace: &str, enqueue: &Enqueue<'_>) {
        for budget in self.budgets.by(&BUDGETS_BY_NAMESPACE, namespace) {
            let target = budget.spec.target_ref.as_ref().map(WorkloadRef::from);
            if target.is_none_or(|target| target.is_same(workload)) {
                enqueue.key(namespace, budget.name());
            }
        }
    }
}
