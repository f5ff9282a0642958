//! PodProbeMarkers: what is watched and what is looked at. Every decision is made in [`kruise_core::podprobemarker`].
//!
//! - A Pod wakes the markers of its namespace when it begins to count for them, ceases to, or changes its address; on a virtual node also when a condition
//!   changes by which they mark, and then those that the Pod was given its probes by as well.
//! - A node wakes the markers of its Pods when it comes, goes, or becomes a virtual one. So does a NodePodProbe that comes; one that changes wakes the
//!   markers that it names.

use super::pod_marks::PodMarks;
use crate::{
    apply::Applied,
    platform::{NODE_PROBES_BY_MARKER, PODS_BY_NAMESPACE, PODS_BY_NODE, Platform},
    reconcile::{Enqueue, Observer, Watches},
};
use kruise_admission::MARKERS_BY_NAMESPACE;
use kruise_api::{node::Node, nodepodprobe::CachedNodePodProbe, pod::Pod, podprobemarker::v1alpha1::PodProbeMarker};
use kruise_core::{
    nodepodprobe::markers_named,
    plan::{Outcome, Plan},
    podprobemarker::{Observed, chooses, concerns, markers_of},
};
use kruise_runtime::{
    cache::{Event, Store},
    resource::ObjectKey,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub(super) struct PodProbeMarkers {
    markers: Store<PodProbeMarker>,
    pods: Store<Pod>,
    nodes: Store<Node>,
    node_probes: Store<CachedNodePodProbe>,
    marks: PodMarks,
}

impl Observer for PodProbeMarkers {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        Self {
            markers: platform.store(),
            pods: platform.store(),
            nodes: platform.store(),
            node_probes: platform.store(),
            marks: PodMarks::default(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let (pods, nodes, lists) = (self.clone(), self.clone(), self.clone());
        Watches::of(&self.markers)
            .mapped(&self.pods, move |event, enqueue| pods.pod_changed(event, enqueue))
            .mapped(&self.nodes, move |event, enqueue| nodes.node_changed(event, enqueue))
            .mapped(&self.node_probes, move |event, enqueue| {
                lists.list_changed(event, enqueue);
            })
    }

    fn observe(&self, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        let marker = self.markers.get(&key.namespace, &key.name)?;
        let chosen = |pod: &Pod| chooses(&marker, pod);
        let pods = self.pods.select(&PODS_BY_NAMESPACE, &key.namespace, chosen);
        let names: BTreeSet<&str> = pods
            .iter()
            .map(|pod| &*pod.spec.node_name)
            .filter(|name| !name.is_empty())
            .collect();
        let node = |name: &&str| Some(((*name).to_owned(), self.nodes.get("", name)?));
        let list = |name: &&str| Some(((*name).to_owned(), self.node_probes.get("", name)?));
        let mut node_probes: BTreeMap<String, Arc<CachedNodePodProbe>> = names.iter().filter_map(list).collect();
        let naming = self
            .node_probes
            .by(&NODE_PROBES_BY_MARKER, &format!("{}/{}", key.namespace, key.name));
        for list in naming {
            let name = self.node_probes.name(&list).name.to_owned();
            node_probes.entry(name).or_insert(list);
        }
        Some(Observed {
            nodes: names.iter().filter_map(node).collect(),
            written: self.marks.of(key, pods.iter().map(|pod| &**pod)),
            node_probes,
            marker,
            pods,
            last,
        })
    }

    fn applied(&self, key: &ObjectKey, plan: &Plan, applied: &Applied) {
        self.marks.applied(key, plan, applied);
    }

    fn forget(&self, key: &ObjectKey) {
        self.marks.forget(key);
    }
}

impl PodProbeMarkers {
    fn enqueue(&self, marker: &PodProbeMarker, enqueue: &Enqueue<'_>) {
        let key = self.markers.name(marker);
        enqueue.key(key.namespace, key.name);
    }

    fn pod_changed(&self, event: &Event<'_, Pod>, enqueue: &Enqueue<'_>) {
        let Some(pod) = event.latest() else { return };
        let markers = self.markers.by(&MARKERS_BY_NAMESPACE, &pod.metadata.namespace);
        if markers.is_empty() {
            return;
        }
        let node = self.nodes.get("", &pod.spec.node_name);
        let is_virtual = node.is_some_and(|node| node.is_virtual());
        let (old, new) = (event.old.map(|old| &**old), event.new.map(|new| &**new));
        for marker in &markers {
            let key = self.markers.name(marker);
            let was_given = || is_virtual && markers_of(pod).any(|name| name == key.name);
            if concerns(marker, old, new, is_virtual) || event.old.is_none() && was_given() {
                enqueue.key(key.namespace, key.name);
            } else if chooses(marker, pod) {
                // Labels that were written are waited for.
                enqueue.if_waiting(key.namespace, key.name);
            }
        }
    }

    fn node_changed(&self, event: &Event<'_, Node>, enqueue: &Enqueue<'_>) {
        let kind = |node: Option<&Arc<Node>>| node.map(|node| node.is_virtual());
        if kind(event.old) != kind(event.new)
            && let Some(node) = event.latest()
        {
            self.pods_of_node(&node.metadata.name, enqueue);
        }
    }

    fn list_changed(&self, event: &Event<'_, CachedNodePodProbe>, enqueue: &Enqueue<'_>) {
        if event.old.map(|list| &list.spec) == event.new.map(|list| &list.spec) {
            return;
        }
        let both = [event.old, event.new];
        let named: BTreeSet<_> = both
            .into_iter()
            .flatten()
            .flat_map(|list| markers_named(list))
            .collect();
        for (namespace, name) in named {
            enqueue.key(&namespace, &name);
        }
        if event.old.is_none()
            && let Some(list) = event.new
        {
            self.pods_of_node(self.node_probes.name(list).name, enqueue);
        }
    }

    /// Looks at the markers that choose Pods of a node.
    fn pods_of_node(&self, node: &str, enqueue: &Enqueue<'_>) {
        if self.markers.is_empty() {
            return;
        }
        for pod in self.pods.by(&PODS_BY_NODE, node) {
            let markers = self.markers.by(&MARKERS_BY_NAMESPACE, &pod.metadata.namespace);
            for marker in markers.iter().filter(|marker| chooses(marker, &pod)) {
                self.enqueue(marker, enqueue);
            }
        }
    }
}
