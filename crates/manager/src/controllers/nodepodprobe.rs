//! NodePodProbes: what is watched and what is looked at. Every decision is made in [`kruise_core::nodepodprobe`].
//!
//! - A NodePodProbe that changes is looked at. A node wakes its own when it shall have one, or is gone; that a node reports is nothing.
//! - A Pod wakes the one that lists it when it is gone or has ended.
//! - A marker that changes, comes or goes wakes those that name it: other labels may follow from the same results.

use super::pod_marks::PodMarks;
use crate::{
    apply::Applied,
    platform::{NODE_PROBES_BY_MARKER, Platform},
    reconcile::{Enqueue, Observer, Watches},
};
use kruise_api::{node::Node, nodepodprobe::CachedNodePodProbe, pod::Pod, podprobemarker::v1alpha1::PodProbeMarker};
use kruise_core::{
    nodepodprobe::{Observed, is_due, lists, markers_named, pods_named},
    plan::{Outcome, Plan},
    shared::availability::is_active,
};
use kruise_runtime::{
    cache::{Event, Store},
    resource::ObjectKey,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub(super) struct NodePodProbes {
    lists: Store<CachedNodePodProbe>,
    nodes: Store<Node>,
    pods: Store<Pod>,
    markers: Store<PodProbeMarker>,
    marks: PodMarks,
}

impl Observer for NodePodProbes {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        Self {
            lists: platform.store(),
            nodes: platform.store(),
            pods: platform.store(),
            markers: platform.store(),
            marks: PodMarks::default(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let (nodes, pods, markers) = (self.clone(), self.clone(), self.clone());
        Watches::of(&self.lists)
            .mapped(&self.nodes, move |event, enqueue| {
                if let Some(node) = event.latest().filter(|_| nodes.needs_a_look(event)) {
                    enqueue.key("", &node.metadata.name);
                }
            })
            .mapped(&self.pods, move |event, enqueue| pods.pod_changed(event, enqueue))
            .mapped(&self.markers, move |event, enqueue| {
                markers.marker_changed(event, enqueue);
            })
    }

    fn observe(&self, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        let (node, list) = (self.nodes.get("", &key.name), self.lists.get("", &key.name));
        if node.is_none() && list.is_none() {
            return None;
        }
        let named = list.as_deref().map(pods_named).unwrap_or_default();
        let pods: BTreeMap<_, _> = found(named, &self.pods);
        let named = list.as_deref().map(markers_named).unwrap_or_default();
        Some(Observed {
            name: key.name.to_string(),
            markers: found(named, &self.markers),
            written: self.marks.of(key, pods.values().map(|pod| &**pod)),
            node,
            list,
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

/// Those of a store that are there.
fn found<K: Send + Sync + 'static>(
    names: BTreeSet<(String, String)>,
    store: &Store<K>,
) -> BTreeMap<(String, String), Arc<K>> {
    let get = |name: (String, String)| {
        let object = store.get(&name.0, &name.1)?;
        Some((name, object))
    };
    names.into_iter().filter_map(get).collect()
}

impl NodePodProbes {
    /// Whether a change of a node asks for anything.
    fn needs_a_look(&self, event: &Event<'_, Node>) -> bool {
        match event.new.filter(|node| !node.metadata.is_deleting()) {
            Some(node) => is_due(node) && !self.lists.contains("", &node.metadata.name),
            None => true,
        }
    }

    fn pod_changed(&self, event: &Event<'_, Pod>, enqueue: &Enqueue<'_>) {
        let Some(pod) = event.latest() else { return };
        let node = &*pod.spec.node_name;
        let Some(list) = self.lists.get("", node) else { return };
        let is_same = |old: &Arc<Pod>| {
            let still = event.new.filter(|new| new.metadata.uid == old.metadata.uid);
            still.is_some_and(|new| is_active(new) || !is_active(old))
        };
        match event.old {
            Some(old) if !is_same(old) && lists(&list, old) => enqueue.key("", node),
            // Results that were written are waited for.
            _ => enqueue.if_waiting("", node),
        }
    }

    fn marker_changed(&self, event: &Event<'_, PodProbeMarker>, enqueue: &Enqueue<'_>) {
        let is_same = event.old.zip(event.new).is_some_and(|(old, new)| {
            old.spec == new.spec
                && old.metadata.deletion_timestamp.is_some() == new.metadata.deletion_timestamp.is_some()
        });
        let Some(marker) = event.latest().filter(|_| !is_same) else {
            return;
        };
        let key = self.markers.name(marker);
        let name = format!("{}/{}", key.namespace, key.name);
        for list in self.lists.by(&NODE_PROBES_BY_MARKER, &name) {
            enqueue.key("", self.lists.name(&list).name);
        }
    }
}
