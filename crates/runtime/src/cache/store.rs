//! The objects of one kind, for many readers and one feeder.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kruise_api::meta::PartialObject;
use kruise_api::resource::Resource;
use parking_lot::{Mutex, RwLock};
use prometheus::IntCounter;
use tokio::sync::watch;

use super::index::Index;
use super::kind::{Kind, Named, Version};
use super::sync::SyncState;
use super::table::ObjectTable;
use super::unreadable::Unreadable;

/// A handle to the objects of one kind. Clones are the same store.
pub struct Store<K>(Arc<Inner<K>>);

struct Inner<K> {
    kind: Kind<K>,
    held: RwLock<Held<K>>,
    /// Taken for the whole of a change, so that subscribers see changes in order and miss none.
    feed: Mutex<Feed<K>>,
    state: watch::Sender<SyncState>,
    handler_panics: IntCounter,
}

struct Held<K> {
    table: ObjectTable<K>,
    /// Objects whose newest version cannot be read; an older one may be in the table.
    unreadable: Unreadable,
    position: Position,
}

struct Feed<K> {
    handlers: Vec<Handler<K>>,
    /// Highest version in the list that is under way.
    listed_version: u64,
}

type Handler<K> = Box<dyn Fn(&Event<'_, K>) + Send + Sync>;

/// How far a store has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Every change up to this resourceVersion has been seen.
    pub version: u64,
    /// Number of the last list that was begun.
    pub list_begun: u32,
    /// Number of the last list that was finished; 0 before the first.
    pub list_done: u32,
    /// How often the server said how far it has come, although nothing may have changed: a watch was opened, or a bookmark came.
    pub reached: u32,
}

/// What a feeder tells a store. The cache does that with what the API server says; tests may do it themselves.
#[derive(Debug)]
pub enum Change<'a, K> {
    /// A list begins.
    ListBegins,
    /// An object of the list.
    Listed(K),
    /// An object of the list that cannot be read, but for its metadata.
    ListedUnreadable(PartialObject),
    /// The list is complete: what it did not contain is gone.
    ListEnds,
    /// An object was made or changed.
    Applied(K),
    /// An object was made or changed and cannot be read, but for its metadata.
    AppliedUnreadable(PartialObject),
    /// An object was deleted, at this resourceVersion.
    Deleted(Named<'a>, u64),
    /// Every change up to this resourceVersion has been told.
    Reached(u64),
}

/// A change of one object, as subscribers see it. At least one of `old` and `new` is there.
#[derive(Debug)]
pub struct Event<'a, K> {
    /// The object before; `None` when it is new.
    pub old: Option<&'a Arc<K>>,
    /// The object now; `None` when it is gone.
    pub new: Option<&'a Arc<K>>,
    /// Why there is this event.
    pub origin: Origin,
}

/// Why there is an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The object was there already when we began to look, or changed while we could not look.
    List,
    /// Somebody changed it just now.
    Watch,
    /// Nothing has changed; it is time to look again.
    Resync,
}

impl<K> Event<'_, K> {
    /// Returns the object now, or what it was last.
    pub fn latest(&self) -> Option<&Arc<K>> {
        self.new.or(self.old)
    }
}

impl<K: Send + Sync + 'static> Store<K> {
    /// An empty store that whoever holds it may feed.
    pub fn new(kind: Kind<K>) -> Self {
        let panics = IntCounter::new("handler_panics", "not registered").expect("a valid name");
        Self::counting(kind, panics)
    }

    pub(super) fn counting(kind: Kind<K>, handler_panics: IntCounter) -> Self {
        let table = ObjectTable::new(kind.indexes().len());
        Self(Arc::new(Inner {
            kind,
            held: RwLock::new(Held {
                table,
                unreadable: Unreadable::default(),
                position: Position::default(),
            }),
            feed: Mutex::new(Feed {
                handlers: Vec::new(),
                listed_version: 0,
            }),
            state: watch::Sender::new(SyncState::Pending),
            handler_panics,
        }))
    }

    /// Returns the kind that is stored here.
    pub fn resource(&self) -> &'static Resource {
        self.0.kind.resource()
    }

    /// Returns the object of this name; `namespace` is empty for objects of the cluster.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let held = self.0.held.read();
        held.table.get(&self.0.kind, Named { namespace, name }).cloned()
    }

    /// Whether there is an object of this name, readable or not.
    pub fn contains(&self, namespace: &str, name: &str) -> bool {
        let name = Named { namespace, name };
        let held = self.0.held.read();
        held.table.get(&self.0.kind, name).is_some() || held.unreadable.get(name).is_some()
    }

    /// Returns what is known of an object whose newest version cannot be read.
    pub fn unreadable(&self, namespace: &str, name: &str) -> Option<Arc<PartialObject>> {
        let held = self.0.held.read();
        held.unreadable.get(Named { namespace, name }).cloned()
    }

    /// Returns what is known of all such objects of a namespace, by name. Read it before the objects: one that is read meanwhile is then among these
    /// or among those.
    pub fn unreadable_in(&self, namespace: &str) -> Vec<Arc<PartialObject>> {
        self.0.held.read().unreadable.within(namespace)
    }

    /// Returns the number of objects that cannot be read.
    pub fn unreadable_len(&self) -> usize {
        self.0.held.read().unreadable.len()
    }

    /// Returns the objects under a key, by namespace and name.
    pub fn by(&self, index: &Index<K>, key: &str) -> Vec<Arc<K>> {
        self.select(index, key, |_| true)
    }

    /// Returns the objects under a key that the filter lets through, by namespace and name. The filter must be quick: nothing can change
    /// meanwhile.
    pub fn select(&self, index: &Index<K>, key: &str, mut filter: impl FnMut(&K) -> bool) -> Vec<Arc<K>> {
        let indexes = self.0.kind.indexes();
        let position = indexes.iter().position(|each| each.name() == index.name());
        let held = self.0.held.read();
        if let Some(position) = position {
            let found = held.table.lookup(position, key);
            return found.filter(|each| filter(each)).cloned().collect();
        }
        // Not declared: right all the same, only slow.
        let all = held.table.all();
        let found = all.filter(|each| index.matches(each, key) && filter(each));
        let found = found.cloned().collect();
        drop(held);
        self.sorted(found)
    }

    /// Returns all objects, by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        let all = self.0.held.read().table.all().cloned().collect();
        self.sorted(all)
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.0.held.read().table.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how far this store has come. Read it before the objects: they are at least that new.
    pub fn position(&self) -> Position {
        self.0.held.read().position
    }

    /// Returns the namespace and name of an object of this kind.
    pub fn name<'a>(&self, object: &'a K) -> Named<'a> {
        self.0.kind.name(object)
    }

    /// Returns the version of an object of this kind.
    pub fn version(&self, object: &K) -> Version {
        self.0.kind.version(object)
    }

    /// Calls `handler` for every object that is there, and from then on for every change, one after the other.
    ///
    /// The handler runs while the cache waits: put a key into a queue and return. It may read any store, but must not subscribe to
    /// this one. A handler that panics is logged and called again for the next change.
    pub fn subscribe(&self, handler: impl Fn(&Event<'_, K>) + Send + Sync + 'static) {
        let handler: Handler<K> = Box::new(handler);
        let mut feed = self.0.feed.lock();
        for object in self.list() {
            let event = Event {
                old: None,
                new: Some(&object),
                origin: Origin::List,
            };
            self.call(&handler, &event);
        }
        feed.handlers.push(handler);
    }

    /// Tells subscribers of every object again, although nothing has changed.
    pub fn resync(&self) {
        let feed = self.0.feed.lock();
        for object in self.list() {
            self.notify(&feed, Some(&object), Some(&object), Origin::Resync);
        }
    }

    /// Takes in a change.
    pub fn feed(&self, change: Change<'_, K>) {
        let mut feed = self.0.feed.lock();
        match change {
            Change::ListBegins => {
                feed.listed_version = 0;
                self.0.held.write().position.list_begun += 1;
            }
            Change::Listed(object) => {
                let version = self.version(&object).resource_version;
                feed.listed_version = feed.listed_version.max(version);
                self.put(&feed, object, Origin::List);
            }
            Change::ListedUnreadable(partial) => {
                feed.listed_version = feed.listed_version.max(partial.metadata.resource_version);
                self.keep_partial(partial);
            }
            Change::ListEnds => self.end_list(&feed),
            Change::Reached(version) => {
                self.advance(version);
                self.0.held.write().position.reached += 1;
            }
            Change::Applied(object) => {
                let version = self.version(&object).resource_version;
                self.put(&feed, object, Origin::Watch);
                self.advance(version);
            }
            Change::AppliedUnreadable(partial) => {
                let version = partial.metadata.resource_version;
                self.keep_partial(partial);
                self.advance(version);
            }
            Change::Deleted(name, version) => {
                let mut held = self.0.held.write();
                held.unreadable.remove(name);
                let old = held.table.remove(&self.0.kind, name);
                drop(held);
                self.advance(version);
                if let Some(old) = old {
                    self.notify(&feed, Some(&old), None, Origin::Watch);
                }
            }
        }
    }

    fn put(&self, feed: &Feed<K>, object: K, origin: Origin) {
        let mut held = self.0.held.write();
        let list = held.position.list_begun;
        let name = self.0.kind.name(&object);
        held.unreadable.remove(name);
        if let Some(old) = held.table.get(&self.0.kind, name)
            && self.same_version(old, &object)
        {
            held.table.mark(&self.0.kind, name, list);
            return;
        }
        let object = Arc::new(object);
        let old = held.table.put(&self.0.kind, &object, list);
        drop(held);
        let is_heartbeat = |old: &Arc<K>| self.0.kind.is_heartbeat(old, &object);
        if !old.as_ref().is_some_and(is_heartbeat) {
            self.notify(feed, old.as_ref(), Some(&object), origin);
        }
    }

    /// Notes an object of which only the metadata is known. An older version of it stays.
    fn keep_partial(&self, partial: PartialObject) {
        let mut held = self.0.held.write();
        let list = held.position.list_begun;
        held.table.mark(&self.0.kind, (&partial.metadata).into(), list);
        held.unreadable.put(partial, list);
    }

    fn same_version(&self, old: &K, new: &K) -> bool {
        let (old, new) = (self.version(old), self.version(new));
        old.resource_version != 0 && old.resource_version == new.resource_version && old.uid == new.uid
    }

    /// Removes what the list did not contain, one object at a time.
    fn end_list(&self, feed: &Feed<K>) {
        let held = self.0.held.read();
        let list = held.position.list_begun;
        let gone = held.table.unseen(list);
        drop(held);
        for object in gone {
            self.0
                .held
                .write()
                .table
                .remove(&self.0.kind, self.0.kind.name(&object));
            self.notify(feed, Some(&object), None, Origin::List);
        }
        let mut held = self.0.held.write();
        held.unreadable.sweep(list);
        held.position.list_done = list;
        // Not the higher one of both: after a restore of the server's store, versions begin again further down.
        held.position.version = feed.listed_version;
        drop(held);
        self.set_state(SyncState::Synced);
    }

    fn advance(&self, version: u64) {
        let mut held = self.0.held.write();
        held.position.version = held.position.version.max(version);
    }

    fn notify(&self, feed: &Feed<K>, old: Option<&Arc<K>>, new: Option<&Arc<K>>, origin: Origin) {
        let event = Event { old, new, origin };
        for handler in &feed.handlers {
            self.call(handler, &event);
        }
    }

    fn call(&self, handler: &Handler<K>, event: &Event<'_, K>) {
        if catch_unwind(AssertUnwindSafe(|| handler(event))).is_err() {
            self.0.handler_panics.inc();
            let name = event.latest().map(|object| self.name(object));
            tracing::error!(kind = %self.resource(), object = ?name, "a subscriber of the cache panicked");
        }
    }

    fn sorted(&self, mut objects: Vec<Arc<K>>) -> Vec<Arc<K>> {
        objects.sort_unstable_by(|a, b| self.name(a).cmp(&self.name(b)));
        objects
    }

    /// Whether the first list is complete, or the kind is known to be missing.
    pub fn state(&self) -> SyncState {
        *self.0.state.borrow()
    }

    /// Returns where the first list stands, to be waited for.
    pub fn states(&self) -> watch::Receiver<SyncState> {
        self.0.state.subscribe()
    }

    pub(super) fn set_state(&self, state: SyncState) {
        self.0.state.send_if_modified(|old| {
            // A kind that was complete once stays usable while it is asked for again.
            let changes = *old != state && *old != SyncState::Synced;
            if changes {
                *old = state;
            }
            changes
        });
    }

    pub(super) fn kind(&self) -> &Kind<K> {
        &self.0.kind
    }
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.0.kind.resource())
    }
}

#[cfg(test)]
mod tests;
