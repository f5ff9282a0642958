//! What differs in every object, in as little memory as it needs: points in time, UIDs, IDs of containers.

use std::fmt;
use std::num::NonZeroI64;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::text::Text;

/// A point in time, to the second, as Kubernetes keeps them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompactTimestamp(NonZeroI64);

/// Added to the seconds, so that no point in time is 0 and an `Option<CompactTimestamp>` takes no more than a `CompactTimestamp`.
const SHIFT: i64 = 1 << 61;

impl CompactTimestamp {
    /// As a timestamp.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::from_second(self.0.get() - SHIFT).unwrap_or_default()
    }
}

impl From<Timestamp> for CompactTimestamp {
    fn from(time: Timestamp) -> Self {
        // Never 0: jiff's range of time is far smaller than the shift.
        Self(NonZeroI64::new(time.as_second() + SHIFT).unwrap_or(NonZeroI64::MAX))
    }
}

impl From<CompactTimestamp> for Time {
    fn from(time: CompactTimestamp) -> Self {
        Self(time.timestamp())
    }
}

impl fmt::Debug for CompactTimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.timestamp(), f)
    }
}

impl<'de> Deserialize<'de> for CompactTimestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Parsed("a time such as 2024-03-01T10:00:00Z", |text| {
            text.parse::<Timestamp>().ok().map(Self::from)
        }))
    }
}

/// A UID: the 16 bytes of a UUID, or whatever else it is as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(UidForm);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum UidForm {
    Uuid([u8; 16]),
    Text(Box<str>),
}

impl Uid {
    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Uid {
    fn default() -> Self {
        Self(UidForm::Text(Box::default()))
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        let parts: Vec<&str> = text.split('-').collect();
        let is_uuid = parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]);
        let bytes = is_uuid.then(|| from_hex(&parts.concat())).flatten();
        Self(bytes.map_or_else(|| UidForm::Text(text.into()), UidForm::Uuid))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            UidForm::Text(text) => f.write_str(text),
            UidForm::Uuid(bytes) => {
                for (index, byte) in bytes.iter().enumerate() {
                    let dash = if [4, 6, 8, 10].contains(&index) { "-" } else { "" };
                    write!(f, "{dash}{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Parsed("a string", |text| Some(Self::from(text))))
    }
}

/// The ID of a container, `containerd://<64 digits>`: the runtime and 32 bytes, or whatever else it is as text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ContainerId(ContainerIdForm);

#[derive(Clone, PartialEq, Eq, Hash)]
enum ContainerIdForm {
    Hash(Text, [u8; 32]),
    Text(Box<str>),
}

impl ContainerId {
    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for ContainerId {
    fn default() -> Self {
        Self(ContainerIdForm::Text(Box::default()))
    }
}

impl From<&str> for ContainerId {
    fn from(text: &str) -> Self {
        let hash = text
            .split_once("://")
            .and_then(|(runtime, id)| Some((runtime, from_hex(id)?)));
        Self(match hash {
            Some((runtime, bytes)) => ContainerIdForm::Hash(runtime.into(), bytes),
            None => ContainerIdForm::Text(text.into()),
        })
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ContainerIdForm::Text(text) => f.write_str(text),
            ContainerIdForm::Hash(runtime, bytes) => {
                write!(f, "{runtime}://")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

impl fmt::Debug for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<'de> Deserialize<'de> for ContainerId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Parsed("a string", |text| Some(Self::from(text))))
    }
}

/// Bytes from lower-case hexadecimal digits; none when they are written in any other way, so that the text can be given back.
fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// Reads a text, and refuses what the function does not take.
struct Parsed<T>(&'static str, fn(&str) -> Option<T>);

impl<T> Visitor<'_> for Parsed<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.1)(text).ok_or_else(|| E::custom(format_args!("{text:?} is not {}", self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_read_to_the_second_and_takes_one_word() {
        let read = |text: &str| serde_json::from_value::<CompactTimestamp>(text.into());
        for text in ["2024-03-01T10:00:00Z", "1970-01-01T00:00:00Z", "1907-05-01T00:00:00Z"] {
            assert_eq!(format!("{:?}", read(text).unwrap()), text);
        }
        assert_eq!(
            read("2024-03-01T12:00:00.7+02:00").unwrap(),
            read("2024-03-01T10:00:00Z").unwrap()
        );
        assert!(read("1969-12-31T23:59:59Z").unwrap() < read("1970-01-01T00:00:00Z").unwrap());
        assert_eq!(
            Time::from(read("2024-03-01T10:00:00Z").unwrap()).0.as_second(),
            1_709_287_200
        );
        assert!(read("yesterday").unwrap_err().to_string().contains("is not a time"));
        assert_eq!(size_of::<Option<CompactTimestamp>>(), 8);
    }

    #[test]
    fn ids_are_given_back_as_they_came() {
        let uids = [
            "",
            "5f0c3c0e-7b7c-4b58-8a62-6a4a6d6fb0b1",
            "5F0C3C0E-7b7c-4b58-8a62-6a4a6d6fb0b1",
            "5f0c-",
            "x",
            "ä-b-c-d-e",
        ];
        for text in uids {
            assert_eq!(Uid::from(text).to_string(), text);
        }
        let hash = "0123456789abcdef".repeat(4);
        let ids = [
            String::new(),
            format!("containerd://{hash}"),
            format!("cri-o://{hash}0"),
            format!("docker://{}", hash.to_uppercase()),
            hash,
        ];
        for text in ids {
            assert_eq!(ContainerId::from(&*text).to_string(), text);
        }
        assert!(Uid::from("").is_empty() && !Uid::from("x").is_empty() && ContainerId::from("").is_empty());
        assert!(size_of::<Uid>() <= 24 && size_of::<ContainerId>() <= 48);
    }
}
