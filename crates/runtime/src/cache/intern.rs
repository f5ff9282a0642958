//! Text that many objects share: namespaces, label keys, image names, node names.
//!
//! [`Shared`] looks like a string and takes one pointer's worth of memory per use beyond the first. Reading JSON into it looks
//! the text up in one table for the process; a text that nobody holds any more leaves the table by and by.
//! Do not use it for text that is different in every object: the table would only cost.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

/// Shared, immutable text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shared(Arc<str>);

impl Shared {
    /// The one copy of this text.
    pub fn new(text: &str) -> Self {
        Self(TABLE.get(text))
    }
}

impl Deref for Shared {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self::new("")
    }
}

impl From<&str> for Shared {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for Shared {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for Shared {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Shared {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Text)
    }
}

struct Text;

impl Visitor<'_> for Text {
    type Value = Shared;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Shared, E> {
        Ok(Shared::new(text))
    }
}

static TABLE: LazyLock<Table> = LazyLock::new(Table::default);

/// Several parts, so that kinds which are read at the same time rarely wait for each other.
const PARTS: usize = 16;

#[derive(Default)]
struct Table {
    hasher: RandomState,
    parts: [Mutex<Part>; PARTS],
}

#[derive(Default)]
struct Part {
    texts: HashSet<Arc<str>>,
    sweep_at: usize,
}

impl Table {
    fn get(&self, text: &str) -> Arc<str> {
        let part = self.hasher.hash_one(text) as usize % PARTS;
        let mut part = self.parts[part].lock();
        if let Some(known) = part.texts.get(text) {
            return known.clone();
        }
        part.sweep();
        let new: Arc<str> = text.into();
        part.texts.insert(new.clone());
        new
    }
}

impl Part {
    /// Drops what only the table holds, each time the table has doubled since.
    fn sweep(&mut self) {
        if self.texts.len() < self.sweep_at.max(64) {
            return;
        }
        self.texts.retain(|text| Arc::strong_count(text) > 1);
        self.sweep_at = self.texts.len() * 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_the_same_text_twice_then_it_is_held_once() {
        let (one, two) = (
            Shared::new("app.kubernetes.io/name"),
            Shared::new("app.kubernetes.io/name"),
        );
        assert!(Arc::ptr_eq(&one.0, &two.0));
        let read: Shared = serde_json::from_str("\"app.kubernetes.io/name\"").expect("text");
        assert!(Arc::ptr_eq(&one.0, &read.0));
        assert_eq!(
            serde_json::to_string(&read).expect("json"),
            "\"app.kubernetes.io/name\""
        );
    }

    #[test]
    fn given_text_that_nobody_holds_then_the_table_does_not_grow_for_ever() {
        let table = Table::default();
        let kept = table.get("kept");
        for number in 0..100_000 {
            table.get(&format!("text {number}"));
        }
        let held: usize = table.parts.iter().map(|part| part.lock().texts.len()).sum();
        assert!(held < 2_000, "{held} texts are still held");
        assert!(Arc::ptr_eq(&kept, &table.get("kept")));
    }

    #[test]
    fn given_something_else_than_text_then_it_is_refused() {
        assert!(serde_json::from_str::<Shared>("7").is_err());
    }
}
