//! Maps of a few texts, such as labels: a sorted list takes less memory than a tree and is found through as fast.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::text::Text;

/// Values by key, sorted by key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pairs<V>(Box<[(Text, V)]>);

/// Labels: keys and values are the same on many objects.
pub type Labels = Pairs<Text>;
/// Annotations: keys are the same on many objects, values are not.
pub type Annotations = Pairs<Box<str>>;

/// The whole object once more, as kubectl left it: large, and nothing we decide on.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl<V> Pairs<V> {
    /// Returns all pairs, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V> Pairs<V> {
    /// Without what nobody asks for.
    #[must_use]
    pub(crate) fn only(self, mut wanted: impl FnMut(&str) -> bool) -> Self {
        if self.0.iter().all(|(key, _)| wanted(key)) {
            return self;
        }
        Self(self.0.into_iter().filter(|(key, _)| wanted(key)).collect())
    }
}

impl<V: std::ops::Deref<Target = str>> Pairs<V> {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        self.0.get(found).map(|(_, value)| &**value)
    }
}

impl<V> Default for Pairs<V> {
    fn default() -> Self {
        Self(Box::default())
    }
}

impl<V: fmt::Debug> fmt::Debug for Pairs<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Of several values for one key the last counts.
impl<V> FromIterator<(Text, V)> for Pairs<V> {
    fn from_iter<I: IntoIterator<Item = (Text, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        if !pairs.is_sorted_by(|one, next| one.0 < next.0) {
            pairs.reverse();
            pairs.sort_by(|one, other| one.0.cmp(&other.0));
            pairs.dedup_by(|later, earlier| later.0 == earlier.0);
        }
        Self(pairs.into_boxed_slice())
    }
}

impl<'de, V: Deserialize<'de> + Default> Deserialize<'de> for Pairs<V> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Map<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de> + Default> Visitor<'de> for Map<V> {
            type Value = Pairs<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<V>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(key) = map.next_key::<Text>()? {
                    if key == LAST_APPLIED {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        pairs.push((key, map.next_value::<Option<V>>()?.unwrap_or_default()));
                    }
                }
                Ok(pairs.into_iter().collect())
            }
        }

        from.deserialize_map(Map(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_keys_in_any_order_then_each_is_found_and_the_last_of_two_counts() {
        let labels: Labels = serde_json::from_str(r#"{"b":"1","a":"2","c":null,"b":"3"}"#).unwrap();
        assert_eq!(
            labels.iter().map(|(key, value)| (key, &**value)).collect::<Vec<_>>(),
            [("a", "2"), ("b", "3"), ("c", "")]
        );
        assert_eq!(
            (labels.get("b"), labels.get("c"), labels.get("d")),
            (Some("3"), Some(""), None)
        );
    }

    #[test]
    fn given_what_kubectl_keeps_for_itself_then_it_is_left_out() {
        let json = r#"{"kubectl.kubernetes.io/last-applied-configuration":"{}","x":"y"}"#;
        let annotations: Annotations = serde_json::from_str(json).unwrap();
        assert_eq!(annotations.iter().count(), 1);
        assert_eq!(annotations.get("x"), Some("y"));
    }
}
