//! What many objects in a cache have in common is kept once: label keys, namespaces, images, and whole Pod specs.
//!
//! [`Text`] looks like a string and takes one pointer; reading JSON into it looks the text up in a table of the process.
//! [`Common`] does the same for a structure. What nobody holds any more leaves the table by and by.
//! Do not use either for what differs in every object: the table would only cost.

mod table;

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use serde::de::{Deserialize, Deserializer, Error, Visitor};

pub use table::{Entry, Table};

/// Immutable text that is kept once. The empty text takes no lookup.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Option<Held>);

/// A text in the table. `Arc<Box<str>>` and not `Arc<str>`: one word instead of two per use.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

impl<T> Common<T> {
    /// True when both are the same in memory: a quick look before a comparison.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
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
        self.is_same(other) || self.0 == other.0
    }
}

impl<T: Eq> Eq for Common<T> {}

impl<T: fmt::Debug> fmt::Debug for Common<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
}
