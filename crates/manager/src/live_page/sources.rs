//! What the page shows of the cache: tables of objects, and of one workload its Pods, revisions and budgets.

mod subject;

pub(super) use subject::{Around, Pods, Subject};

use super::{access::Right, frames::Frame};
use crate::platform::{Platform, Watched};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::{
    advancedcronjob::v1beta1::AdvancedCronJob, broadcastjob::v1beta1::BroadcastJob, cloneset::v1beta1::CloneSet,
    daemonset::v1beta1::DaemonSet, ephemeraljob::v1alpha1::EphemeralJob, imagepulljob::v1beta1::ImagePullJob,
    kind::Kind, nodeimage::CachedNodeImage, podunavailablebudget::v1beta1::PodUnavailableBudget,
    sidecarset::v1beta1::SidecarSet, statefulset::v1beta1::StatefulSet, uniteddeployment::v1beta1::UnitedDeployment,
};
use kruise_core::view::{BudgetView, NodeView, PullJobView, WorkloadView};
use kruise_runtime::cache::{Origin, Store, SyncState};
use serde::Serialize;
use std::sync::Arc;

/// A table of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Table {
    Workloads,
    Budgets,
    Images,
}

impl Table {
    /// Returns the table with this name in addresses.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "workloads" => Some(Self::Workloads),
            "budgets" => Some(Self::Budgets),
            "images" => Some(Self::Images),
            _ => None,
        }
    }
}

/// Frames that are made while they are sent.
pub(super) type Frames = Box<dyn Iterator<Item = Frame> + Send>;

/// Objects of one kind, as lines of a table.
pub(super) trait Source: Send + Sync {
    /// Returns the table that they are in.
    fn table(&self) -> Table;
    /// Returns what it takes to see them.
    fn right(&self) -> Right;
    /// Whether not all of them are known yet.
    fn is_pending(&self) -> bool;
    /// Returns the line of an object; nothing when there is none.
    fn frame(&self, namespace: &str, name: &str) -> Option<Frame>;
    /// Returns all lines.
    fn frames(&self) -> Frames;
    /// Returns what the page of one object shows; nothing when there is none, or no such page.
    fn subject(&self, namespace: &str, name: &str) -> Option<Subject>;
    /// Calls back with namespace and name of what changes from now on.
    fn subscribe(&self, changed: Changed);
}

/// Hears namespace and name of an object that changed.
pub(super) type Changed = Box<dyn Fn(&str, &str) + Send + Sync>;

/// A kind with lines.
pub(super) trait Shown: Kind + Watched {
    /// What a line has.
    type View: Serialize;
    const TABLE: Table;
    /// Name of its event.
    const EVENT: &'static str;

    fn view(&self) -> Self::View;

    /// What its page has; nothing when it has none.
    fn subject(&self) -> Option<Subject> {
        None
    }
}

/// Workloads, with their metadata and Pods.
macro_rules! workloads {
    ($($kind:ty: $pods:expr),* $(,)?) => {$(
        impl Shown for $kind {
            type View = WorkloadView;
            const TABLE: Table = Table::Workloads;
            const EVENT: &'static str = "workload";

            fn view(&self) -> WorkloadView {
                self.into()
            }

            fn subject(&self) -> Option<Subject> {
                let pods: fn(&Self) -> Pods = $pods;
                Some(Subject::new(Self::RESOURCE, &self.metadata, self.into(), pods(self)))
            }
        }
    )*};
}

fn owned(meta: &ObjectMeta) -> Pods {
    Pods::Owned(meta.uid.clone().unwrap_or_default())
}

workloads! {
    AdvancedCronJob: |_| Pods::None,
    BroadcastJob: |job| owned(&job.metadata),
    CloneSet: |set| owned(&set.metadata),
    DaemonSet: |set| owned(&set.metadata),
    EphemeralJob: |job| Pods::Labelled(job.spec.selector.clone().unwrap_or_default()),
    SidecarSet: |set| Pods::Injected(subject::hash(set)),
    StatefulSet: |set| owned(&set.metadata),
    UnitedDeployment: |united| Pods::Labelled(united.spec.selector.clone()),
}

impl Shown for PodUnavailableBudget {
    type View = BudgetView;
    const TABLE: Table = Table::Budgets;
    const EVENT: &'static str = "budget";

    fn view(&self) -> BudgetView {
        self.into()
    }
}

impl Shown for ImagePullJob {
    type View = PullJobView;
    const TABLE: Table = Table::Images;
    const EVENT: &'static str = "job";

    fn view(&self) -> PullJobView {
        self.into()
    }
}

impl Shown for CachedNodeImage {
    type View = NodeView;
    const TABLE: Table = Table::Images;
    const EVENT: &'static str = "node";

    fn view(&self) -> NodeView {
        self.into()
    }
}

/// The objects of a kind in the cache.
pub(super) struct Cached<K: 'static>(pub(super) Store<K>);

fn line<K: Shown>(store: &Store<K>, object: &K) -> Frame {
    let name = store.name(object);
    Frame::new(Right::list(K::RESOURCE), name.namespace, K::EVENT, &object.view())
}

impl<K: Shown> Source for Cached<K> {
    fn table(&self) -> Table {
        K::TABLE
    }

    fn right(&self) -> Right {
        Right::list(K::RESOURCE)
    }

    fn is_pending(&self) -> bool {
        self.0.state() == SyncState::Pending
    }

    fn frame(&self, namespace: &str, name: &str) -> Option<Frame> {
        let object = self.0.get(namespace, name)?;
        Some(line(&self.0, &object))
    }

    fn frames(&self) -> Frames {
        let store = self.0.clone();
        let objects = store.list().into_iter();
        Box::new(objects.map(move |object| line(&store, &object)))
    }

    fn subject(&self, namespace: &str, name: &str) -> Option<Subject> {
        self.0.get(namespace, name)?.subject()
    }

    fn subscribe(&self, changed: Changed) {
        let store = self.0.clone();
        self.0.subscribe(move |event| {
            if event.origin != Origin::Resync
                && let Some(object) = event.latest()
            {
                let name = store.name(object);
                changed(name.namespace, name.name);
            }
        });
    }
}

/// Asks for the stores of all kinds that have a table; those of workloads come first, by kind.
pub(super) fn watch(platform: &mut Platform) -> Vec<Arc<dyn Source>> {
    vec![
        cached::<AdvancedCronJob>(platform),
        cached::<BroadcastJob>(platform),
        cached::<CloneSet>(platform),
        cached::<DaemonSet>(platform),
        cached::<EphemeralJob>(platform),
        cached::<SidecarSet>(platform),
        cached::<StatefulSet>(platform),
        cached::<UnitedDeployment>(platform),
        cached::<PodUnavailableBudget>(platform),
        cached::<ImagePullJob>(platform),
        cached::<CachedNodeImage>(platform),
    ]
}

fn cached<K: Shown>(platform: &mut Platform) -> Arc<dyn Source> {
    Arc::new(Cached(platform.store::<K>()))
}
