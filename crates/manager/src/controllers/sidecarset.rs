//! SidecarSets: what is watched and what is looked at. Every decision is made in [`kruise_core::sidecarset`].
//!
//! - A change of a set or of a Pod that it was injected into has the set looked at. A Pod that changed in nothing we read does not. A set can have Pods all over the
//!   cluster, of which some change all the time: their changes are gathered, for longer the more Pods it has.
//! - A new Pod has the sets looked at that apply to it and were not injected. Which Pods may lack which set is remembered: all Pods are gone through only when a set is
//!   new, its spec has changed, or the labels of namespaces have.
//! - The cache keeps few annotations of a Pod. Where a set patches others, they are read before its Pods are updated.

mod annotations;
mod maybe_missing;

use super::pods::has_changed;
use crate::{
    platform::{PODS_BY_NAMESPACE, PODS_BY_SIDECAR_SET, Platform, SETS_BY_BASE},
    reconcile::{Enqueue, Observer, Rehearser, Watches},
};
use annotations::Annotations;
use jiff::Timestamp;
use kruise_admission::{REVISIONS_BY_SIDECAR_SET, SETS_BY_POD};
use kruise_api::{
    meta::Object as _, names::label, namespace::Namespace, pod::Pod, revision::ControllerRevision,
    sidecarset::v1beta1::SidecarSet,
};
use kruise_core::{
    plan::{Env, Outcome},
    sidecarset::{
        Observed, annotations_to_read, count_missing,
        missing::lacks,
        patch_metadata::looks_at_annotations,
        records::injected,
        select::{self, NamedRevision, looks_at_namespace_labels, pinned_namespaces},
    },
};
use kruise_runtime::{
    cache::{Event, Store},
    error::Error,
    resource::ObjectKey,
};
use maybe_missing::MaybeMissing;
use parking_lot::Mutex;
use prometheus::IntGaugeVec;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

/// How long changes of Pods are gathered, for each Pod of the set. To plan for a Pod takes a small part of that.
const PACE: Duration = Duration::from_micros(20);
/// A set with fewer Pods is looked at at once.
const FEW: u32 = 200;
const LONGEST: Duration = Duration::from_secs(1);

/// How long changes of so many Pods are gathered.
fn pace(pods: usize) -> Option<Duration> {
    let pods = u32::try_from(pods).unwrap_or(u32::MAX);
    (pods >= FEW).then(|| PACE.saturating_mul(pods).min(LONGEST))
}

pub(super) struct SidecarSets {
    sets: Store<SidecarSet>,
    pods: Store<Pod>,
    namespaces: Store<Namespace>,
    revisions: Store<ControllerRevision>,
    system: String,
    maybe_missing: MaybeMissing,
    annotations: Annotations,
    /// How long changes of Pods are gathered, by set.
    paces: Mutex<HashMap<String, Duration>>,
    /// Pods that lack their sidecars, by set.
    without_sidecars: IntGaugeVec,
}

impl Observer for SidecarSets {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        Self {
            sets: platform.store(),
            pods: platform.store(),
            namespaces: platform.store(),
            revisions: platform.store(),
            system: platform.settings().environment.namespace.clone(),
            maybe_missing: MaybeMissing::default(),
            annotations: Annotations::new(platform.client().clone()),
            paces: Mutex::default(),
            without_sidecars: platform.pods_without_sidecars().clone(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let (sets, pods, namespaces) = (self.clone(), self.clone(), self.clone());
        let looks_at_sets = Watches::of_some(&self.sets, move |event, enqueue| sets.set_changed(event, enqueue));
        looks_at_sets
            .mapped(&self.pods, move |event, enqueue| pods.pod_changed(event, enqueue))
            .mapped(&self.namespaces, move |event, enqueue| {
                namespaces.namespace_changed(event, enqueue);
            })
            .mapped(&self.revisions, |event, enqueue| {
                let set = event
                    .latest()
                    .and_then(|revision| revision.metadata.label(label::SIDECAR_SET_NAME));
                if let Some(set) = set {
                    enqueue.key("", set);
                }
            })
    }

    async fn read_ahead(&self, key: &ObjectKey) -> Result<(), Error> {
        let set = self.sets.get("", &key.name);
        if set.is_none_or(|set| !looks_at_annotations(&set.spec.patch_pod_metadata)) {
            return Ok(());
        }
        let Some(observed) = self.observe(key, Outcome::default()) else {
            return Ok(());
        };
        let wanted = annotations_to_read(&observed, &Env::at(Timestamp::now()));
        self.annotations.read(&key.name, wanted).await
    }

    fn observe(&self, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        let set = self.sets.get("", &key.name)?;
        let maybe_missing = self.maybe_missing(&set);
        let observed = self.observe_with(set, maybe_missing, key, last);
        self.remember_pace(&key.name, observed.pods.len());
        self.publish_missing(&key.name, count_missing(&observed));
        Some(observed)
    }

    fn forget(&self, key: &ObjectKey) {
        self.maybe_missing.forget(&key.name);
        self.annotations.forget(&key.name);
        self.paces.lock().remove(&*key.name);
        let _ = self.without_sidecars.remove_label_values(&[&key.name]);
    }
}

impl Rehearser for SidecarSets {
    fn observe_as(&self, set: Arc<SidecarSet>, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        // Nothing that is remembered of the set there is touched.
        let maybe_missing = self.look_for_lacking(&set);
        Some(
            self.observe_with(set, maybe_missing, key, last)
                .with_cached_annotations(),
        )
    }
}

impl SidecarSets {
    fn observe_with(
        &self,
        set: Arc<SidecarSet>,
        maybe_missing: Vec<Arc<Pod>>,
        key: &ObjectKey,
        last: Outcome,
    ) -> Observed {
        let pods = self.pods.by(&PODS_BY_SIDECAR_SET, &key.name);
        let names: BTreeSet<&str> = pods
            .iter()
            .chain(&maybe_missing)
            .map(|pod| &*pod.metadata.namespace)
            .collect();
        let namespaces: BTreeMap<String, Arc<Namespace>> = names
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), self.namespaces.get("", name)?)))
            .collect();
        let is_here = |revision: &ControllerRevision| *revision.metadata.namespace == *self.system;
        let mut revisions = self.revisions.select(&REVISIONS_BY_SIDECAR_SET, &key.name, is_here);
        if let Some(NamedRevision::Name(name)) = select::named_revision(&set)
            && !revisions.iter().any(|known| known.name() == name)
        {
            revisions.extend(self.revisions.get(&self.system, name));
        }
        Observed {
            canaries: self.sets.by(&SETS_BY_BASE, &key.name),
            revisions,
            annotations: self.annotations.of(&key.name),
            system: self.system.clone(),
            maybe_missing,
            namespaces,
            pods,
            last,
            set,
        }
    }

    fn set_changed(&self, event: &Event<'_, SidecarSet>, enqueue: &Enqueue<'_>) {
        let Some(set) = event.latest() else { return };
        if event.new.is_none() {
            self.maybe_missing.forget(set.name());
        }
        enqueue.key("", set.name());
        // Whether a canary is there decides whether its base applies.
        for base in [event.old, event.new]
            .into_iter()
            .flatten()
            .filter_map(|set| select::canary_of(set))
        {
            enqueue.key("", base);
        }
    }

    fn pod_changed(&self, event: &Event<'_, Pod>, enqueue: &Enqueue<'_>) {
        let Some(pod) = event.latest() else { return };
        let before = event.old.map(|pod| injected(pod)).into_iter().flatten();
        let after = event.new.map(|pod| injected(pod)).into_iter().flatten();
        let names: BTreeSet<&str> = before.chain(after).collect();
        if !names.is_empty() {
            let changed = has_changed(event);
            for name in names {
                let pace = self.paces.lock().get(name).copied();
                match pace.filter(|_| changed) {
                    Some(pace) => enqueue.after("", name, pace),
                    None if changed => enqueue.key("", name),
                    None => {}
                }
                enqueue.if_waiting("", name);
            }
        }
        if self.sets.is_empty() {
            return;
        }
        let is_same = event.old.zip(event.new).is_some_and(|(old, new)| {
            old.metadata.labels == new.metadata.labels
                && old.metadata.is_deleting() == new.metadata.is_deleting()
                && old.status.phase == new.status.phase
        });
        if !is_same {
            self.look_for_missing(pod, event.new.is_some(), enqueue);
        }
        // An eviction is waited for.
        for name in self.maybe_missing.sets_of(pod) {
            enqueue.if_waiting("", &name);
        }
    }

    /// Has the sets looked at whose containers a Pod may lack.
    fn look_for_missing(&self, pod: &Pod, is_there: bool, enqueue: &Enqueue<'_>) {
        for name in self.maybe_missing.sets_of(pod) {
            enqueue.key("", &name);
        }
        if !is_there {
            self.maybe_missing.gone(pod);
            return;
        }
        let namespace = self.namespaces.get("", &pod.metadata.namespace);
        let labels = pod.metadata.labels.iter().map(|(key, value)| (key, &**value));
        let mut found: Vec<Arc<SidecarSet>> = Vec::new();
        select::lookup_keys(&pod.metadata.namespace, labels, |key| {
            found.extend(self.sets.by(&SETS_BY_POD, key));
        });
        for set in found {
            if lacks(&set, pod, namespace.as_deref(), &self.system) {
                self.maybe_missing.insert(set.name(), pod);
                enqueue.key("", set.name());
            }
        }
    }

    fn namespace_changed(&self, event: &Event<'_, Namespace>, enqueue: &Enqueue<'_>) {
        let labels = |namespace: Option<&Arc<Namespace>>| namespace.map(|namespace| namespace.metadata.labels.clone());
        if labels(event.old) == labels(event.new) || (event.old.is_none() && self.sets.is_empty()) {
            return;
        }
        for set in self.sets.list().iter().filter(|set| looks_at_namespace_labels(set)) {
            self.maybe_missing.forget(set.name());
            enqueue.key("", set.name());
        }
    }

    /// The Pods that may lack the containers of a set.
    fn maybe_missing(&self, set: &SidecarSet) -> Vec<Arc<Pod>> {
        let generation = set.metadata.generation.unwrap_or_default();
        let known = self
            .maybe_missing
            .of(set.name(), generation, || self.look_for_lacking(set));
        let pods = known.into_iter();
        pods.filter_map(|key| self.pods.get(&key.namespace, &key.name))
            .collect()
    }

    /// Goes through all Pods that may be of a set.
    fn look_for_lacking(&self, set: &SidecarSet) -> Vec<Arc<Pod>> {
        let is_lacking = |pod: &Pod| {
            let namespace = self.namespaces.get("", &pod.metadata.namespace);
            lacks(set, pod, namespace.as_deref(), &self.system)
        };
        if let Some(namespaces) = pinned_namespaces(set) {
            let pods = namespaces
                .into_iter()
                .flat_map(|namespace| self.pods.select(&PODS_BY_NAMESPACE, namespace, is_lacking));
            return pods.collect();
        }
        let mut pods = self.pods.list();
        pods.retain(|pod| is_lacking(pod));
        pods
    }

    fn remember_pace(&self, set: &str, pods: usize) {
        let mut paces = self.paces.lock();
        match pace(pods) {
            Some(pace) => paces.insert(set.to_owned(), pace),
            None => paces.remove(set),
        };
    }

    fn publish_missing(&self, set: &str, missing: usize) {
        let count = i64::try_from(missing).unwrap_or(i64::MAX);
        self.without_sidecars.with_label_values(&[set]).set(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_many_pods_then_their_changes_are_gathered_for_a_while_but_never_for_long() {
        let millis = |pods| pace(pods).map(|pace| pace.as_millis());
        assert_eq!([0, 199, 200, 10_000].map(millis), [None, None, Some(4), Some(200)]);
        assert_eq!(pace(usize::MAX), Some(LONGEST));
    }
}
