//! How the API's types are read and written.
//!
//! Every struct of the API is declared with [`api!`], every set of words with [`words!`], every number-or-text with
//! [`int_or_text!`], so that the rules below hold without an attribute on each field:
//!
//! - Names are camelCase on the wire.
//! - A field that is missing or `null` reads as its empty value; a field nobody knows is passed over.
//! - An empty field (no value, empty list, map or string, `false`, `0`) is not written, unless it is marked `always` (users
//!   look for the zero) or `required` (the API server refuses the object without it).
//! - Where an object belongs, only an object is taken.
//! - A word that this release does not know is kept and written back as it came.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// Is there nothing to write? Fields that are blank and not `required` are left out.
pub trait Blank {
    /// True when the value is the one a missing field reads as.
    fn is_blank(&self) -> bool;
}

impl<T> Blank for Option<T> {
    fn is_blank(&self) -> bool {
        self.is_none()
    }
}

impl<T> Blank for Vec<T> {
    fn is_blank(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V> Blank for BTreeMap<K, V> {
    fn is_blank(&self) -> bool {
        self.is_empty()
    }
}

impl Blank for String {
    fn is_blank(&self) -> bool {
        self.is_empty()
    }
}

impl Blank for bool {
    fn is_blank(&self) -> bool {
        !*self
    }
}

impl Blank for i32 {
    fn is_blank(&self) -> bool {
        *self == 0
    }
}

impl Blank for i64 {
    fn is_blank(&self) -> bool {
        *self == 0
    }
}

/// Reads `null` as the empty value of any type.
pub(crate) fn or_empty<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Reads a struct from an object only. Left to itself, serde also takes a list of its fields, so that `spec: []` would be an
/// empty spec.
pub(crate) struct FromObject<D>(pub D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for FromObject<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// The reading and writing of a struct that derives both for `remote = "Self"`: as derived, but [from an object only](FromObject).
macro_rules! only_from_objects {
    ($name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, to)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Self::deserialize($crate::wire::FromObject(from))
            }
        }
    };
}

/// Declares structs of the API; all fields are public. The rules are those of the module.
///
/// ```text
/// api! {
///     /// What the object is, in a user's words: becomes its description in the CRD.
///     pub struct ScaleStrategy {
///         /// One line per field; it becomes the description.
///         max_unavailable: Option<IntOrPercent>,
///         /// Written even when empty, and listed as required in the CRD.
///         required replicas: i32,
///         /// Written even when empty, but not required.
///         always active: i32,
///         /// First `schema` (arguments of schemars), then `serde`, both optional, in this order.
///         #[schema(extend("x-default" = false))]
///         #[serde(rename = "enablePVCReuse")]
///         enable_pvc_reuse: Option<bool>,
///     }
/// }
/// ```
macro_rules! api {
    () => {};
    // All fields are done: the struct itself.
    (@fields [$($head:tt)*] $name:ident { $($done:tt)* }) => {
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(!remote))]
        #[serde(rename_all = "camelCase", remote = "Self", expecting = "an object")]
        $($head)*
        pub struct $name { $($done)* }

        only_from_objects!($name);

        impl $crate::Blank for $name {
            fn is_blank(&self) -> bool {
                *self == Self::default()
            }
        }
    };
    (@fields [$($head:tt)*] $name:ident { $($done:tt)* }
        $(#[doc = $doc:literal])* $(#[schema($($schema:tt)*)])? $(#[serde($($serde:tt)*)])?
        required $field:ident : $type:ty, $($rest:tt)*
    ) => {
        api!(@fields [$($head)*] $name {
            $($done)*
            $(#[doc = $doc])*
            #[serde(default, deserialize_with = "crate::wire::or_empty")]
            #[cfg_attr(feature = "schema", schemars(extend("x-required" = true)))]
            $(#[cfg_attr(feature = "schema", schemars($($schema)*))])?
            $(#[serde($($serde)*)])?
            pub $field: $type,
        } $($rest)*);
    };
    (@fields [$($head:tt)*] $name:ident { $($done:tt)* }
        $(#[doc = $doc:literal])* $(#[schema($($schema:tt)*)])? $(#[serde($($serde:tt)*)])?
        always $field:ident : $type:ty, $($rest:tt)*
    ) => {
        api!(@fields [$($head)*] $name {
            $($done)*
            $(#[doc = $doc])*
            #[serde(default, deserialize_with = "crate::wire::or_empty")]
            $(#[cfg_attr(feature = "schema", schemars($($schema)*))])?
            $(#[serde($($serde)*)])?
            pub $field: $type,
        } $($rest)*);
    };
    (@fields [$($head:tt)*] $name:ident { $($done:tt)* }
        $(#[doc = $doc:literal])* $(#[schema($($schema:tt)*)])? $(#[serde($($serde:tt)*)])?
        $field:ident : $type:ty, $($rest:tt)*
    ) => {
        api!(@fields [$($head)*] $name {
            $($done)*
            $(#[doc = $doc])*
            #[serde(default, deserialize_with = "crate::wire::or_empty", skip_serializing_if = "crate::Blank::is_blank")]
            $(#[cfg_attr(feature = "schema", schemars($($schema)*))])?
            $(#[serde($($serde)*)])?
            pub $field: $type,
        } $($rest)*);
    };
    ($(#[doc = $doc:literal])* $(#[schema($($schema:tt)*)])? pub struct $name:ident { $($body:tt)* } $($rest:tt)*) => {
        api!(@fields [$(#[doc = $doc])* $(#[cfg_attr(feature = "schema", schemars($($schema)*))])?] $name {} $($body)*);
        api!($($rest)*);
    };
}

/// Declares a set of words: an enum whose unknown values are kept.
///
/// Besides the given words there are `Unset` (missing, `null` or `""`) and `Other`, which holds what a newer release wrote.
/// The wire form is the variant's name unless another is given: `Delete = "DELETE"`.
macro_rules! words {
    ($(
        $(#[doc = $doc:literal])*
        pub enum $name:ident { $( $(#[doc = $word_doc:literal])* $word:ident $(= $text:literal)? ),+ $(,)? }
    )+) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            /// Nothing was said.
            #[default]
            Unset,
            $( $(#[doc = $word_doc])* $word, )+
            /// A word this release does not know.
            Other(Box<str>),
        }

        impl $name {
            /// Returns the word as it is written on the wire; empty when unset.
            pub fn as_str(&self) -> &str {
                match self {
                    Self::Unset => "",
                    $( Self::$word => words!(@text $word $($text)?), )+
                    Self::Other(word) => word,
                }
            }

            /// True when nothing was said.
            pub fn is_unset(&self) -> bool {
                *self == Self::Unset
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    "" => Self::Unset,
                    $( words!(@text $word $($text)?) => Self::$word, )+
                    other => Self::Other(other.into()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::Blank for $name {
            fn is_blank(&self) -> bool {
                self.is_unset()
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::wire::word(from)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string" })
            }
        }
    )+};
    (@text $word:ident) => { stringify!($word) };
    (@text $word:ident $text:literal) => { $text };
}

/// Reads a word without allocating when it is known.
pub(crate) fn word<'de, D: Deserializer<'de>, T: for<'a> From<&'a str>>(from: D) -> Result<T, D::Error> {
    struct Word<T>(PhantomData<T>);

    impl<T: for<'a> From<&'a str>> Visitor<'_> for Word<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: Error>(self, word: &str) -> Result<T, E> {
            Ok(T::from(word))
        }
    }

    from.deserialize_str(Word(PhantomData))
}

/// Declares a field's type that takes an integer or a text. The text is kept as it was written; the type's own methods judge it.
macro_rules! int_or_text {
    ($(#[doc = $doc:literal])* pub enum $name:ident, expecting $expecting:literal) => {
        $(#[doc = $doc])*
        #[derive(Clone, PartialEq, Eq)]
        pub enum $name {
            /// A number.
            Int(i32),
            /// A text.
            Text(Box<str>),
        }

        impl From<i32> for $name {
            fn from(number: i32) -> Self {
                Self::Int(number)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::Text(text.into())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    Self::Int(number) => std::fmt::Display::fmt(number, f),
                    Self::Text(text) => std::fmt::Display::fmt(text, f),
                }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    Self::Int(number) => std::fmt::Debug::fmt(number, f),
                    Self::Text(text) => std::fmt::Debug::fmt(text, f),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self {
                    Self::Int(number) => to.serialize_i32(*number),
                    Self::Text(text) => to.serialize_str(text),
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::wire::int_or_text(from, $expecting, Self::Int, Self::Text)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::schema::int_or_string()
            }
        }
    };
}

/// Reads an integer or a text.
pub(crate) fn int_or_text<'de, D: Deserializer<'de>, T>(
    from: D,
    expecting: &'static str,
    int: fn(i32) -> T,
    text: fn(Box<str>) -> T,
) -> Result<T, D::Error> {
    struct Either<T>(&'static str, fn(i32) -> T, fn(Box<str>) -> T);

    impl<T> Visitor<'_> for Either<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
            i32::try_from(number)
                .map(self.1)
                .map_err(|_| E::custom(format_args!("{number} is out of range")))
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
            i32::try_from(number)
                .map(self.1)
                .map_err(|_| E::custom(format_args!("{number} is out of range")))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            Ok((self.2)(text.into()))
        }
    }

    from.deserialize_any(Either(expecting, int, text))
}
