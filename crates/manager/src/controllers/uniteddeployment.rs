//! UnitedDeployments: what is watched and what is looked at. Every decision is made in [`kruise_core::uniteddeployment`].
//!
//! - A change of an object has it looked at, and so does one of a workload that it controls. A workload of a subset that nobody controls has those looked at that
//!   choose it.
//! - A Pod of such a workload has it looked at within a second, when it came, went, or changed in what is counted: thousands of them change at the same time.
//! - Before anything is adopted, the API server is asked whether the object is really there.

use crate::{
    Settings,
    platform::{
        HEADS_BY_OWNER, PODS_BY_OWNER, Platform, REVISIONS_BY_NAMESPACE, SUBSET_ORPHANS, SUBSETS_BY_OWNER, Watched,
    },
    reconcile::{Adoption, Enqueue, Observer, Rehearser, Watches},
};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kruise_api::{
    kind::Kind as _,
    meta::{Owned as _, PartialObject},
    names::label,
    pod::Pod,
    revision::ControllerRevision,
    uniteddeployment::{v1beta1::UnitedDeployment, workload::SubsetWorkload},
};
use kruise_core::{
    plan::Outcome,
    shared::{availability, selector},
    uniteddeployment::{Observed, WorkloadKind, child::Child},
};
use kruise_runtime::{
    cache::{Event, Index, Kind, Store},
    error::Error,
    resource::ObjectKey,
};
use kube::ResourceExt as _;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How long changes of Pods are gathered.
const PACE: Duration = Duration::from_secs(1);

/// Objects by their namespace.
const BY_NAMESPACE: Index<UnitedDeployment> = Index::new("namespace", |united, key| {
    key(united.metadata.namespace.as_deref().unwrap_or_default());
});

impl Watched for UnitedDeployment {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&BY_NAMESPACE)
    }
}

/// The workloads of one kind.
struct Workloads {
    kind: WorkloadKind,
    store: Store<SubsetWorkload>,
}

pub(super) struct UnitedDeployments {
    united: Store<UnitedDeployment>,
    workloads: Vec<Workloads>,
    replica_sets: Store<PartialObject>,
    pods: Store<Pod>,
    revisions: Store<ControllerRevision>,
    adoption: Adoption,
}

impl Observer for UnitedDeployments {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        let workloads = WorkloadKind::ALL.map(|kind| Workloads {
            kind,
            store: platform.subset_store(kind.resource()),
        });
        Self {
            united: platform.store(),
            workloads: workloads.into(),
            replica_sets: platform.metadata_store(ReplicaSet::RESOURCE),
            pods: platform.store(),
            revisions: platform.store(),
            adoption: Adoption::by::<UnitedDeployment>(platform),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let pods = self.clone();
        let mut watches = Watches::of(&self.united)
            .owned(&self.revisions)
            .mapped(&self.pods, move |event, enqueue| pods.pod_changed(event, enqueue));
        for workloads in &self.workloads {
            let this = self.clone();
            watches = watches
                .owned(&workloads.store)
                .mapped(&workloads.store, move |event, enqueue| {
                    this.orphan_changed(event, enqueue);
                });
        }
        watches
    }

    async fn read_ahead(&self, key: &ObjectKey) -> Result<(), Error> {
        self.adoption.forget(key);
        let Some(united) = self.united.get(&key.namespace, &key.name) else {
            return Ok(());
        };
        let adopts = !self.orphans(key, &united).is_empty() || !self.orphan_revisions(key, &united).is_empty();
        if adopts && united.metadata.deletion_timestamp.is_none() {
            self.adoption.confirm(key, united.uid()).await?;
        }
        Ok(())
    }

    fn observe(&self, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        self.observe_as(self.united.get(&key.namespace, &key.name)?, key, last)
    }

    fn forget(&self, key: &ObjectKey) {
        self.adoption.forget(key);
    }
}

impl Rehearser for UnitedDeployments {
    fn observe_as(&self, united: Arc<UnitedDeployment>, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        let uid = united.uid()?;
        let mut children = self.orphans(key, &united);
        for Workloads { kind, store } in &self.workloads {
            let own = store.by(&SUBSETS_BY_OWNER, &uid).into_iter();
            children.extend(own.map(|object| Child { kind: *kind, object }));
        }
        let pods: BTreeMap<String, Vec<Arc<Pod>>> = children
            .iter()
            .map(|child| {
                let uid = child.object.metadata.uid.to_string();
                let pods = self.pods_of(child.kind, &uid);
                (uid, pods)
            })
            .collect();
        let mut revisions = self.orphan_revisions(key, &united);
        // One that is named like ours may be of an object that was deleted and applied again.
        let is_ours = |revision: &ControllerRevision| {
            let owner = revision.metadata.controller();
            owner.is_some_and(|owner| owner.uid.to_string() == uid || *owner.name == *key.name)
        };
        revisions.extend(self.revisions.select(&REVISIONS_BY_NAMESPACE, &key.namespace, is_ours));
        Some(Observed {
            children,
            pods,
            revisions,
            is_confirmed: self.adoption.is_confirmed(key, &uid),
            last,
            united,
        })
    }
}

impl UnitedDeployments {
    /// The Pods of a workload; those of a Deployment are its ReplicaSets'.
    fn pods_of(&self, kind: WorkloadKind, uid: &str) -> Vec<Arc<Pod>> {
        if kind != WorkloadKind::Deployment {
            return self.pods.by(&PODS_BY_OWNER, uid);
        }
        let sets = self.replica_sets.by(&HEADS_BY_OWNER, uid);
        let of_set = |set: &Arc<PartialObject>| self.pods.by(&PODS_BY_OWNER, &set.metadata.uid.to_string());
        sets.iter().flat_map(of_set).collect()
    }

    /// Workloads of subsets that nobody controls and that the object chooses.
    fn orphans(&self, key: &ObjectKey, united: &UnitedDeployment) -> Vec<Child> {
        let mut orphans = Vec::new();
        for Workloads { kind, store } in &self.workloads {
            let found = store.select(&SUBSET_ORPHANS, &key.namespace, |object| chooses(united, object));
            orphans.extend(found.into_iter().map(|object| Child { kind: *kind, object }));
        }
        orphans
    }

    /// Revisions that nobody controls and that the object chooses.
    fn orphan_revisions(&self, key: &ObjectKey, united: &UnitedDeployment) -> Vec<Arc<ControllerRevision>> {
        let chosen = &united.spec.selector;
        if selector::is_empty(chosen) {
            return Vec::new();
        }
        let begin = format!("{}-", key.name);
        let is_orphan = |revision: &ControllerRevision| {
            // Labels alone would also choose the revisions of its workloads.
            revision.metadata.controller().is_none()
                && revision.name().starts_with(&begin)
                && revision.metadata.label(label::SUBSET_NAME).is_none()
                && selector::matches(chosen, |key| revision.metadata.label(key))
        };
        self.revisions
            .select(&REVISIONS_BY_NAMESPACE, &key.namespace, is_orphan)
    }

    fn orphan_changed(&self, event: &Event<'_, SubsetWorkload>, enqueue: &Enqueue<'_>) {
        let Some(object) = event.new.filter(|object| is_orphan(object)) else {
            return;
        };
        let namespace = &*object.metadata.namespace;
        for united in self
            .united
            .select(&BY_NAMESPACE, namespace, |united| chooses(united, object))
        {
            enqueue.key(namespace, united.metadata.name.as_deref().unwrap_or_default());
        }
    }

    fn pod_changed(&self, event: &Event<'_, Pod>, enqueue: &Enqueue<'_>) {
        let counts = |pod: &Pod| pod.metadata.label(label::SUBSET_NAME).is_some();
        if !event.old.into_iter().chain(event.new).any(|pod| counts(pod)) {
            return;
        }
        let Some(pod) = event.latest() else { return };
        let Some(united) = self.united_of(pod) else { return };
        let namespace = &*pod.metadata.namespace;
        if event
            .old
            .zip(event.new)
            .is_some_and(|(old, new)| is_counted_alike(old, new))
        {
            enqueue.if_waiting(namespace, &united);
        } else {
            enqueue.after(namespace, &united, PACE);
        }
    }

    /// The object that a Pod belongs to, by way of its workload.
    fn united_of(&self, pod: &Pod) -> Option<String> {
        let namespace = &*pod.metadata.namespace;
        let owner = pod.metadata.controller()?;
        let mut name = owner.name.to_string();
        let kind = if owner.is_a::<ReplicaSet>() {
            let set = self.replica_sets.get(namespace, &name)?;
            set.controlled_by(Deployment::GROUP, Deployment::KIND)?
                .clone_into(&mut name);
            WorkloadKind::Deployment
        } else {
            WorkloadKind::ALL.into_iter().find(|kind| {
                let resource = kind.resource();
                pod.controlled_by(resource.group, resource.kind).is_some()
            })?
        };
        let workloads = self.workloads.iter().find(|known| known.kind == kind)?;
        let workload = workloads.store.get(namespace, &name)?;
        let united = workload.controlled_by(UnitedDeployment::GROUP, UnitedDeployment::KIND)?;
        Some(united.to_owned())
    }
}

fn is_orphan(object: &SubsetWorkload) -> bool {
    let meta = &object.metadata;
    meta.controller().is_none() && !meta.is_deleting() && meta.label(label::SUBSET_NAME).is_some()
}

fn chooses(united: &UnitedDeployment, object: &SubsetWorkload) -> bool {
    let chosen = &united.spec.selector;
    is_orphan(object) && !selector::is_empty(chosen) && selector::matches(chosen, |key| object.metadata.label(key))
}

/// Whether nothing changed that is counted, or that says where a Pod stands.
fn is_counted_alike(old: &Pod, new: &Pod) -> bool {
    let standing = |pod: &Pod| {
        let scheduled = pod
            .status
            .condition("PodScheduled")
            .map(|known| known.reason.to_string());
        (
            availability::is_active(pod),
            availability::is_ready(pod),
            pod.status.phase.clone(),
            scheduled,
        )
    };
    standing(old) == standing(new)
        && old.metadata.labels == new.metadata.labels
        && old.metadata.owner_references == new.metadata.owner_references
}
