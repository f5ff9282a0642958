//! The workload of a spread: its replicas, its newest version, its Pods.
//!
//! - Kinds that are watched are read from the cache. Of others, and where the spread says where the replicas are, the object is read as a whole.
//! - The newest Pods of a Deployment are those of the ReplicaSet with the highest revision.
//! - Pods of a kind that the white list names can be those of workloads between; they are known by what they say of their subset.

use crate::platform::{HEADS_BY_OWNER, PODS_BY_NAMESPACE, PODS_BY_OWNER, Platform, Workloads};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kruise_admission::{Cluster, Freshness, LookUp as _, Spreads};
use kruise_api::{
    cloneset::v1beta1::CloneSet,
    job::Job,
    kind::Kind as _,
    meta::{Object as _, PartialObject},
    names::{annotation, label},
    pod::Pod,
    workloadspread::v1beta1::WorkloadSpread,
};
use kruise_core::{
    admission::{Needs, ObjectRef},
    shared::workload::WorkloadRef,
    workloadspread::{Workload, related, replicas, version::VersionedKinds},
};
use kruise_runtime::{
    cache::{Store, Stores},
    resource::ObjectKey,
};
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

pub(super) struct Targets {
    pub(super) workloads: Workloads,
    pub(super) jobs: Store<Job>,
    pub(super) replica_sets: Store<PartialObject>,
    pods: Store<Pod>,
    cluster: Cluster,
    spreads: Spreads,
    /// Workloads that were read for a spread; nothing when there is none.
    read: Mutex<HashMap<ObjectKey, Result<Option<Read>, String>>>,
}

/// What was read of a workload.
#[derive(Clone, Debug)]
struct Read {
    head: Arc<PartialObject>,
    replicas: Result<i32, String>,
}

/// A workload as it was found.
pub(super) struct Found {
    pub(super) workload: Result<Workload, String>,
    pub(super) pods: Vec<Arc<Pod>>,
    /// Its changes are heard of.
    pub(super) is_watched: bool,
}

/// A workload that is not there has no Pods.
const GONE: Workload = Workload {
    replicas: 0,
    newest: None,
};

impl Targets {
    pub(super) fn new(platform: &mut Platform) -> Self {
        let cluster = Cluster::new(platform.client().clone(), Stores::default());
        Self {
            workloads: Workloads::new(platform),
            jobs: platform.store(),
            replica_sets: platform.metadata_store(ReplicaSet::RESOURCE),
            pods: platform.store(),
            cluster: cluster.of_manager_in(&platform.settings().environment.namespace),
            spreads: platform.spreads().clone(),
            read: Mutex::default(),
        }
    }

    /// Reads the workload of a spread from the API server, unless the cache has all of it.
    pub(super) async fn read(&self, key: &ObjectKey, spread: &WorkloadSpread) {
        let target = related::target(spread).filter(|target| !is_cached(spread, target));
        let Some(target) = target else {
            self.forget(key);
            return;
        };
        let found = self.look_up(&key.namespace, spread, &target).await;
        self.read.lock().insert(key.clone(), found);
    }

    async fn look_up(
        &self,
        namespace: &str,
        spread: &WorkloadSpread,
        target: &WorkloadRef,
    ) -> Result<Option<Read>, String> {
        let object = ObjectRef::Workload(target.clone());
        let needs = Needs {
            objects: BTreeSet::from([object.clone()]),
            ..Needs::default()
        };
        let found = self.cluster.look_up(namespace, needs, Freshness::Live).await;
        let read = found.lookups.object(&object);
        let Some(read) = read.map_err(|reason| format!("{object} cannot be read: {reason}"))? else {
            return Ok(None);
        };
        let custom = self.spreads.custom().unwrap_or_default();
        let path = related::custom(target, &custom).map(|custom| &*custom.replicas_path);
        let head: Result<PartialObject, _> = serde_json::from_value(Value::clone(read));
        Ok(Some(Read {
            replicas: replicas::replicas(spread, read, path),
            head: Arc::new(head.map_err(|error| error.to_string())?),
        }))
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.read.lock().remove(key);
    }

    /// Returns the workload of a spread as it is known now.
    pub(super) fn find(&self, key: &ObjectKey, spread: &WorkloadSpread, versioned: &VersionedKinds) -> Found {
        let none = |workload| Found {
            workload,
            pods: Vec::new(),
            is_watched: true,
        };
        let Some(target) = related::target(spread) else {
            return none(Ok(GONE));
        };
        if is_cached(spread, &target) {
            return match self.cached(&key.namespace, &target) {
                Some((uid, replicas)) => Found {
                    workload: Ok(Workload {
                        replicas,
                        newest: self.newest(&key.namespace, &target, &uid, versioned, None),
                    }),
                    pods: self.pods_of(key, &target, &uid),
                    is_watched: true,
                },
                None => none(Ok(GONE)),
            };
        }
        let read = self.read.lock().get(key).cloned();
        match read.unwrap_or_else(|| Err(format!("{} {} is not read yet", target.kind, target.name))) {
            Ok(Some(Read { head, replicas })) => {
                let uid = head.metadata.uid.to_string();
                let newest = self.newest(&key.namespace, &target, &uid, versioned, Some(&head));
                let replicas = if head.metadata.is_deleting() { Ok(0) } else { replicas };
                Found {
                    workload: replicas.map(|replicas| Workload { replicas, newest }),
                    pods: self.pods_of(key, &target, &uid),
                    is_watched: target.kind == ReplicaSet::KIND && !replicas::has_paths(spread),
                }
            }
            Ok(None) => Found {
                is_watched: false,
                ..none(Ok(GONE))
            },
            Err(reason) => none(Err(reason)),
        }
    }

    /// The UID and the replicas of a workload that is watched.
    fn cached(&self, namespace: &str, target: &WorkloadRef) -> Option<(String, i32)> {
        if target.kind == Job::KIND {
            let job = self.jobs.get(namespace, &target.name)?;
            let wanted = if job.is_deleting() {
                0
            } else {
                job.spec.parallelism.unwrap_or(1)
            };
            return Some((job.metadata.uid.to_string(), wanted));
        }
        let workload = self.workloads.watched(namespace, target)??;
        Some((workload.uid.clone(), workload.expected()))
    }

    /// The version that new Pods have.
    fn newest(
        &self,
        namespace: &str,
        target: &WorkloadRef,
        uid: &str,
        versioned: &VersionedKinds,
        head: Option<&PartialObject>,
    ) -> Option<String> {
        if target.kind == Deployment::KIND {
            let sets = self.replica_sets.by(&HEADS_BY_OWNER, uid);
            let revision = |set: &Arc<PartialObject>| -> Option<u64> {
                set.metadata.annotation(annotation::DEPLOYMENT_REVISION)?.parse().ok()
            };
            let newest = sets
                .iter()
                .filter(|set| revision(set).is_some())
                .max_by_key(|set| revision(set))?;
            return Some(versioned.version_of(Some(ReplicaSet::KIND), |key| newest.metadata.label(key)));
        }
        if target.is_of(CloneSet::GROUP, CloneSet::KIND) {
            let sets = self.workloads.clone_sets();
            let set = sets.get(namespace, &target.name)?;
            let newest = set.status.as_ref().map(|status| status.update_revision.as_str());
            let label = |key: &str| newest.filter(|_| key == label::REVISION);
            return Some(versioned.version_of(Some(CloneSet::KIND), label));
        }
        let label = |key: &str| head.and_then(|head| head.metadata.label(key));
        Some(versioned.version_of(Some(&target.kind), label))
    }

    fn pods_of(&self, key: &ObjectKey, target: &WorkloadRef, uid: &str) -> Vec<Arc<Pod>> {
        if let Some(Some(workload)) = self.workloads.watched(&key.namespace, target)
            && workload.uid == uid
        {
            return self.workloads.pods(&key.namespace, &workload);
        }
        let mut pods = self.pods.by(&PODS_BY_OWNER, uid);
        if !related::is_known(target) {
            let owned: BTreeSet<_> = pods.iter().map(|pod| pod.name().to_owned()).collect();
            let says = |pod: &Pod| {
                let matched = related::matched(&pod.metadata);
                matched.is_some_and(|matched| *matched.name == *key.name) && !owned.contains(pod.name())
            };
            pods.extend(self.pods.select(&PODS_BY_NAMESPACE, &key.namespace, says));
        }
        pods
    }
}

/// Whether the cache has all that is to be known of a workload.
fn is_cached(spread: &WorkloadSpread, target: &WorkloadRef) -> bool {
    related::is_known(target) && target.kind != ReplicaSet::KIND && !replicas::has_paths(spread)
}
