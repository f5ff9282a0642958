//! Counts that may be given as a share of a total: `3` or `"20%"`.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Blank;

/// A count, or a percentage of a total. Text is kept as it was written and judged only when a number is asked for.
#[derive(Clone, PartialEq, Eq)]
pub enum IntOrPercent {
    /// A count.
    Int(i32),
    /// A text that should be a percentage.
    Text(Box<str>),
}

/// Why a text is not a percentage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a percentage: {reason}")]
pub struct NotAPercentage {
    /// The text as it was written.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl IntOrPercent {
    /// The count; a percentage of `total` is rounded down.
    pub fn floor_of(&self, total: i32) -> Result<i32, NotAPercentage> {
        self.of(total, |hundredths| hundredths.div_euclid(100))
    }

    /// The count; a percentage of `total` is rounded up.
    pub fn ceil_of(&self, total: i32) -> Result<i32, NotAPercentage> {
        self.of(total, |hundredths| -(-hundredths).div_euclid(100))
    }

    /// The percentage, when it is one; none for a plain count.
    pub fn percent(&self) -> Result<Option<i32>, NotAPercentage> {
        match self {
            Self::Int(_) => Ok(None),
            Self::Text(text) => parse(text).map(Some),
        }
    }

    fn of(&self, total: i32, round: impl Fn(i64) -> i64) -> Result<i32, NotAPercentage> {
        match self {
            Self::Int(count) => Ok(*count),
            Self::Text(text) => {
                let share = round(i64::from(parse(text)?) * i64::from(total));
                Ok(share.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32)
            }
        }
    }
}

fn parse(text: &str) -> Result<i32, NotAPercentage> {
    let wrong = |reason| NotAPercentage {
        text: text.to_owned(),
        reason,
    };
    let number = text.strip_suffix('%').ok_or_else(|| wrong("it does not end with %"))?;
    number
        .parse()
        .map_err(|_| wrong("there is no whole number before the %"))
}

impl From<i32> for IntOrPercent {
    fn from(count: i32) -> Self {
        Self::Int(count)
    }
}

impl From<&str> for IntOrPercent {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl Default for IntOrPercent {
    fn default() -> Self {
        Self::Int(0)
    }
}

impl fmt::Display for IntOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(count) => count.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl fmt::Debug for IntOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(count) => count.fmt(f),
            Self::Text(text) => fmt::Debug::fmt(text, f),
        }
    }
}

impl Blank for IntOrPercent {
    fn is_blank(&self) -> bool {
        *self == Self::default()
    }
}

impl Serialize for IntOrPercent {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(count) => to.serialize_i32(*count),
            Self::Text(text) => to.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for IntOrPercent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = IntOrPercent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer or a percentage")
            }

            fn visit_i64<E: Error>(self, count: i64) -> Result<IntOrPercent, E> {
                let count = i32::try_from(count).map_err(|_| E::custom(format_args!("{count} is out of range")))?;
                Ok(IntOrPercent::Int(count))
            }

            fn visit_u64<E: Error>(self, count: u64) -> Result<IntOrPercent, E> {
                let count = i32::try_from(count).map_err(|_| E::custom(format_args!("{count} is out of range")))?;
                Ok(IntOrPercent::Int(count))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<IntOrPercent, E> {
                Ok(IntOrPercent::Text(text.into()))
            }
        }

        from.deserialize_any(Either)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for IntOrPercent {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "IntOrPercent".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        crate::schema::int_or_string()
    }
}
