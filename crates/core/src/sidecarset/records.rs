//! What a Pod carries about its SidecarSets: which ones it has, at which hash, and which images ran before an update.
//!
//! Each of these annotations is a JSON map with an entry per set, and a set changes only its own. The oldest releases wrote nothing but the hash; that is read,
//! and becomes a whole entry when the map is written the next time.

use std::collections::BTreeMap;

use kruise_api::names::annotation;
use kruise_api::pod::Pod;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::shared::go_json;

/// What a Pod says about one set. Fields are in the order in which the original writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// When the containers got there.
    #[serde(default)]
    pub update_timestamp: Option<String>,
    /// Hash of the set that the containers are at.
    #[serde(default)]
    pub hash: String,
    /// Name of the set.
    #[serde(default)]
    pub sidecar_set_name: String,
    /// Containers of the set.
    #[serde(default)]
    pub sidecar_list: Option<Vec<String>>,
    /// Revision of the set that the containers are at.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub controller_revision: String,
}

impl Record {
    /// Reads an entry, and whether it is in the form of the oldest releases.
    fn read(set: &str, entry: &RawValue) -> Result<(Self, bool), serde_json::Error> {
        let is_old = entry.get().starts_with('"');
        let record = if is_old {
            Self {
                hash: serde_json::from_str(entry.get())?,
                sidecar_set_name: set.to_owned(),
                ..Self::default()
            }
        } else {
            serde_json::from_str(entry.get())?
        };
        Ok((record, is_old))
    }
}

/// What ran before an update of a set's containers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateState {
    /// Hash of the set at the first update.
    pub revision: String,
    /// Time of the first update.
    pub update_timestamp: Option<String>,
    /// The images that were replaced, by container.
    #[serde(deserialize_with = "or_default")]
    pub last_container_statuses: BTreeMap<String, LastStatus>,
}

/// What a container ran before an update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastStatus {
    /// Its image, by ID; empty when that was not known.
    #[serde(rename = "imageID", skip_serializing_if = "String::is_empty")]
    pub image_id: String,
}

/// Records by set, as one annotation has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// By set.
    pub by_set: BTreeMap<String, Record>,
    /// One of them is in the form of the oldest releases.
    pub has_old_form: bool,
}

impl Records {
    /// Reads an annotation of a Pod; nothing is in it when the Pod does not have it.
    pub fn read(pod: &Pod, key: &str) -> Result<Self, String> {
        let text = pod.metadata.annotation(key).unwrap_or_default();
        Self::parse(text).map_err(|error| format!("annotation {key}: {error}"))
    }

    /// Reads the text of such an annotation.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let mut records = Self::default();
        for (set, entry) in entries(text)? {
            let (record, is_old) = Record::read(&set, entry)?;
            records.has_old_form |= is_old;
            records.by_set.insert(set, record);
        }
        Ok(records)
    }

    /// Returns the annotation.
    pub fn text(&self) -> String {
        written(&self.by_set)
    }
}

/// Returns what an annotation of a Pod says about one set. Those of the other sets are passed over.
pub fn record(pod: &Pod, key: &str, set: &str) -> Result<Option<Record>, String> {
    let text = pod.metadata.annotation(key).unwrap_or_default();
    let read = |text| match entries(text)?.remove(set) {
        Some(entry) => Record::read(set, entry).map(|(record, _)| Some(record)),
        None => Ok(None),
    };
    read(text).map_err(|error: serde_json::Error| format!("annotation {key}: {error}"))
}

/// The entries of a map, each as it stands there.
fn entries(text: &str) -> Result<BTreeMap<String, &RawValue>, serde_json::Error> {
    if text.is_empty() {
        return Ok(BTreeMap::new());
    }
    let entries: Option<BTreeMap<String, &RawValue>> = serde_json::from_str(text)?;
    Ok(entries.unwrap_or_default())
}

/// Returns the names of the sets that a Pod says were injected into it.
pub fn injected(pod: &Pod) -> impl Iterator<Item = &str> {
    let list = pod
        .metadata
        .annotation(annotation::SIDECAR_SET_INJECTED)
        .unwrap_or_default();
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// Returns what ran before the last updates, by set.
pub fn update_states(pod: &Pod) -> Result<BTreeMap<String, UpdateState>, String> {
    read_map(pod, annotation::SIDECAR_SET_IN_PLACE_STATE)
}

/// Returns what ran before the last updates of one set.
pub fn update_state(pod: &Pod, set: &str) -> Result<Option<UpdateState>, String> {
    let key = annotation::SIDECAR_SET_IN_PLACE_STATE;
    let text = pod.metadata.annotation(key).unwrap_or_default();
    let read = |text| match entries(text)?.remove(set) {
        Some(entry) => serde_json::from_str(entry.get()).map(Some),
        None => Ok(None),
    };
    read(text).map_err(|error: serde_json::Error| format!("annotation {key}: {error}"))
}

/// Returns which container works now, by sidecar that is updated hot.
pub fn working_containers(pod: &Pod) -> Result<BTreeMap<String, String>, String> {
    read_map(pod, annotation::SIDECAR_SET_WORKING_CONTAINER)
}

/// Returns a map as the text of an annotation.
pub fn written<T: Serialize>(map: &BTreeMap<String, T>) -> String {
    let text = serde_json::to_string(map).unwrap_or_else(|_| "{}".to_owned());
    go_json::escape(&text)
}

fn read_map<T: serde::de::DeserializeOwned>(pod: &Pod, key: &str) -> Result<BTreeMap<String, T>, String> {
    let Some(text) = pod.metadata.annotation(key).filter(|text| !text.is_empty()) else {
        return Ok(BTreeMap::new());
    };
    let map: Option<BTreeMap<String, T>> =
        serde_json::from_str(text).map_err(|error| format!("annotation {key}: {error}"))?;
    Ok(map.unwrap_or_default())
}

fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::fixture::{Fixture as _, running_pod};

    fn pod(value: &str) -> Pod {
        running_pod("p").annotation(annotation::SIDECAR_SET_HASH, value).typed()
    }

    #[test]
    fn records_are_written_as_they_were_read() {
        let text = r#"{"log":{"updateTimestamp":"2024-05-01T08:00:00Z","hash":"bzv6","sidecarSetName":"log","sidecarList":["log"],"controllerRevision":"log-78d6bc76b8"},"z":{"updateTimestamp":null,"hash":"a","sidecarSetName":"z","sidecarList":null}}"#;
        let records = Records::read(&pod(text), annotation::SIDECAR_SET_HASH).unwrap();
        assert_eq!((records.text(), records.has_old_form), (text.to_owned(), false));
        let hash =
            |set| record(&pod(text), annotation::SIDECAR_SET_HASH, set).map(|found| found.map(|found| found.hash));
        assert_eq!((hash("log"), hash("none")), (Ok(Some("bzv6".to_owned())), Ok(None)));
    }

    #[test]
    fn the_oldest_form_is_read_and_becomes_a_whole_entry() {
        let records = Records::read(&pod(r#"{"log":"abc"}"#), annotation::SIDECAR_SET_HASH).unwrap();
        assert!(records.has_old_form);
        let one = record(&pod(r#"{"z":{},"log":"abc"}"#), annotation::SIDECAR_SET_HASH, "log").unwrap();
        assert_eq!(one.as_ref(), records.by_set.get("log"));
        assert_eq!(
            records.text(),
            r#"{"log":{"updateTimestamp":null,"hash":"abc","sidecarSetName":"log","sidecarList":null}}"#
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for text in ["{", "[]", "1", r#"{"log":1}"#] {
            let error = Records::read(&pod(text), annotation::SIDECAR_SET_HASH).unwrap_err();
            assert!(error.contains("kruise.io/sidecarset-hash"), "{error}");
            assert!(
                record(&pod(text), annotation::SIDECAR_SET_HASH, "log").is_err(),
                "{text}"
            );
        }
        assert_eq!(
            Records::read(&pod("null"), annotation::SIDECAR_SET_HASH),
            Ok(Records::default())
        );
        assert_eq!(
            injected(
                &running_pod("p")
                    .annotation(annotation::SIDECAR_SET_INJECTED, "a, b,,")
                    .typed()
            )
            .collect::<Vec<_>>(),
            ["a", "b"]
        );
    }
}
