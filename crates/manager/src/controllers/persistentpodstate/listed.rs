//! Kinds that an administrator lists: their objects are watched, as far as their metadata goes, from when the list names them until it does not any more.
//!
//! A kind that the API server does not serve is looked for again after a while. One that the manager may not watch says nothing: its objects can be brought back by
//! PersistentPodStates that people make, but cannot ask for one.

use crate::{
    configuration::{ConfigurationMap, current},
    platform::Platform,
    reconcile::{Enqueue, LateEnqueue},
};
use kruise_api::{
    configuration::GroupVersionKind,
    meta::PartialObject,
    resource::{Resource, Scope},
};
use kruise_core::{
    persistentpodstate::{Workload, generate::Wish, kinds::is_stateful_set},
    shared::workload::WorkloadRef,
};
use kruise_runtime::{
    cache::{Event, Kind, LateWatch, LateWatches, Store},
    resource::ObjectKey,
};
use kube::{
    Client,
    discovery::{self, Scope as ServedScope},
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::time::timeout;

/// How long it may take to find a kind.
const DEADLINE: Duration = Duration::from_secs(5);
/// When a kind is looked for again.
const AGAIN: Duration = Duration::from_secs(30);

/// Hears of a change of a listed workload.
type Changed = Box<dyn Fn(&'static Resource, &Event<'_, PartialObject>, &Enqueue<'_>) + Send + Sync>;

/// Who is told of changes, and what is done then.
type OnChange = (LateEnqueue, Changed);

pub(super) struct Listed {
    configuration: Store<ConfigurationMap>,
    watches: LateWatches,
    client: Client,
    on_change: OnceLock<Arc<OnChange>>,
    /// By group and kind: the version does not matter.
    kinds: Mutex<BTreeMap<(String, String), Watched>>,
}

/// A kind that is watched; nothing when it was not found.
type Watched = Option<(Store<PartialObject>, LateWatch)>;

impl Listed {
    pub(super) fn new(platform: &mut Platform) -> Self {
        Self {
            configuration: platform.store(),
            watches: platform.late_watches(),
            client: platform.client().clone(),
            on_change: OnceLock::new(),
            kinds: Mutex::default(),
        }
    }

    /// Where the list is.
    pub(super) fn configuration(&self) -> &Store<ConfigurationMap> {
        &self.configuration
    }

    /// Has the list looked at, and `changed` told of workloads of its kinds from then on.
    pub(super) fn list_changed(
        &self,
        enqueue: &Enqueue<'_>,
        changed: impl Fn(&'static Resource, &Event<'_, PartialObject>, &Enqueue<'_>) + Send + Sync + 'static,
    ) {
        self.on_change
            .get_or_init(|| Arc::new((enqueue.late(), Box::new(changed))));
        enqueue.key("", "");
    }

    /// Whether a key stands for the list: there is no PersistentPodState outside of namespaces.
    pub(super) fn is_about(key: &ObjectKey) -> bool {
        key.namespace.is_empty()
    }

    /// Watches what is listed now, and nothing else.
    pub(super) async fn follow(&self) {
        // What is wrong with the list is told by whoever keeps an eye on it; the last one that could be read counts.
        let (Some(on_change), Ok(list)) = (self.on_change.get(), current(&self.configuration).persistent_pod_state)
        else {
            return;
        };
        let wanted: BTreeMap<_, _> = list
            .into_iter()
            .map(|custom| custom.kind)
            .filter(|kind| !is_stateful_set(&WorkloadRef::new(&format!("{}/", kind.group), &kind.kind, "")))
            .map(|kind| ((kind.group.clone(), kind.kind.clone()), kind))
            .collect();
        self.kinds.lock().retain(|name, _| wanted.contains_key(name));
        for (name, kind) in wanted {
            let known = self.kinds.lock().get(&name).map(Option::is_some);
            if known == Some(true) {
                continue;
            }
            match self.find(&kind).await {
                Ok(resource) => self.begin(name, resource, on_change),
                Err(reason) => {
                    if known.is_none() {
                        let GroupVersionKind { group, kind, .. } = kind;
                        tracing::warn!(
                            group,
                            kind,
                            reason,
                            "a listed kind cannot be watched for PersistentPodStates"
                        );
                        self.kinds.lock().insert(name, None);
                    }
                    on_change.0.after("", "", AGAIN);
                }
            }
        }
    }

    async fn find(&self, wanted: &GroupVersionKind) -> Result<&'static Resource, String> {
        let found = timeout(DEADLINE, discovery::group(&self.client, &wanted.group)).await;
        let group = found
            .map_err(|_| "no answer in time")?
            .map_err(|error| error.to_string())?;
        let mut of_version = group.versioned_resources(&wanted.version).into_iter();
        let found = of_version.find(|(resource, _)| resource.kind == wanted.kind);
        let found = found.or_else(|| group.recommended_kind(&wanted.kind));
        let (resource, served) = found.ok_or("the API server does not serve it")?;
        if served.scope == ServedScope::Cluster {
            return Err("its objects have no namespace".to_owned());
        }
        let (api_version, kind, plural) = (&resource.api_version, &resource.kind, &resource.plural);
        Ok(Resource::interned(api_version, kind, plural, Scope::Namespaced))
    }

    fn begin(&self, name: (String, String), resource: &'static Resource, on_change: &Arc<OnChange>) {
        let (store, watch) = self.watches.watch(Kind::partial(resource).metadata_only());
        // Whoever is told of a workload looks for it here.
        self.kinds.lock().insert(name, Some((store.clone(), watch)));
        let on_change = on_change.clone();
        store.subscribe(move |event| {
            let (late, changed) = &*on_change;
            changed(resource, event, &late.on(event));
        });
    }

    /// Returns the listed workloads of a name.
    pub(super) fn named(&self, namespace: &str, name: &str) -> Vec<Workload> {
        let kinds = self.kinds.lock();
        let stores = kinds.values().flatten().map(|(store, _)| store);
        let found = stores.filter_map(|store| {
            let Resource { api_version, kind, .. } = store.resource();
            let meta = &store.get(namespace, name)?.metadata;
            Some(Workload {
                reference: WorkloadRef::new(api_version, kind, name),
                uid: meta.uid.to_string(),
                is_deleting: meta.is_deleting(),
                ordinals: None,
                wish: Wish::of(meta),
            })
        });
        found.collect()
    }
}
