//! The objects of one kind in memory: slots, names and indexes, without locks and without time.
//!
//! An object is in a slot, a small number that stays the same while the object lives. The table of names and the indexes
//! hold slots only, so replacing an object touches nothing else unless its keys changed. Names are not stored a second time:
//! the table of names asks the object itself.

use std::cmp::Ordering;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;

use super::index::Postings;
use super::kind::{Kind, Named};

pub(super) struct ObjectTable<K> {
    slots: Vec<Option<Entry<K>>>,
    free: Vec<u32>,
    names: HashTable<u32>,
    hasher: RandomState,
    /// One for each index of the kind, in its order.
    postings: Vec<Postings>,
}

struct Entry<K> {
    object: Arc<K>,
    /// The list in which the object was seen last.
    list: u32,
}

impl<K> ObjectTable<K> {
    pub(super) fn new(indexes: usize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            names: HashTable::new(),
            hasher: RandomState::new(),
            postings: (0..indexes).map(|_| Postings::default()).collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn get(&self, kind: &Kind<K>, name: Named<'_>) -> Option<&Arc<K>> {
        self.find(kind, name).and_then(|slot| self.at(slot))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<K>> {
        self.slots.iter().flatten().map(|entry| &entry.object)
    }

    /// Objects under a key of the index at `position`, by namespace and name.
    pub(super) fn lookup<'a>(&'a self, position: usize, key: &str) -> impl Iterator<Item = &'a Arc<K>> + use<'a, K> {
        let slots = self
            .postings
            .get(position)
            .map_or(&[][..], |postings| postings.get(key));
        slots.iter().filter_map(|slot| self.at(*slot))
    }

    /// Puts an object into its slot and returns the one that was there.
    pub(super) fn put(&mut self, kind: &Kind<K>, object: &Arc<K>, list: u32) -> Option<Arc<K>> {
        if let Some(slot) = self.find(kind, kind.name(object)) {
            let entry = Entry {
                object: object.clone(),
                list,
            };
            let old = self.slots[slot as usize].replace(entry).map(|entry| entry.object);
            self.reindex(kind, slot, old.as_deref(), Some(object));
            return old;
        }
        let hash = self.hash(kind.name(object));
        let entry = Some(Entry {
            object: object.clone(),
            list,
        });
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = entry;
            slot
        } else {
            self.slots.push(entry);
            self.slots.len() as u32 - 1
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        let rehash = |slot: &u32| match &slots[*slot as usize] {
            Some(entry) => hasher.hash_one(kind.name(&entry.object)),
            // Only slots in use are in the table of names.
            None => 0,
        };
        self.names.insert_unique(hash, slot, rehash);
        self.reindex(kind, slot, None, Some(object));
        None
    }

    /// Notes that the object was seen in a list, though nothing else is known of it.
    pub(super) fn mark(&mut self, kind: &Kind<K>, name: Named<'_>, list: u32) {
        if let Some(slot) = self.find(kind, name)
            && let Some(entry) = &mut self.slots[slot as usize]
        {
            entry.list = list;
        }
    }

    pub(super) fn remove(&mut self, kind: &Kind<K>, name: Named<'_>) -> Option<Arc<K>> {
        let slot = self.find(kind, name)?;
        let hash = self.hash(name);
        if let Ok(entry) = self.names.find_entry(hash, |other| *other == slot) {
            entry.remove();
        }
        let object = self.slots[slot as usize].take()?.object;
        self.free.push(slot);
        self.reindex(kind, slot, Some(&object), None);
        Some(object)
    }

    /// Objects that were not seen in this list.
    pub(super) fn unseen(&self, list: u32) -> Vec<Arc<K>> {
        let unseen = self.slots.iter().flatten().filter(|entry| entry.list != list);
        unseen.map(|entry| entry.object.clone()).collect()
    }

    fn at(&self, slot: u32) -> Option<&Arc<K>> {
        let entry = self.slots.get(slot as usize)?.as_ref()?;
        Some(&entry.object)
    }

    fn find(&self, kind: &Kind<K>, name: Named<'_>) -> Option<u32> {
        let same = |slot: &u32| self.at(*slot).is_some_and(|object| kind.name(object) == name);
        self.names.find(self.hash(name), same).copied()
    }

    fn hash(&self, name: Named<'_>) -> u64 {
        self.hasher.hash_one(name)
    }

    /// Brings the indexes from the old object in a slot to the new one; both have the same name.
    fn reindex(&mut self, kind: &Kind<K>, slot: u32, old: Option<&K>, new: Option<&K>) {
        let Some(name) = old.or(new).map(|object| kind.name(object)) else {
            return;
        };
        let slots = &self.slots;
        let compare = |other: u32| match &slots[other as usize] {
            Some(entry) => kind.name(&entry.object).cmp(&name),
            // Only the slot that has just been left is empty.
            None => Ordering::Equal,
        };
        for (index, postings) in kind.indexes().iter().zip(&mut self.postings) {
            let has = |object: Option<&K>, key: &str| object.is_some_and(|object| index.matches(object, key));
            if let Some(old) = old {
                index.each_key(old, |key| {
                    if !has(new, key) {
                        postings.remove(key, compare);
                    }
                });
            }
            if let Some(new) = new {
                index.each_key(new, |key| {
                    if !has(old, key) {
                        postings.insert(key, slot, compare);
                    }
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kruise_api::resource::{Resource, Scope};
    use proptest::prelude::*;

    use super::*;
    use crate::cache::index::Index;
    use crate::cache::kind::Version;

    #[derive(Clone, Debug, PartialEq)]
    struct Thing {
        namespace: String,
        name: String,
        owners: Vec<String>,
        version: u64,
    }

    const BY_OWNER: Index<Thing> = Index::new("owner", |thing, key| {
        for owner in &thing.owners {
            key(owner);
        }
    });
    const BY_NAMESPACE: Index<Thing> = Index::new("namespace", |thing, key| key(&thing.namespace));

    fn kind() -> Kind<Thing> {
        fn name(thing: &Thing) -> Named<'_> {
            Named {
                namespace: &thing.namespace,
                name: &thing.name,
            }
        }
        fn version(thing: &Thing) -> Version {
            Version {
                resource_version: thing.version,
                ..Version::default()
            }
        }
        let resource = Resource::interned("v1", "Thing", "things", Scope::Namespaced);
        Kind::projected(resource, name, version)
            .index(&BY_OWNER)
            .index(&BY_NAMESPACE)
    }

    #[derive(Clone, Debug)]
    enum Step {
        Put(Thing, bool),
        Remove(String, String),
        List(Vec<Thing>),
    }

    fn thing() -> impl Strategy<Value = Thing> {
        ("[ab]", "[a-f]", prop::collection::vec("[x-z]", 0..3), any::<u64>()).prop_map(
            |(namespace, name, owners, version)| Thing {
                namespace,
                name,
                owners,
                version,
            },
        )
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (thing(), any::<bool>()).prop_map(|(thing, again)| Step::Put(thing, again)),
            2 => ("[ab]", "[a-f]").prop_map(|(namespace, name)| Step::Remove(namespace, name)),
            1 => prop::collection::vec(thing(), 0..6).prop_map(Step::List),
        ]
    }

    type Model = BTreeMap<(String, String), Thing>;

    fn check(table: &ObjectTable<Thing>, kind: &Kind<Thing>, model: &Model) {
        assert_eq!(table.len(), model.len());
        let mut all: Vec<_> = table.all().map(|thing| (**thing).clone()).collect();
        all.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        assert_eq!(all, model.values().cloned().collect::<Vec<_>>());
        for thing in model.values() {
            assert_eq!(table.get(kind, kind.name(thing)).map(|found| &**found), Some(thing));
        }
        for (position, index) in kind.indexes().iter().enumerate() {
            for key in ["a", "b", "x", "y", "z", "none"] {
                let found: Vec<_> = table.lookup(position, key).map(|thing| &**thing).collect();
                let expected: Vec<_> = model.values().filter(|thing| index.matches(thing, key)).collect();
                assert_eq!(found, expected, "{index:?} {key}");
            }
            let held: usize = table.postings[position].sorted().values().map(Vec::len).sum();
            let mut expected = 0;
            for thing in model.values() {
                let mut keys = Vec::new();
                index.each_key(thing, |key| keys.push(key.to_owned()));
                keys.sort();
                keys.dedup();
                expected += keys.len();
            }
            assert_eq!(held, expected, "{index:?} holds something that is no more");
        }
    }

    proptest! {
        #[test]
        fn given_any_steps_then_names_and_indexes_agree_with_a_plain_map(steps in prop::collection::vec(step(), 0..60)) {
            let kind = kind();
            let mut table = ObjectTable::new(kind.indexes().len());
            let mut model = Model::new();
            let mut list = 0;
            for step in steps {
                match step {
                    Step::Put(thing, again) => {
                        let key = (thing.namespace.clone(), thing.name.clone());
                        let old = table.put(&kind, &Arc::new(thing.clone()), list);
                        prop_assert_eq!(old.map(|old| (*old).clone()), model.insert(key, thing.clone()));
                        if again {
                            table.put(&kind, &Arc::new(thing), list);
                        }
                    }
                    Step::Remove(namespace, name) => {
                        let old = table.remove(&kind, Named { namespace: &namespace, name: &name });
                        prop_assert_eq!(old.map(|old| (*old).clone()), model.remove(&(namespace, name)));
                    }
                    Step::List(things) => {
                        list += 1;
                        model.clear();
                        for thing in things {
                            table.put(&kind, &Arc::new(thing.clone()), list);
                            model.insert((thing.namespace.clone(), thing.name.clone()), thing);
                        }
                        for gone in table.unseen(list) {
                            table.remove(&kind, kind.name(&gone));
                        }
                    }
                }
                check(&table, &kind, &model);
            }
        }
    }
}
