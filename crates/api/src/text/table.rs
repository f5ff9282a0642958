//! The table of what is kept once.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

/// What is kept once. In several parts, so that kinds which are read at the same time rarely wait for each other.
#[derive(Debug)]
pub struct Table<E> {
    hasher: RandomState,
    parts: [Mutex<Part<E>>; PARTS],
}

const PARTS: usize = 16;

#[derive(Debug)]
struct Part<E> {
    entries: HashMap<u64, E, BuildHasherDefault<AsItIs>>,
    sweep_at: usize,
}

/// Something that a table can hold.
pub trait Entry: Clone {
    /// True when somebody besides the table holds it.
    fn is_held_elsewhere(&self) -> bool;
}

impl<T> Entry for Arc<T> {
    fn is_held_elsewhere(&self) -> bool {
        Arc::strong_count(self) > 1
    }
}

impl<E> Default for Table<E> {
    fn default() -> Self {
        let part = |_| Part {
            entries: HashMap::default(),
            sweep_at: 64,
        };
        Self {
            hasher: RandomState::new(),
            parts: std::array::from_fn(part).map(Mutex::new),
        }
    }
}

impl<E: Entry> Table<E> {
    /// The entry for a key, made when there is none.
    pub(super) fn get<K, Q>(&self, key: K, make: impl FnOnce(K) -> E) -> E
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        E: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key.borrow());
        // The map below goes by the high and the lowest bits of the hash; the part goes by others.
        let part = self.parts.get((hash >> 32) as usize % PARTS);
        let Some(part) = part else { return make(key) };
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        match part.entries.get(&hash) {
            Some(entry) if entry.borrow() == key.borrow() => entry.clone(),
            // Another value has the same hash: so rare that this one is not kept in common.
            Some(_) => make(key),
            None => {
                part.sweep();
                let entry = make(key);
                part.entries.insert(hash, entry.clone());
                entry
            }
        }
    }

    /// Entries that are held now.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.parts.iter().map(|part| part.lock().unwrap().entries.len()).sum()
    }
}

impl<E: Entry> Part<E> {
    /// Drops what only the table holds, each time the part has doubled since.
    fn sweep(&mut self) {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, entry| entry.is_held_elsewhere());
            self.sweep_at = self.entries.len() * 2 + 64;
        }
    }
}

/// The keys of the map are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_the_same_value_twice_then_it_is_held_once() {
        let table: Table<Arc<String>> = Table::default();
        let one = table.get::<_, String>("a".to_owned(), Arc::new);
        let two = table.get::<_, String>("a".to_owned(), Arc::new);
        assert!(Arc::ptr_eq(&one, &two));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn given_values_that_nobody_holds_then_the_table_does_not_grow_for_ever() {
        let table: Table<Arc<String>> = Table::default();
        let kept = table.get::<_, String>("kept".to_owned(), Arc::new);
        for number in 0..100_000 {
            table.get::<_, String>(format!("text {number}"), Arc::new);
        }
        assert!(table.len() < 4_000, "{} are still held", table.len());
        assert!(Arc::ptr_eq(&kept, &table.get::<_, String>("kept".to_owned(), Arc::new)));
    }
}
