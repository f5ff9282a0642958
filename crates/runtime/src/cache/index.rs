//! Finding objects by something else than their name.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::io::Write as _;

use kruise_api::meta::Uid;

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

    /// Returns the name.
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

/// Gives a UID as a key, without memory of its own.
pub fn uid_key(uid: &Uid, key: &mut dyn FnMut(&str)) {
    let mut room = [0; 36];
    let mut left = room.as_mut_slice();
    if write!(left, "{uid}").is_err() {
        // Not a UUID, and longer than one.
        key(&uid.to_string());
        return;
    }
    let used = 36 - left.len();
    if let Ok(text) = std::str::from_utf8(&room[..used]) {
        key(text);
    }
}

/// The slots of the objects under each key, in the order of the objects' names: a number is four bytes, and most sets are small.
///
/// Names are with the objects: whoever comes and goes brings how the object in another slot compares with it.
#[derive(Default)]
pub(super) struct Postings {
    slots: HashMap<Box<str>, Vec<u32>>,
}

impl Postings {
    pub(super) fn insert(&mut self, key: &str, slot: u32, compare: impl Fn(u32) -> Ordering) {
        let Some(slots) = self.slots.get_mut(key) else {
            self.slots.insert(key.into(), vec![slot]);
            return;
        };
        if let Err(position) = slots.binary_search_by(|other| compare(*other)) {
            slots.insert(position, slot);
        }
    }

    pub(super) fn remove(&mut self, key: &str, compare: impl Fn(u32) -> Ordering) {
        let Some(slots) = self.slots.get_mut(key) else {
            return;
        };
        if let Ok(position) = slots.binary_search_by(|other| compare(*other)) {
            slots.remove(position);
        }
        if slots.is_empty() {
            self.slots.remove(key);
        } else if slots.capacity() > 64 && slots.len() < slots.capacity() / 4 {
            slots.shrink_to(slots.len() * 2);
        }
    }

    pub(super) fn get(&self, key: &str) -> &[u32] {
        self.slots.get(key).map_or(&[], Vec::as_slice)
    }

    #[cfg(test)]
    pub(super) fn sorted(&self) -> std::collections::BTreeMap<&str, Vec<u32>> {
        self.slots.iter().map(|(key, slots)| (&**key, slots.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_any_uid_then_its_key_is_its_text() {
        let long = "x".repeat(100);
        for text in ["", "x", "0b1d0f4e-8a27-4d4c-a6d2-0c5b1b3f5d11", "not-a-uuid", &long] {
            let mut keys = Vec::new();
            uid_key(&Uid::from(text), &mut |key| keys.push(key.to_owned()));
            assert_eq!(keys, [text]);
        }
    }
}
