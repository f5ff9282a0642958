//! One workload with all that its page shows.

use super::super::{access::Right, frames::Frame};
use super::Frames;
use crate::platform::{PODS_BY_NAMESPACE, PODS_BY_OWNER, PODS_BY_SIDECAR_SET, REVISIONS_BY_NAMESPACE};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kruise_admission::REVISIONS_BY_SIDECAR_SET;
use kruise_api::{
    kind::Kind, names::annotation, pod::Pod, podunavailablebudget::v1beta1::PodUnavailableBudget, resource::Resource,
    revision::ControllerRevision, sidecarset::v1beta1::SidecarSet,
};
use kruise_core::{
    shared::selector,
    sidecarset::records,
    view::{BudgetView, Details, PodView, RevisionView, WorkloadView, history, sidecar_pod},
};
use kruise_runtime::cache::Store;
use serde::Serialize;
use std::{collections::BTreeSet, sync::Arc};

/// Which Pods belong to a workload.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Pods {
    /// There are none.
    None,
    /// Those that an object with this UID owns.
    Owned(String),
    /// Those of its namespace with these labels.
    Labelled(LabelSelector),
    /// Those that a SidecarSet, which is at this hash, was injected into.
    Injected(String),
}

/// The hash that Pods of a SidecarSet are to be at.
pub(super) fn hash(set: &SidecarSet) -> String {
    let annotations = set.metadata.annotations.as_ref();
    let hash = annotations.and_then(|annotations| annotations.get(annotation::SIDECAR_SET_HASH));
    hash.cloned().unwrap_or_default()
}

/// A workload as its page shows it.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Subject {
    pub(in super::super) resource: &'static Resource,
    pub(in super::super) uid: String,
    view: WorkloadView,
    pods: Pods,
}

/// The stores that pages read beside their workload's.
pub(in super::super) struct Around {
    pub(in super::super) pods: Store<Pod>,
    pub(in super::super) revisions: Store<ControllerRevision>,
    pub(in super::super) budgets: Store<PodUnavailableBudget>,
}

#[derive(Serialize)]
struct Page<'a> {
    #[serde(flatten)]
    view: &'a WorkloadView,
    details: &'a Details,
}

#[derive(Serialize)]
struct History {
    revisions: Vec<RevisionView>,
}

impl Subject {
    pub(super) fn new(resource: &'static Resource, meta: &ObjectMeta, view: WorkloadView, pods: Pods) -> Self {
        Self {
            resource,
            uid: meta.uid.clone().unwrap_or_default(),
            view,
            pods,
        }
    }

    fn right(&self) -> Right {
        Right::list(self.resource)
    }

    /// The workload itself.
    pub(in super::super) fn frame(&self) -> Frame {
        let page = Page {
            view: &self.view,
            details: &self.view.details,
        };
        Frame::new(self.right(), &self.view.namespace, "workload", &page)
    }

    /// Whether its Pods look otherwise than those of the workload before.
    pub(in super::super) fn shows_other_pods(&self, before: &Self) -> bool {
        let revision = |subject: &Self| subject.view.details.update_revision.clone();
        self.uid != before.uid || self.pods != before.pods || revision(self) != revision(before)
    }

    /// Whether a Pod belongs to it.
    pub(in super::super) fn has(&self, pod: &Pod) -> bool {
        match &self.pods {
            Pods::None => false,
            Pods::Owned(uid) => PODS_BY_OWNER.matches(pod, uid),
            Pods::Labelled(labels) => {
                *pod.metadata.namespace == *self.view.namespace
                    && !selector::is_empty(labels)
                    && selector::matches(labels, |key| pod.metadata.label(key))
            }
            Pods::Injected(_) => records::injected(pod).any(|set| set == self.view.name),
        }
    }

    /// A cell of its grid.
    pub(in super::super) fn pod(&self, pod: &Pod) -> Frame {
        let view = match &self.pods {
            Pods::Injected(hash) => sidecar_pod(pod, &self.view.name, hash),
            _ => PodView::new(pod, &self.view.details.update_revision),
        };
        Frame::new(Right::list(Pod::RESOURCE), &pod.metadata.namespace, "pod", &view)
    }

    fn all_pods(&self, store: &Store<Pod>) -> Vec<Arc<Pod>> {
        match &self.pods {
            Pods::None => Vec::new(),
            Pods::Owned(uid) => store.by(&PODS_BY_OWNER, uid),
            Pods::Labelled(_) => store.select(&PODS_BY_NAMESPACE, &self.view.namespace, |pod| self.has(pod)),
            Pods::Injected(_) => store.by(&PODS_BY_SIDECAR_SET, &self.view.name),
        }
    }

    /// Its history.
    pub(in super::super) fn history(&self, store: &Store<ControllerRevision>) -> Option<Frame> {
        let is_ours = |revision: &ControllerRevision| {
            let owner = revision.metadata.controller();
            owner.is_some_and(|owner| owner.uid.to_string() == self.uid)
        };
        let found = if self.resource == SidecarSet::RESOURCE {
            store.by(&REVISIONS_BY_SIDECAR_SET, &self.view.name)
        } else {
            store.select(&REVISIONS_BY_NAMESPACE, &self.view.namespace, is_ours)
        };
        let namespace = found.first().map(|first| first.metadata.namespace.to_string())?;
        let Details {
            update_revision,
            current_revision,
            ..
        } = &self.view.details;
        let revisions = history(
            found.iter().map(|revision| &**revision),
            update_revision,
            current_revision,
        );
        let right = Right::list(ControllerRevision::RESOURCE);
        Some(Frame::new(right, &namespace, "history", &History { revisions }))
    }

    /// The budgets that protect its Pods, and that others of those namespaces do not.
    pub(in super::super) fn budgets(&self, around: &Around, changed: Option<&BTreeSet<String>>) -> Vec<Frame> {
        let namespace = &self.view.namespace;
        let pods = self.all_pods(&around.pods);
        let pod = pods.first().map(|pod| &**pod);
        let right = Right::list(PodUnavailableBudget::RESOURCE);
        let protects = |budget: &PodUnavailableBudget| {
            let Resource { kind, group, .. } = self.resource;
            BudgetView::protects(budget, kind, group, &self.view.name, pod)
        };
        let shown = |budget: Arc<PodUnavailableBudget>| {
            protects(&budget).then(|| Frame::new(right, namespace, "budget", &BudgetView::from(&*budget)))
        };
        match changed {
            None => {
                let all = around.budgets.list().into_iter();
                let near = all.filter(|budget| budget.metadata.namespace.as_deref() == Some(namespace));
                near.filter_map(shown).collect()
            }
            Some(changed) => {
                let now = |name: &String| around.budgets.get(namespace, name).and_then(shown);
                let frame = |name: &String| now(name).unwrap_or_else(|| Frame::gone(right, namespace, name));
                changed.iter().map(frame).collect()
            }
        }
    }

    /// All that its page begins with.
    pub(in super::super) fn frames(self, around: &Around) -> Frames {
        let first = std::iter::once(self.frame());
        let history = self.history(&around.revisions);
        let budgets = self.budgets(around, None);
        let pods = self.all_pods(&around.pods).into_iter();
        Box::new(
            first
                .chain(history)
                .chain(budgets)
                .chain(pods.map(move |pod| self.pod(&pod))),
        )
    }
}
