//! Reading objects from JSON.
//!
//! What cannot be read is answered with the path of the field and a reason:
//! `spec.updateStrategy.partition: invalid type: map, expected an integer or a percentage`.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a document cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct ReadError {
    /// The field, `spec.containers[0].name`; `.` for the document as a whole.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Reads a document.
///
/// The path of a failure is looked for only after a failure: good documents are read at full speed.
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> Result<T, ReadError> {
    serde_json::from_slice(json).map_err(|first| {
        let mut reader = serde_json::Deserializer::from_slice(json);
        match serde_path_to_error::deserialize::<_, T>(&mut reader) {
            Err(error) => ReadError::at(error.path().to_string(), error.inner()),
            // Read well, and yet an error: something follows the document.
            Ok(_) => ReadError::at(".".to_owned(), &first),
        }
    })
}

/// Reads a value that has been parsed already.
pub fn from_value<T: DeserializeOwned>(json: &serde_json::Value) -> Result<T, ReadError> {
    T::deserialize(json).map_err(|first| match serde_path_to_error::deserialize::<_, T>(json) {
        Err(error) => ReadError::at(error.path().to_string(), error.inner()),
        Ok(_) => ReadError::at(".".to_owned(), &first),
    })
}

/// Writes a value as JSON. Only a type with keys that are not text can fail here; the API has none.
pub(crate) fn to_value<T: Serialize>(value: &T) -> Result<serde_json::Value, ReadError> {
    serde_json::to_value(value).map_err(|error| ReadError::at(".".to_owned(), &error))
}

/// Reads an object and drops it.
pub(crate) fn check<T: DeserializeOwned>(json: &[u8]) -> Result<(), ReadError> {
    from_slice::<T>(json).map(drop)
}

/// Reads an object and writes back what was understood of it.
pub(crate) fn rewrite<T: DeserializeOwned + Serialize>(json: &[u8]) -> Result<String, ReadError> {
    let object: T = from_slice(json)?;
    serde_json::to_string(&object).map_err(|error| ReadError::at(".".to_owned(), &error))
}

impl ReadError {
    fn at(path: String, error: &serde_json::Error) -> Self {
        Self {
            path,
            reason: error.to_string(),
        }
    }
}
