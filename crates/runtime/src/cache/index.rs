//! Finding objects by something else than their name.

use std::collections::HashMap;
use std::fmt;

/// A way to find objects: a name, and the keys under which an object is found.
///
/// The function must depend on nothing but the object, and may give any number of keys. Write indexes as constants beside the
/// kind: the same constant declares the index and asks it.
pub struct Index<K> {
    name: &'static str,
    keys: Keys<K>,
}

/// Calls the second argument with each key of the first.
pub type Keys<K> = fn(&K, &mut dyn FnMut(&str));

impl<K> Index<K> {
    /// An index. Its name has to be unique within its kind.
    pub const fn new(name: &'static str, keys: Keys<K>) -> Self {
        Self { name, keys }
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether the object is found under this key.
    pub fn matches(&self, object: &K, key: &str) -> bool {
        let mut found = false;
        (self.keys)(object, &mut |each| found |= each == key);
        found
    }

    pub(super) fn each_key(&self, object: &K, mut visit: impl FnMut(&str)) {
        (self.keys)(object, &mut visit);
    }
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<K> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({})", self.name)
    }
}

/// The places of objects under each key, sorted: a number is four bytes, and most sets are small.
#[derive(Default)]
pub(super) struct Postings {
    places: HashMap<Box<str>, Vec<u32>>,
}

impl Postings {
    pub(super) fn insert(&mut self, key: &str, place: u32) {
        let Some(places) = self.places.get_mut(key) else {
            self.places.insert(key.into(), vec![place]);
            return;
        };
        if let Err(position) = places.binary_search(&place) {
            places.insert(position, place);
        }
    }

    pub(super) fn remove(&mut self, key: &str, place: u32) {
        let Some(places) = self.places.get_mut(key) else {
            return;
        };
        if let Ok(position) = places.binary_search(&place) {
            places.remove(position);
        }
        if places.is_empty() {
            self.places.remove(key);
        } else if places.capacity() > 64 && places.len() < places.capacity() / 4 {
            places.shrink_to(places.len() * 2);
        }
    }

    pub(super) fn get(&self, key: &str) -> &[u32] {
        self.places.get(key).map_or(&[], Vec::as_slice)
    }

    #[cfg(test)]
    pub(super) fn sorted(&self) -> std::collections::BTreeMap<&str, Vec<u32>> {
        self.places
            .iter()
            .map(|(key, places)| (&**key, places.clone()))
            .collect()
    }
}
