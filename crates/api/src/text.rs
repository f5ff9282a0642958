//! What many objects in a cache have in common is kept once: label keys, namespaces, images, and whole Pod specs.
//!
//! [`Text`] looks like a string and takes one pointer; reading JSON into it looks the text up in a table of the process.
//! [`Common`] does the same for a structure. What nobody holds any more leaves the table by and by.
//! Do not use either for what differs in every object: the table would only cost.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Immutable text that is kept once. The empty text takes no lookup.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Option<Held>);

/// A text in the table. `Arc<Box<str>>` and not `Arc<str>`: one word instead of two per use.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Held(Arc<Box<str>>);

static TEXTS: LazyLock<Table<Held>> = LazyLock::new(Table::default);

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.0.as_ref().map_or("", |held| &held.0)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self((!text.is_empty()).then(|| TEXTS.get::<_, str>(text, |text| Held(Arc::new(text.into())))))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Lookup;

        impl Visitor<'_> for Lookup {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text::from(text))
            }
        }

        from.deserialize_str(Lookup)
    }
}

impl Borrow<str> for Held {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// As `str` does, because the table looks a text up by `str`.
impl Hash for Held {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self.0).hash(state);
    }
}

impl Entry for Held {
    fn is_held_elsewhere(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

/// A structure that is kept once for all objects that have the same.
pub struct Common<T>(Arc<T>);

/// A structure for which there is a table.
pub trait Shareable: Hash + Eq + Default + Sized + 'static {
    /// The table of this structure.
    fn table() -> &'static Table<Arc<Self>>;
}

impl<T: Shareable> From<T> for Common<T> {
    fn from(value: T) -> Self {
        Self(T::table().get::<_, T>(value, Arc::new))
    }
}

impl<T: Shareable> Default for Common<T> {
    fn default() -> Self {
        T::default().into()
    }
}

impl<T> Clone for Common<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Common<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: PartialEq> PartialEq for Common<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl<T: Eq> Eq for Common<T> {}

impl<T: fmt::Debug> fmt::Debug for Common<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Eq + Hash> Entry for Arc<T> {
    fn is_held_elsewhere(&self) -> bool {
        Arc::strong_count(self) > 1
    }
}

/// What is kept once. In several parts, so that kinds which are read at the same time rarely wait for each other.
#[derive(Debug)]
pub struct Table<E> {
    hasher: RandomState,
    parts: [Mutex<Part<E>>; 16],
}

#[derive(Debug)]
struct Part<E> {
    entries: HashSet<E>,
    sweep_at: usize,
}

/// Something that a table can hold.
pub trait Entry: Clone + Eq + Hash {
    /// True when somebody besides the table holds it.
    fn is_held_elsewhere(&self) -> bool;
}

impl<E> Default for Table<E> {
    fn default() -> Self {
        let part = || {
            Mutex::new(Part {
                entries: HashSet::new(),
                sweep_at: 64,
            })
        };
        Self {
            hasher: RandomState::new(),
            parts: std::array::from_fn(|_| part()),
        }
    }
}

impl<E: Entry> Table<E> {
    /// The entry for a key, made when there is none.
    fn get<K: Borrow<Q>, Q: Hash + Eq + ?Sized>(&self, key: K, make: impl FnOnce(K) -> E) -> E
    where
        E: Borrow<Q>,
    {
        let part = self.hasher.hash_one(key.borrow()) as usize % self.parts.len();
        let Some(part) = self.parts.get(part) else {
            return make(key);
        };
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = part.entries.get(key.borrow()) {
            return entry.clone();
        }
        part.sweep();
        let entry = make(key);
        part.entries.insert(entry.clone());
        entry
    }
}

impl<E: Entry> Part<E> {
    /// Drops what only the table holds, each time the part has doubled since.
    fn sweep(&mut self) {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(E::is_held_elsewhere);
            self.sweep_at = self.entries.len() * 2 + 64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_the_same_text_twice_then_it_is_held_once() {
        let one = Text::from("app.kubernetes.io/name");
        let two: Text = serde_json::from_str(r#""app.kubernetes.io/name""#).unwrap();
        assert!(Arc::ptr_eq(&one.0.as_ref().unwrap().0, &two.0.as_ref().unwrap().0));
        assert_eq!(
            (&*one, size_of::<Text>()),
            ("app.kubernetes.io/name", size_of::<usize>())
        );
        assert_eq!(Text::from(""), Text::default());
        serde_json::from_str::<Text>("7").unwrap_err();
    }

    #[test]
    fn text_is_ordered_as_strings_are() {
        let mut texts = ["b", "", "a/b", "a"].map(Text::from);
        texts.sort();
        assert_eq!(texts.map(|text| text.to_string()), ["", "a", "a/b", "b"]);
    }

    #[test]
    fn given_text_that_nobody_holds_then_the_table_does_not_grow_for_ever() {
        let table: Table<Held> = Table::default();
        let make = |text: &str| Held(Arc::new(text.into()));
        let kept = table.get::<_, str>("kept", make);
        for number in 0..100_000 {
            table.get::<_, str>(&*format!("text {number}"), make);
        }
        let held: usize = table.parts.iter().map(|part| part.lock().unwrap().entries.len()).sum();
        assert!(held < 4_000, "{held} texts are still held");
        assert!(Arc::ptr_eq(&kept.0, &table.get::<_, str>("kept", make).0));
    }
}
