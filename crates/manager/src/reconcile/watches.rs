//! Which changes make a controller look at which objects.
//!
//! - A store that a controller watches is also where its own writes of that kind become visible: nobody says that twice.
//! - Subscriptions are made when the controller starts, and then see everything that is there.
//! - Handlers run while the cache waits: they look into indexes, put keys into the queue and return.

use crate::{apply::Views, platform::ControllerContext};
use kruise_api::{meta::Owned, resource::Resource};
use kruise_runtime::{
    cache::{Event, Named, Store},
    controller::priority,
    expectations::Visible,
    queue::Priority,
    resource::ObjectKey,
};
use std::{sync::Arc, time::Duration};

/// Subscribes a controller to a store.
pub(crate) type Subscription = Box<dyn FnOnce(&Arc<ControllerContext>) + Send>;

/// What a controller watches.
///
/// ```text
/// Watches::of(&sets).owned_if(&pods, changed).owned(&claims).mapped(&nodes, |event, enqueue| …)
/// ```
pub(crate) struct Watches {
    pub(super) primary: Primary,
    pub(super) views: Views,
    pub(crate) subscriptions: Vec<Subscription>,
}

/// Returns the UID and the generation of an object.
type Identify = Box<dyn Fn(&ObjectKey) -> Option<(String, i64)> + Send + Sync>;

/// The kind that is planned for.
pub(super) struct Primary {
    pub(super) resource: &'static Resource,
    identify: Identify,
}

impl Primary {
    /// Returns the UID and the generation of an object; nothing of one that is still to be made.
    pub(super) fn identity(&self, key: &ObjectKey) -> (String, i64) {
        (self.identify)(key).unwrap_or_default()
    }
}

impl Watches {
    /// Plans for the objects of a store, and looks at each that changes.
    pub(crate) fn of<K: Owned + Send + Sync + 'static>(store: &Store<K>) -> Self {
        let names = store.clone();
        Self::of_some(store, move |event, enqueue| {
            if let Some(object) = event.latest() {
                let Named { namespace, name } = names.name(object);
                enqueue.key(namespace, name);
            }
        })
    }

    /// Plans for the objects of a store, and looks at those that `handler` puts into the queue.
    pub(crate) fn of_some<K: Owned + Send + Sync + 'static>(
        store: &Store<K>,
        handler: impl Fn(&Event<'_, K>, &Enqueue<'_>) + Send + Sync + 'static,
    ) -> Self {
        let objects = store.clone();
        let identify = move |key: &ObjectKey| {
            let object = objects.get(&key.namespace, &key.name)?;
            Some((objects.version(&object).uid.to_string(), object.generation()))
        };
        let primary = Primary {
            resource: store.resource(),
            identify: Box::new(identify),
        };
        let watches = Self {
            primary,
            views: Views::default(),
            subscriptions: Vec::new(),
        };
        watches.mapped(store, handler)
    }

    /// Looks at the owner of an object that changes, before the change and after it.
    #[must_use]
    pub(crate) fn owned<K: Owned + Send + Sync + 'static>(self, store: &Store<K>) -> Self {
        self.owned_if(store, |_| true)
    }

    /// The same, but a change that is none by `changed` counts only for owners that wait for one of their writes to become visible.
    #[must_use]
    pub(crate) fn owned_if<K: Owned + Send + Sync + 'static>(
        self,
        store: &Store<K>,
        changed: impl Fn(&Event<'_, K>) -> bool + Send + Sync + 'static,
    ) -> Self {
        let (names, resource) = (store.clone(), self.primary.resource);
        self.mapped(store, move |event, enqueue| {
            let before = event.old.and_then(|object| owner(&names, object, resource));
            let after = event.new.and_then(|object| owner(&names, object, resource));
            if before.is_none() && after.is_none() {
                return;
            }
            let changed = changed(event);
            for Named { namespace, name } in before.filter(|_| before != after).into_iter().chain(after) {
                if changed {
                    enqueue.key(namespace, name);
                } else {
                    enqueue.if_waiting(namespace, name);
                }
            }
        })
    }

    /// Has `handler` put into the queue what is to be looked at after a change.
    #[must_use]
    pub(crate) fn mapped<K: Send + Sync + 'static>(
        mut self,
        store: &Store<K>,
        handler: impl Fn(&Event<'_, K>, &Enqueue<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.views.add(store);
        let store = store.clone();
        self.subscriptions.push(Box::new(move |context| {
            let context = context.clone();
            store.subscribe(move |event| {
                let enqueue = Enqueue {
                    context: &context,
                    priority: priority(event),
                };
                handler(event, &enqueue);
            });
        }));
        self
    }
}

fn owner<'a, K: Owned + Send + Sync + 'static>(
    store: &Store<K>,
    object: &'a K,
    resource: &Resource,
) -> Option<Named<'a>> {
    let name = object.controlled_by(resource.group, resource.kind)?;
    let namespace = store.name(object).namespace;
    Some(Named { namespace, name })
}

/// Puts keys into the queue of a controller, as urgent as the change is.
pub(crate) struct Enqueue<'a> {
    context: &'a Arc<ControllerContext>,
    priority: Priority,
}

/// The queue of a controller, for changes of kinds that are watched only while it runs.
#[derive(Clone)]
pub(crate) struct LateEnqueue(Arc<ControllerContext>);

impl LateEnqueue {
    /// Puts keys into the queue because of a change.
    pub(crate) fn on<K>(&self, event: &Event<'_, K>) -> Enqueue<'_> {
        Enqueue {
            context: &self.0,
            priority: priority(event),
        }
    }

    /// Looks at an object after a while.
    pub(crate) fn after(&self, namespace: &str, name: &str, delay: Duration) {
        let key = ObjectKey::new(namespace, name);
        self.0.queue().add_after(key, Priority::Background, delay);
    }
}

impl Enqueue<'_> {
    /// Returns the queue, to be kept.
    pub(crate) fn late(&self) -> LateEnqueue {
        LateEnqueue(self.context.clone())
    }

    /// Looks at an object.
    pub(crate) fn key(&self, namespace: &str, name: &str) {
        self.context.queue().add(ObjectKey::new(namespace, name), self.priority);
    }

    /// Looks at an object only if it waits for one of its writes to become visible.
    pub(crate) fn if_waiting(&self, namespace: &str, name: &str) {
        let key = ObjectKey::new(namespace, name);
        if self.context.expectations().check(&key) != Visible::All {
            self.context.queue().add(key, self.priority);
        }
    }

    /// Looks at an object after a while.
    pub(crate) fn after(&self, namespace: &str, name: &str, delay: Duration) {
        let key = ObjectKey::new(namespace, name);
        self.context.queue().add_after(key, Priority::Background, delay);
    }
}
