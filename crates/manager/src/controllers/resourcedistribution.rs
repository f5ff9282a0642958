//! ResourceDistributions: what is watched and what is looked at. Every decision is made in [`kruise_core::resourcedistribution`].
//!
//! - A change of a distribution has it looked at, and so does any change of a copy that it owns or owned.
//! - An object that comes, goes or changes hands concerns all distributions of its kind and name: it may be in the way of another one.
//! - A namespace that comes, goes, is about to go or changes its labels concerns those who count it as a target, before or after.

use crate::{
    platform::{DISTRIBUTIONS_BY_RESOURCE, Platform, distributed},
    reconcile::{Enqueue, Observer, Watches},
};
use kruise_api::{
    configmap::ConfigMap,
    kind::Kind,
    meta::{Object, Owned},
    namespace::Namespace,
    resourcedistribution::v1beta1::ResourceDistribution,
    secret::Secret,
};
use kruise_core::{
    plan::Outcome,
    resourcedistribution::{Existing, Observed, manifest::Identity, targets::is_concerned},
};
use kruise_runtime::{
    cache::{Event, Store},
    resource::ObjectKey,
};
use std::{collections::BTreeMap, sync::Arc};

pub(super) struct ResourceDistributions {
    distributions: Store<ResourceDistribution>,
    namespaces: Store<Namespace>,
    secrets: Store<Secret>,
    maps: Store<ConfigMap>,
}

impl Observer for ResourceDistributions {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        Self {
            distributions: platform.store(),
            namespaces: platform.store(),
            secrets: platform.store(),
            maps: platform.store(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let (secrets, maps, namespaces) = (self.clone(), self.clone(), self.clone());
        Watches::of(&self.distributions)
            .mapped(&self.secrets, move |event, enqueue| {
                secrets.object_changed(event, enqueue);
            })
            .mapped(&self.maps, move |event, enqueue| maps.object_changed(event, enqueue))
            .mapped(&self.namespaces, move |event, enqueue| {
                namespaces.namespace_changed(event, enqueue);
            })
    }

    fn observe(&self, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        let distribution = self.distributions.get(&key.namespace, &key.name)?;
        let namespaces = self.namespaces.list();
        let identity = Identity::of(&distribution.spec.resource);
        let existing = match identity.resource() {
            Some(resource) if resource == Secret::RESOURCE => {
                existing(&self.secrets, &namespaces, &identity.metadata.name)
            }
            Some(_) => existing(&self.maps, &namespaces, &identity.metadata.name),
            None => BTreeMap::new(),
        };
        Some(Observed {
            distribution,
            namespaces,
            existing,
            last,
        })
    }
}

/// The objects of a name in namespaces.
fn existing<K>(store: &Store<K>, namespaces: &[Arc<Namespace>], name: &str) -> BTreeMap<String, Existing>
where
    K: Send + Sync + 'static,
    for<'a> Existing: From<&'a K>,
{
    let found = namespaces.iter().filter_map(|namespace| {
        let namespace = &*namespace.metadata.name;
        Some((namespace.to_owned(), Existing::from(&*store.get(namespace, name)?)))
    });
    found.collect()
}

impl ResourceDistributions {
    fn object_changed<K: Kind + Object + Owned>(&self, event: &Event<'_, K>, enqueue: &Enqueue<'_>) {
        let owner = |object: Option<&Arc<K>>| {
            let owner = object?.controlled_by(ResourceDistribution::GROUP, ResourceDistribution::KIND)?;
            Some(owner.to_owned())
        };
        let (before, after) = (owner(event.old), owner(event.new));
        for name in [&before, &after].into_iter().flatten() {
            enqueue.key("", name);
        }
        let came_or_went = event.old.is_none() || event.new.is_none() || before != after;
        let Some(object) = event.latest().filter(|_| came_or_went) else {
            return;
        };
        let key = distributed(K::RESOURCE.kind, object.name());
        for distribution in self.distributions.by(&DISTRIBUTIONS_BY_RESOURCE, &key) {
            enqueue.key("", distribution.name());
        }
    }

    fn namespace_changed(&self, event: &Event<'_, Namespace>, enqueue: &Enqueue<'_>) {
        let (old, new) = (event.old.map(Arc::as_ref), event.new.map(Arc::as_ref));
        for distribution in self.distributions.list() {
            if is_concerned(&distribution.spec.targets, old, new) {
                enqueue.key("", distribution.name());
            }
        }
    }
}
