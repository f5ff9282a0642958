//! A map that forgets what was not used for longest.

use std::collections::HashMap;
use std::hash::Hash;

#[derive(Debug)]
pub(super) struct Recent<K, V> {
    most: usize,
    uses: u64,
    entries: HashMap<K, (u64, V)>,
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            uses: 0,
            entries: HashMap::new(),
        }
    }

    pub(super) fn get(&mut self, key: &K) -> Option<&mut V> {
        self.uses += 1;
        let (used, value) = self.entries.get_mut(key)?;
        *used = self.uses;
        Some(value)
    }

    pub(super) fn get_or(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        if self.entries.len() >= self.most && !self.entries.contains_key(&key) {
            self.make_room();
        }
        let uses = self.uses;
        let entry = self.entries.entry(key).or_insert_with(|| (uses, new()));
        entry.0 = uses;
        &mut entry.1
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        let mut value = Some(value);
        let place = self.get_or(key, || value.take().expect("taken once"));
        if let Some(value) = value {
            *place = value;
        }
    }

    /// Drops the oldest eighth at once, so that looking for it is rare.
    fn make_room(&mut self) {
        let mut used: Vec<_> = self.entries.values().map(|(used, _)| *used).collect();
        let Some(last) = used.len().checked_sub(1) else {
            return;
        };
        let (_, bound, _) = used.select_nth_unstable(last / 8);
        let bound = *bound;
        self.entries.retain(|_, (used, _)| *used > bound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_more_than_fits_then_what_was_used_last_stays() {
        let mut recent = Recent::new(100);
        recent.insert("kept".to_owned(), 0);
        for number in 0..10_000 {
            recent.insert(number.to_string(), number);
            assert!(recent.entries.len() <= 100);
            assert_eq!(recent.get(&"kept".to_owned()), Some(&mut 0));
        }
        assert_eq!(recent.get(&"9999".to_owned()), Some(&mut 9999));
        assert_eq!(recent.get(&"1".to_owned()), None);
        recent.insert("9999".to_owned(), 1);
        assert_eq!(recent.get(&"9999".to_owned()), Some(&mut 1));
    }

    #[test]
    fn given_room_for_one_then_the_last_one_is_there() {
        let mut recent = Recent::new(1);
        for number in 0..5 {
            recent.insert(number, number);
            assert_eq!(recent.get(&number), Some(&mut { number }));
        }
    }
}
