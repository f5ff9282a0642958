//! Content that is compared and never kept: of the data of Secrets and ConfigMaps controllers know only whether two are the same.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};

/// Returns a number that is the same for the same texts under the same keys, in any order and within one process; 0 when there are none.
pub fn digest<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> u64 {
    let mut digest = 0_u64;
    for (key, text) in pairs {
        digest = digest.wrapping_add(pair(&hasher(key), text));
    }
    digest
}

fn hasher(key: &str) -> DefaultHasher {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher
}

fn pair(key: &DefaultHasher, text: &str) -> u64 {
    let mut hasher = key.clone();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Reads a map of texts as its digest. No text is copied: they may be large.
pub(crate) fn read_digest<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    from.deserialize_option(Pairs)
}

struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of texts")
    }

    fn visit_none<E: Error>(self) -> Result<u64, E> {
        Ok(0)
    }

    fn visit_unit<E: Error>(self) -> Result<u64, E> {
        Ok(0)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<u64, D::Error> {
        from.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u64, A::Error> {
        let mut digest = 0_u64;
        while let Some(key) = map.next_key_seed(Key)? {
            digest = digest.wrapping_add(map.next_value_seed(Text(key))?);
        }
        Ok(digest)
    }
}

struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = DefaultHasher;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<DefaultHasher, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = DefaultHasher;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<DefaultHasher, E> {
        Ok(hasher(text))
    }
}

/// The text of a key; `null` is an empty one.
struct Text(DefaultHasher);

impl<'de> DeserializeSeed<'de> for Text {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<u64, D::Error> {
        from.deserialize_any(self)
    }
}

impl Visitor<'_> for Text {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        Ok(pair(&self.0, text))
    }

    fn visit_unit<E: Error>(self) -> Result<u64, E> {
        Ok(pair(&self.0, ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Deserialize)]
    struct Map(#[serde(deserialize_with = "read_digest")] u64);

    #[test]
    fn given_maps_then_their_digests_are_the_same_when_they_say_the_same() {
        let read = |json: &str| serde_json::from_str::<Map>(json).map(|map| map.0);
        let one = read(r#"{"a":"1","b":"\n"}"#).unwrap();
        assert_eq!(one, read(r#"{"b":"\u000a","a":"1"}"#).unwrap());
        assert_eq!(one, digest([("a", "1"), ("b", "\n")]));
        assert_eq!(read(r#"{"a":null}"#).unwrap(), digest([("a", "")]));
        for other in [r#"{"a":"\n","b":"1"}"#, r#"{"a1":"","b":"\n"}"#, r#"{"a":"1"}"#] {
            assert_ne!(one, read(other).unwrap(), "{other}");
        }
        assert_eq!((read("null").unwrap(), read("{}").unwrap(), digest([])), (0, 0, 0));
        assert!(read(r#"{"a":1}"#).is_err() && read("[]").is_err());
        assert_eq!(
            serde_json::from_value::<Map>(json!({"a": "1", "b": "\n"})).unwrap().0,
            one
        );
    }
}
